"""A worker: holds one model on its device and computes rows of its cells. In this process, or anywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from slalom_bench.core.types import Example, Ints
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.backend import MeteredBackend
from slalom_bench.running.jobs import Emit, Job, Prepare, Prepared, Row
from slalom_bench.running.loading import Loader, Subject
from slalom_bench.running.plan import Cell
from slalom_bench.running.store import COSTS, EXPLANATIONS, SCORES
from slalom_bench.running.work import CellWork


class Worker:
    """Loads what a cell needs, and works on its samples; it writes nothing itself."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.meters: dict[str, MeteredBackend] = {}
        """Models whose queries cost, by name."""
        self._subject: Subject | None = None
        self._examples: dict[str, Example] = {}
        self._works: dict[Cell, CellWork] = {}

    def prepare(self, wanted: Prepare, keep: Iterable[Cell]) -> Prepared:
        """Load the task and model of a cell; what none of the cells to keep needs is let go first."""
        cell = wanted.cell
        self._subject, self._works, self._examples = None, {}, {}
        self.loader.keep([cell, *keep])
        subject = self._subject = self.loader.subject(cell)
        self._examples = {example.id: example for example in subject.task.data.evaluation}
        backend = subject.classifier.backend
        estimate = {}
        if isinstance(backend, MeteredBackend):
            self.meters[subject.model] = backend
            estimate = dict(backend.estimate(wanted.queries, self._sequences(subject, cell)))
        facts = subject.facts(estimate)
        return Prepared(facts, self._rows(cell, facts.samples(cell)) if wanted.rows else ())

    def perform(self, job: Job, emit: Emit) -> None:
        """Explain one sample and score it, row by row."""
        work, example = self._work(job.cell), self._examples[job.sample]
        row = job.explained
        if row is None:
            row, cost = work.explain(example)
            emit(COSTS, cost)
            emit(EXPLANATIONS, row)
        for label in job.labels:
            scored, spent = work.score(example, row, label)
            if spent is not None:
                emit(COSTS, spent)
            emit(f"{SCORES}{label}", scored)

    def _work(self, cell: Cell) -> CellWork:
        if cell not in self._works:
            if self._subject is None:
                raise InvalidInput(f"{cell.title}: its model was not loaded before its samples were asked for")
            self._works[cell] = CellWork(cell, self._subject)
        return self._works[cell]

    def _rows(self, cell: Cell, samples: Iterable[str]) -> list[Row]:
        rows = []
        for sample in samples:
            with contextlib.suppress(InvalidInput):
                rows.append(self._work(cell).sample_row(self._examples[sample]))
        return rows

    def _sequences(self, subject: Subject, cell: Cell) -> list[Ints]:
        sequences: list[Ints] = []
        for example in subject.examples(cell):
            with contextlib.suppress(InvalidInput):
                sequences.append(subject.sample(example, cell.max_tokens).ids)
        return sequences
