"""A run directory as objects: read in this one place, once a command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from slalom_bench.core.types import Explanation
from slalom_bench.results.diagnostics import LAW, QUALITY
from slalom_bench.running.identity import CellIdentity, MetricLabel
from slalom_bench.running.records import FAILED, explanation_from_dict
from slalom_bench.running.store import CellStore, RunStore
from slalom_bench.running.tables import Table, forget

PRIMARY = "@primary"
"""The name of a metric's value that stands for the value of each explanation's own primary score."""
EXPLAINING = "explaining"
"""What was being done when an explanation failed; of a score it is the metric's label."""

StoredRow = Mapping[str, Any]
"""A row of the store: explanation, cost or score of one sample, or its error."""


@dataclass(frozen=True)
class Failure:
    """An error of one sample: what every count of failures, wherever it is shown, is made of."""

    sample: str
    doing: str
    """`explaining`, or the label of the metric."""
    type: str
    message: str


@dataclass(frozen=True)
class Said:
    """What a stored explanation says beside its scores."""

    primary: str
    truncated: bool
    diagnostics: Mapping[str, Any] | None
    """Those that boards show, and the fitting law; None where there is no explanation."""


@dataclass(frozen=True)
class CellResult:
    """One cell as it was stored."""

    identity: CellIdentity
    samples: tuple[str, ...] | None
    """The samples of a finished cell in their order; None while it is not finished."""
    explanations: Table
    costs: Table
    scores: Mapping[MetricLabel, Table]

    @cached_property
    def said(self) -> Mapping[str, Said]:
        """What each explanation says beside its scores: kept, since explanations are much the largest table."""
        found = {}
        for sample, row in self.explanations.items():
            stored = row.get("explanation") or {}
            told = stored.get("diagnostics", {})
            diagnostics = {name: told[name] for name in (*QUALITY, LAW) if name in told} if stored else None
            found[sample] = Said(str(stored.get("primary", PRIMARY)), bool(row.get("truncated")), diagnostics)
        return found

    @property
    def cut(self) -> list[str]:
        """The samples whose text is longer than what was explained."""
        return [sample for sample, said in self.said.items() if said.truncated]

    def values(self, label: MetricLabel, name: str) -> dict[str, float | None]:
        """One named value of a metric for each sample; None where it is undefined or failed."""
        return {sample: row["values"].get(self._value_name(name, sample)) for sample, row in self.scores[label].items()}

    def reason(self, label: MetricLabel, name: str, sample: str) -> str | None:
        """Why a sample has no such value; None where it was not computed, or has one."""
        row = self.scores[label].get(sample)
        if row is None:
            return None
        if error := row.get("error"):
            return f"{FAILED}{error['type']}"
        reason = row["undefined"].get(self._value_name(name, sample))
        return None if reason is None else str(reason)

    def _value_name(self, name: str, sample: str) -> str:
        if not name.startswith(PRIMARY):
            return name
        said = self.said.get(sample)
        return name.replace(PRIMARY, said.primary, 1) if said else name

    def failures(self) -> list[Failure]:
        """Every error of its samples; a score is not one where its explanation had failed already."""
        chosen = None if self.samples is None else set(self.samples)
        tables = [(EXPLAINING, self.explanations), *((str(label), rows) for label, rows in self.scores.items())]
        return [
            Failure(sample, doing, str(row["error"]["type"]), str(row["error"]["message"]))
            for doing, rows in tables
            for sample, row in rows.failed().items()
            if chosen is None or sample in chosen
        ]

    @property
    def failed(self) -> int:
        """Samples with a failure, whatever failed."""
        return len({failure.sample for failure in self.failures()})

    def explained(self) -> dict[str, Explanation]:
        """The explanations of the samples that have one."""
        rows = self.explanations.items()
        return {sample: explanation_from_dict(row["explanation"]) for sample, row in rows if "explanation" in row}

    def diagnostics(self) -> list[Mapping[str, Any]]:
        """What the explainer said of each explanation that there is, as far as boards show it."""
        said = [self.said.get(sample) for sample in (self.said if self.samples is None else self.samples)]
        return [one.diagnostics for one in said if one is not None and one.diagnostics is not None]

    def explaining_costs(self) -> list[StoredRow]:
        """What it took to explain each sample, whether that succeeded or not."""
        samples = self.said if self.samples is None else self.samples
        keys = [f"explain:{sample}" for sample in samples]
        return [self.costs[key] for key in keys if key in self.costs]


@dataclass(frozen=True)
class Run:
    """A run directory: the record of every call on it, and every cell."""

    path: Path
    calls: tuple[Mapping[str, Any], ...]
    cells: tuple[CellResult, ...]

    def only(self, identities: Iterable[CellIdentity]) -> Run:
        """The same run with these cells alone."""
        keys = {identity.key for identity in identities}
        return replace(self, cells=tuple(cell for cell in self.cells if cell.identity.key in keys))

    def tables(self) -> list[list[CellResult]]:
        """Cells that differ in explainer and seed alone, together, by seed."""
        found: dict[str, list[CellResult]] = {}
        for cell in sorted(self.cells, key=lambda cell: (cell.identity.explainer.title, cell.identity.seed)):
            found.setdefault(cell.identity.table_key, []).append(cell)
        return list(found.values())

    def texts(self, identity: CellIdentity) -> Mapping[str, StoredRow]:
        """The texts that a cell explains, in the model's tokens, as far as the run kept them."""
        return RunStore(self.path).samples(identity).rows


def read_run(path: Path) -> Run:
    """Read a run directory.

    Args:
        path: the `--out` of `slalom-bench run`.

    Returns:
        Everything in it but the texts; a directory that is no run, or of another schema, or a finished cell whose
        tables were changed since is an error.
    """
    store = RunStore(path)
    calls = store.calls()
    forget()
    return Run(path, tuple(calls), tuple(_read_cell(cell) for cell in store.cells()))


def _read_cell(store: CellStore) -> CellResult:
    store.marker.check()
    samples = store.samples
    return CellResult(
        store.identity,
        None if samples is None else tuple(samples),
        Table(store.explanations),
        Table(store.costs),
        {label: Table(store.scores(label)) for label in store.labels()},
    )
