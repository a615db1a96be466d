"""Example texts with their tokens coloured under each explainer (Fig. 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slalom_bench.core.safe_text import visible
from slalom_bench.core.types import Sample
from slalom_bench.errors import StoreError
from slalom_bench.results.collect import Collected
from slalom_bench.results.reading import CellResult, Run
from slalom_bench.running.records import explanation_from_dict
from slalom_bench.showing.figures import FAMILIES
from slalom_bench.showing.shades import Layer, layers
from slalom_bench.showing.units import Reading, read

MOST_UNITS = 160
"""Longer texts are cut in the view, with a note of how much is left."""
FAINT = 0.04


def examples(run: Run, collected: Collected, count: int) -> list[dict[str, Any]]:
    """The first samples of a submission whose texts the run kept, each under every explainer at its largest budget."""
    first = collected.cells[0][0]
    rows = run.texts(first.identity)
    chosen = [rows[sample] for sample in collected.submission.samples if sample in rows][:count]
    weights = first.identity.model.identity
    sources = [source for call in run.calls for source in call["sources"]]
    names: list[str] = next((s.get("class_names", []) for s in sources if s.get("weights") == weights), [])
    return [_example(row, _largest(collected), names) for row in chosen]


def _largest(collected: Collected) -> list[tuple[str, str, CellResult]]:
    """The row of the largest budget for each explainer: title, family, its first seed."""
    found: dict[str, tuple[int, str, CellResult]] = {}
    for row, cells in collected.rows():
        title, family = row.explainer.title, row.explainer.family
        if title not in found or row.budget > found[title][0]:
            found[title] = (row.budget, family, cells[0])
    order = {family: i for i, family in enumerate(FAMILIES)}
    ranked = sorted(found.items(), key=lambda item: (order.get(item[1][1], len(order)), item[0]))
    return [(title, family, cell) for title, (_, family, cell) in ranked]


def _example(row: Mapping[str, Any], explainers: Sequence[tuple[str, str, CellResult]], names: Sequence[str]) -> Any:
    sample = Sample(
        row["id"],
        np.arange(len(row["tokens"])),
        row["text"],
        row["offsets"],
        row["label"],
        row["marks"],
        row["truncated"],
    )
    reading = read(sample, row["tokens"])
    human = [] if sample.marks is None else [bool(sample.marks[list(u.positions)].any()) for u in reading.units]
    readings = []
    target = None
    for title, _, cell in explainers:
        stored = cell.explanations.get(sample.id, {})
        if "explanation" not in stored:
            why = stored.get("error", {}).get("message", "not computed")
            readings.append({"name": title, "score": "", "scale": "", "spans": [], "why": visible(str(why))})
            continue
        explanation = explanation_from_dict({**stored["explanation"], "surrogate": None})
        if len(explanation) != len(sample):
            raise StoreError(
                f"{title}: {len(explanation)} scores for the {len(sample)} tokens of {sample.id} that the run kept; "
                "compute the cell again: run its command with --mode restart"
            )
        target = explanation.target
        readings += [_reading(title, layer, reading, human) for layer in layers(explanation, reading)]
    label = "" if sample.label is None else _class(names, sample.label)
    return {
        "id": sample.id,
        "label": visible(label),
        "target": "" if target is None else visible(_class(names, target)),
        "readings": readings,
        "human": any(human),
        "tokens": len(sample),
        "truncated": sample.truncated,
        "hidden": max(0, len(reading.units) - MOST_UNITS),
    }


def _class(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else f"class {index}"


def _reading(title: str, layer: Layer, reading: Reading, human: Sequence[bool]) -> dict[str, Any]:
    """The text as spans: gap, text, hue, strength in per cent, score."""
    spans = []
    for i, unit in enumerate(reading.units[:MOST_UNITS]):
        strength = float(layer.strengths[i])
        hue = layer.hue(i) if strength >= FAINT else ""
        spans.append(
            {
                "gap": unit.gap,
                "text": unit.text,
                "hue": hue,
                "strength": round(85 * strength),
                "score": f"{layer.scores[i]:+.3g}",
                "human": bool(human and human[i]),
            }
        )
    return {
        "name": title,
        "score": layer.name,
        "scale": f"±{layer.high:.3g}" if layer.signed else f"{layer.low:.3g} to {layer.high:.3g}",
        "spans": spans,
        "why": "",
    }
