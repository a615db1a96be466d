"""The runtime profile of a run: what each explainer costs at each budget, and what that cost buys (F.6, Table 14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slalom_bench.errors import StoreError
from slalom_bench.results.boards import MetricResult
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import read_run
from slalom_bench.running.files import read_json, write_json
from slalom_bench.running.identity import CellIdentity, MetricLabel
from slalom_bench.running.loading import Loader
from slalom_bench.running.plan import Cell, build_explainer
from slalom_bench.running.profiling import machine_fingerprint, profile_explainer
from slalom_bench.running.runner import RunResult
from slalom_bench.running.shapes import Profile, why

FILE = "profile.json"
SUMMARY = {"n", "undefined", "mean", "standard_error", "low", "high"}
"""What a profile says of a metric, beside its direction."""


@dataclass(frozen=True)
class Timed:
    """How a profile is measured."""

    samples: int = 3
    warmup: int = 1
    replicates: int = 3


@dataclass(frozen=True)
class ProfileRow:
    """What one explainer costs at one budget on a sample, and the metrics of the same cell."""

    task: str
    model: str
    explainer: str
    budget: int
    seconds: float
    """Median; the quartiles are `seconds_low` and `seconds_high`."""
    seconds_low: float
    seconds_high: float
    model_seconds: float
    outside_seconds: float
    """Of the method itself: sampling, fitting, packing."""
    queries: float
    forwards: float
    backwards: float
    tokens: float
    padding_share: float
    peak_memory_mb: float
    memory_kind: str
    quality: Mapping[MetricLabel, MetricResult]

    def to_dict(self) -> dict[str, Any]:
        """For profile.json and `--json`."""
        figures = {name: value for name, value in vars(self).items() if name != "quality"}
        quality = {
            str(label): {**found.result.model_dump(include=SUMMARY), "direction": found.info.direction}
            for label, found in self.quality.items()
        }
        return {**figures, "quality": quality}


def profile_run(result: RunResult, loader: Loader, timed: Timed) -> list[ProfileRow]:
    """Profile every cell of a finished run, one alone at a time.

    Args:
        result: the run; its first seed is profiled.
        loader: loads the models; what this machine has profiled before needs none.
        timed: how often what is measured.

    Returns:
        One row for each cell; they are written to the run's profile.json too.
    """
    machine = machine_fingerprint()
    quality = _quality(result)
    cells = [cell for cell in result.identities if cell.seed == result.suite.seeds[0]]
    settings = {"machine": machine["id"], **asdict(timed)}
    rows = []
    with loader.reporter.running(len(cells), len(cells)):
        for i, cell in enumerate(cells):
            identity = result.identities[cell]
            path = result.path / "cells" / identity.folder / FILE
            found = _kept(path, settings)
            loader.reporter.cell(f"profile {cell.title}", 1 if found is None else 0, 1)
            if found is None:
                found = {"settings": settings, "machine": machine, **_measure(cell, loader, timed)}
                write_json(path, found)
                loader.reporter.sample(1, 1)
            rows.append(_row(identity, found, quality.get(identity.key, {})))
            loader.reporter.cell_done()
            loader.keep(cells[i + 1 :])
    write_json(result.path / FILE, {"machine": machine, "rows": [row.to_dict() for row in rows]})
    return rows


def _kept(path: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was measured before in the same way on this machine; None where nothing was."""
    if not path.exists():
        return None
    found = read_json(path)
    try:
        Profile.model_validate(found)
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({why(error)}); delete it to measure again") from error
    return dict(found) if found["settings"] == settings else None


def _measure(cell: Cell, loader: Loader, timed: Timed) -> dict[str, Any]:
    subject = loader.subject(cell)
    return profile_explainer(
        subject.classifier,
        build_explainer(cell.explainer, cell.protocol),
        [subject.sample(example, cell.max_tokens) for example in subject.examples(cell)[: timed.samples]],
        cell.budget,
        seed=cell.seed,
        target=subject.target(cell),
        warmup=timed.warmup,
        replicates=timed.replicates,
    )


def _quality(result: RunResult) -> dict[str, dict[MetricLabel, MetricResult]]:
    """The metrics of each cell's row, by the cell's key; those of the model itself are left out."""
    found: dict[str, dict[MetricLabel, MetricResult]] = {}
    for collected in collect(read_run(result.path).only(result.identities.values()), unfinished=True):
        metrics = collected.submission.metrics
        for row, cells in collected.rows():
            own = {
                label: MetricResult(metrics[label], summary)
                for label, summary in row.results.items()
                if metrics[label].level == "explainer"
            }
            found |= {cell.identity.key: own for cell in cells}
    return found


def _row(identity: CellIdentity, profile: Mapping[str, Any], quality: Mapping[MetricLabel, MetricResult]) -> ProfileRow:
    return ProfileRow(
        task=identity.task.name,
        model=identity.model.name,
        explainer=identity.explainer.title,
        budget=identity.budget,
        seconds=profile["seconds"]["median"],
        seconds_low=profile["seconds"]["low"],
        seconds_high=profile["seconds"]["high"],
        model_seconds=profile["model_seconds"]["median"],
        outside_seconds=profile["outside_seconds"]["median"],
        queries=profile["queries"],
        forwards=profile["forwards"],
        backwards=profile["backwards"],
        tokens=profile["tokens"],
        padding_share=profile["padding_share"],
        peak_memory_mb=profile["memory"]["peak"] / 1e6,
        memory_kind=profile["memory"]["kind"],
        quality=quality,
    )
