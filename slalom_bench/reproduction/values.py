"""From stored rows to the numbers of an entry: one long table of values, and the cells that a layout picks from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from slalom_bench.core.types import Explanation, Floats
from slalom_bench.reproduction.entry import Layout, Selector
from slalom_bench.results.reading import CellResult, Run

COLUMNS = ("task", "model", "explainer", "budget", "seed", "sample", "length", "metric", "name", "value")
COST, AGAINST, SCORES = "cost", "against", "scores"
"""What is read beside the metrics: costs of explaining, likeness to one explainer, mean scores of a text."""


@dataclass(frozen=True)
class Value:
    """A number of an entry: the mean over texts (of means over seeds) with its standard error; of costs the median."""

    mean: float
    error: float | None
    texts: int


@dataclass(frozen=True)
class Filled:
    """The cells of a layout, and its lines where it has them; None where nothing was measured."""

    cells: Mapping[tuple[str, str], Value | None]
    lines: Mapping[tuple[str, str], list[tuple[float, float]]]


def long_table(run: Run, against: str = "") -> pd.DataFrame:
    """Every value of a run as one row; with `against`, how alike each explanation is to that explainer's."""
    rows = [row for cell in run.cells for row in _rows(cell, _lengths(run, cell))]
    if against:
        rows += list(_likeness(run, against))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def fill(table: pd.DataFrame, layout: Layout) -> Filled:
    """The values of every row and column of a layout."""
    cells: dict[tuple[str, str], Value | None] = {}
    lines = {}
    for row, at_row in layout.rows.items():
        for column, at_column in layout.columns.items():
            metric: Selector = {"metric": layout.metric} if layout.metric else {}
            picked = _pick(_pick(_pick(table, metric), at_row), at_column)
            if layout.kind == "lines":
                picked = picked[_x(picked, layout).notna()]
                lines[row, column] = _line(picked, layout)
                picked = _last(picked, layout) if layout.at == "last" else picked
            cells[row, column] = _value(picked, layout)
    for name, parts in layout.sums.items():
        for column in layout.columns:
            found = [cells[part.removeprefix("-"), column] for part in parts]
            known = [value.mean for value in found if value is not None]
            signs = [-1 if part.startswith("-") else 1 for part in parts]
            whole = len(known) == len(parts)
            cells[name, column] = Value(float(np.dot(signs, known)), None, 1) if whole else None
    return Filled(cells, lines)


def _rows(cell: CellResult, lengths: Mapping[str, int]) -> Iterator[tuple[Any, ...]]:
    """The scores and the costs of one cell, of the texts that its last call was about."""
    own = set(cell.samples or ())
    for label, scores in cell.scores.items():
        for sample, row in scores.items():
            for name, value in row.get("values", {}).items() if sample in own else ():
                if value is not None:
                    yield (*_head(cell), sample, lengths.get(sample), label.name, name, value)
    for sample, explanation in cell.explained().items():
        for name, vector in explanation.scores.items() if sample in own else ():
            yield (*_head(cell), sample, lengths.get(sample), SCORES, name, float(vector.mean()))
    for sample in cell.samples or ():
        cost = cell.costs.get(f"explain:{sample}", {})
        for name in ("seconds", "model_seconds", "queries"):
            if name in cost:
                yield (*_head(cell), sample, lengths.get(sample), COST, name, float(cost[name]))


def _head(cell: CellResult) -> tuple[str, str, str, int, int]:
    identity = cell.identity
    return identity.task.name, identity.model.name, identity.explainer.title, identity.budget, identity.seed


def _lengths(run: Run, cell: CellResult) -> dict[str, int]:
    return {sample: len(row["tokens"]) for sample, row in run.texts(cell.identity).items()}


def _likeness(run: Run, against: str) -> Iterator[tuple[Any, ...]]:
    """Correlation and relative distance of the primary scores to those of one explainer, on the same sample."""
    for cells in run.tables():
        references = [cell for cell in cells if cell.identity.explainer.title == against]
        if not references:
            continue
        known = references[0].explained()
        for cell in cells:
            if cell.identity.explainer.title == against:
                continue
            for sample, explanation in cell.explained().items():
                if sample in known and sample in (cell.samples or ()):
                    for name, value in _alike(_scores(explanation), _scores(known[sample])).items():
                        yield (*_head(cell), sample, None, AGAINST, name, value)


def _scores(explanation: Explanation) -> Floats:
    return explanation.scores[explanation.primary]


def _alike(scores: Floats, reference: Floats) -> dict[str, float]:
    """Pearson's correlation, that of the sizes, and the distance over the size of the reference, where defined."""
    found = {}
    for name, (a, b) in {"pearson": (scores, reference), "pearson-sizes": (abs(scores), abs(reference))}.items():
        if len(a) > 1 and np.ptp(a) > 0 and np.ptp(b) > 0:
            found[name] = float(np.corrcoef(a, b)[0, 1])
    if size := float(np.linalg.norm(reference)):
        found["distance"] = float(np.linalg.norm(scores - reference)) / size
    found["l2"] = float(np.linalg.norm(scores - reference))
    return found


def _pick(table: pd.DataFrame, selector: Selector) -> pd.DataFrame:
    chosen = pd.Series(True, index=table.index)
    for field, wanted in selector.items():
        chosen &= table[field].isin(wanted if isinstance(wanted, list) else [wanted])
    return table[chosen]


def _value(picked: pd.DataFrame, layout: Layout) -> Value | None:
    """The mean over texts with its standard error; of costs the median, since the first text warms up."""
    if picked.empty:
        return None
    per_text = picked.groupby(["task", "model", "sample"])["value"].mean().to_numpy() * layout.factor
    if layout.metric == COST:
        return Value(float(np.median(per_text)), None, len(per_text))
    error = float(per_text.std(ddof=1) / np.sqrt(len(per_text))) if len(per_text) > 1 else None
    return Value(float(per_text.mean()), error, len(per_text))


def _x(picked: pd.DataFrame, layout: Layout) -> pd.Series:
    """Where each value stands on the axis; missing where it stands nowhere."""
    if layout.x == "k":
        return pd.to_numeric(picked["name"].str.extract(r"^k(\d+)$")[0])
    return pd.to_numeric(picked[layout.x])


def _line(picked: pd.DataFrame, layout: Layout) -> list[tuple[float, float]]:
    means = picked.assign(x=_x(picked, layout)).groupby("x")["value"].mean() * layout.factor
    return list(zip(means.index.astype(float).tolist(), means.tolist(), strict=True))


def _last(picked: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    x = _x(picked, layout)
    return picked[x == x.max()]
