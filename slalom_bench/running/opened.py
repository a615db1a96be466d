"""A cell that is being worked on: what is stored of it, what is missing, and the lock that holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal

from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.jobs import Job, Row
from slalom_bench.running.plan import Cell
from slalom_bench.running.records import is_echo, is_failed, is_passing
from slalom_bench.running.store import CellStore

Mode = Literal["resume", "restart", "score-only"]


class OpenCell:
    """The missing explanations and scores of one cell, sample by sample, and the rows as they come in.

    Args:
        cell: what is computed.
        store: its files, held by this process.
        samples: the ids of its texts, in their order.
        mode: whether what is missing is explained or only scored.
        retry_failed: whether a failed row counts as missing; one of a fault of the moment always does.
        held: gives the cell's lock back when it is closed.
    """

    def __init__(
        self,
        cell: Cell,
        store: CellStore,
        samples: Sequence[str],
        mode: Mode = "resume",
        retry_failed: bool = False,
        held: ExitStack | None = None,
    ) -> None:
        self.cell = cell
        self.store = store
        self.samples = samples
        self.labels = tuple(cell.labels.values())
        self.repairs = store.marker.lost()
        self._explains = mode != "score-only"
        self._retry_failed = retry_failed
        self._held = held or ExitStack()
        self.missing = [sample for sample in samples if not self._is_done(sample)]
        tables = (store.explanations, store.costs, *(store.scores(label) for label in self.labels))
        self.repairs += [table.repaired for table in tables if table.repaired]
        self.left = len(self.missing)
        """Samples that are not done yet, those that workers have among them."""
        if self.missing:
            store.uncommit()

    def job(self, sample: str) -> Job:
        """What is missing of one sample."""
        row = self.store.explanations.rows.get(sample)
        fresh = not self._stands(row) and self._explains
        # a score without its explanation (a power cut may lose it) is of another one than will now be computed
        labels = [label for label in self.labels if fresh or not self._is_scored(sample, label)]
        explained = None if fresh else self.store.explanations.whole(sample)
        return Job(self.cell, sample, explained, tuple(labels))

    def retries(self, sample: str) -> bool:
        """Whether a sample has failed before and is tried again."""
        tables = (self.store.explanations, *(self.store.scores(label) for label in self.labels))
        rows = [table.rows.get(sample) for table in tables]
        return any(is_failed(row) and not self._stands(row) for row in rows)

    def keep(self, table: str, row: Row) -> None:
        """One row, on the disk when this returns."""
        self.store.table(table).append(row)

    def finish(self) -> None:
        """Say that the cell is done, if all of it is; then let it go."""
        try:
            self.store.sync()
            if self.store.explanations.rows.keys() >= set(self.samples):
                self.store.commit(self.samples, self.labels)
        finally:
            self._held.close()

    def leave(self) -> None:
        """Let the cell go as it is."""
        try:
            self.store.sync()
        finally:
            self._held.close()

    def _is_done(self, sample: str) -> bool:
        row = self.store.explanations.rows.get(sample)
        if row is None and not self._explains:
            return True
        if not self._stands(row) and self._explains:
            return False
        return all(self._is_scored(sample, label) for label in self.labels)

    def _is_scored(self, sample: str, label: MetricLabel) -> bool:
        """Whether there is a score to be kept; that nothing was explained holds only as long as nothing is."""
        row = self.store.scores(label).rows.get(sample)
        explained = "error" not in self.store.explanations.rows[sample]
        return self._stands(row) and not (explained and is_echo(row))

    def _stands(self, row: Mapping[str, Any] | None) -> bool:
        """Whether a row is kept: one that is there, and no error that is to be tried again."""
        return row is not None and not is_passing(row) and not (self._retry_failed and is_failed(row))


def count_failed(
    store: CellStore,
    ids: Sequence[str],
    labels: Sequence[MetricLabel],
    fault: Callable[[Mapping[str, Any] | None], bool] = is_failed,
) -> int:
    """Samples of a cell with an error (of one kind) in their explanation or in a score."""
    tables = [store.explanations.rows, *(store.scores(label).rows for label in labels)]
    return sum(1 for sample in ids if any(fault(table.get(sample)) for table in tables))
