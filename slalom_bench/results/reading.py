"""Reading a run directory: the scores of every cell, and the tables that a person reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_bench import registry
from slalom_bench.errors import StoreError
from slalom_bench.results.statistics import Ranked, Scores, average_seeds, rank
from slalom_bench.run.store import CellStore, RunStore

PRIMARY = "@primary"


@dataclass(frozen=True)
class MetricResult:
    """One metric's rows on one cell."""

    label: str
    rows: Mapping[str, Mapping[str, Any]]

    @property
    def name(self) -> str:
        return self.label.split("@")[0]


@dataclass(frozen=True)
class CellResult:
    """A cell as it was stored."""

    identity: Mapping[str, Any]
    explanations: Mapping[str, Mapping[str, Any]]
    costs: Mapping[str, Mapping[str, float]]
    metrics: Mapping[str, MetricResult]

    @property
    def explainer(self) -> str:
        """Name and parameters, as on the command line."""
        entry = self.identity["explainer"]
        params = ",".join(f"{key}={value}" for key, value in entry["params"].items())
        return entry["name"] + (f":{params}" if params else "")

    @property
    def failed(self) -> int:
        """Samples with an error row anywhere."""
        tables = [self.explanations, *(metric.rows for metric in self.metrics.values())]
        return sum(1 for sample in self.explanations if any(table.get(sample, {}).get("error") for table in tables))

    def values(self, label: str, name: str) -> dict[str, float | None]:
        """One named value of a metric per sample; None where undefined or failed."""
        chosen = {}
        for sample, row in self.metrics[label].rows.items():
            key = name
            if name == PRIMARY:
                key = (self.explanations.get(sample, {}).get("explanation") or {}).get("primary", PRIMARY)
            chosen[sample] = row["values"].get(key)
        return chosen

    def reasons(self, label: str, name: str) -> Counter[str]:
        """Why values are undefined, counted."""
        counts: Counter[str] = Counter()
        for sample, row in self.metrics[label].rows.items():
            explanation = self.explanations.get(sample, {}).get("explanation") or {}
            key = explanation.get("primary", name) if name == PRIMARY else name
            if row.get("error"):
                counts[f"failed: {row['error']['type']}"] += 1
            elif key in row["undefined"]:
                counts[row["undefined"][key]] += 1
        return counts

    def mean_cost(self, what: str = "explain") -> dict[str, float]:
        """Mean cost per sample of explaining (or of one metric, by label)."""
        rows = [row for key, row in self.costs.items() if key.startswith(f"{what}:")]
        names = [name for name in (rows[0] if rows else {}) if name != "id"]
        return {name: sum(row[name] for row in rows) / len(rows) for name in names}


def require_run(path: Path) -> None:
    """An error where a directory is not that of a run."""
    if not (path / "run.json").is_file():
        raise StoreError(f"{path} is not a run directory (no run.json); give the --out of a `slalom-bench run`")


def read_run(path: Path) -> list[CellResult]:
    """Every cell of a run directory."""
    require_run(path)
    return [read_cell(store) for store in RunStore(path).cells()]


def read_cell(store: CellStore) -> CellResult:
    metrics = {label: MetricResult(label, store.scores(label).rows) for label in store.metrics()}
    return CellResult(store.identity, store.explanations.rows, store.costs.rows, metrics)


@dataclass(frozen=True)
class Group:
    """Cells that may be compared with each other: all but explainer and seed is the same."""

    task: Mapping[str, Any]
    model: Mapping[str, Any]
    budget: int
    settings: Mapping[str, Any]
    cells: Sequence[CellResult]

    @property
    def title(self) -> str:
        return f"{self.task['name']} · {self.model['name']} · budget {self.budget}"

    def labels(self) -> list[str]:
        """Metric labels present in any cell, in the order that the task names them."""
        present = {label for cell in self.cells for label in cell.metrics}
        return sorted(present, key=metric_order)

    def by_explainer(self) -> dict[str, list[CellResult]]:
        found: dict[str, list[CellResult]] = {}
        for cell in self.cells:
            found.setdefault(cell.explainer, []).append(cell)
        return found

    def ranking(self, label: str, name: str | None = None) -> list[Ranked]:
        """Explainers ranked by a metric's headline value (or another), seeds averaged within samples first."""
        entry = registry.metrics.get(label.split("@")[0])
        table: dict[str, Scores] = {}
        for explainer, cells in self.by_explainer().items():
            seeds = [c.values(label, name or entry.headline) for c in cells if label in c.metrics]
            if seeds:
                table[explainer] = average_seeds(seeds).values
        return rank(table, entry.direction)


def groups(cells: Sequence[CellResult]) -> list[Group]:
    """Comparable groups, in the order in which they appear."""
    found: dict[str, list[CellResult]] = {}
    for cell in cells:
        rest = {key: value for key, value in cell.identity.items() if key not in ("explainer", "seed")}
        found.setdefault(repr(sorted(rest.items(), key=lambda item: item[0])), []).append(cell)
    made = []
    for members in found.values():
        first = members[0].identity
        settings = {key: first[key] for key in ("protocol", "removal", "max_tokens")}
        made.append(Group(first["task"], first["model"], first["budget"], settings, members))
    return made


def metric_order(label: str) -> tuple[int, str]:
    """Where a metric's column stands."""
    entry = registry.metrics.find(label.split("@")[0])
    return (1000 if entry is None else entry.order, label)
