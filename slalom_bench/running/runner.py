"""Running a plan: every cell taken up, explained, scored, kept row by row. Resumable at any point, by any process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from slalom_bench import registry
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.core.types import Example
from slalom_bench.errors import InvalidInput, StoreError, Unsupported
from slalom_bench.handle.backend import MeteredBackend
from slalom_bench.running.identity import CellIdentity, MetricLabel
from slalom_bench.running.loading import Loader, Subject
from slalom_bench.running.plan import Cell, Plan, Skip, check_removal
from slalom_bench.running.progress import Reporter
from slalom_bench.running.provenance import now, provenance
from slalom_bench.running.records import is_echo, is_failed, is_passing
from slalom_bench.running.store import CellStore, RunStore
from slalom_bench.running.suite import Suite
from slalom_bench.running.work import CellWork

Mode = Literal["resume", "restart", "score-only"]


@dataclass
class RunResult:
    """What a call of `run` did, and where its results are."""

    path: Path
    suite: Suite
    plan: Plan
    explained: int = 0
    scored: int = 0
    reused: int = 0
    failed: int = 0
    """Samples whose explanation or score is an error row, in all the cells of the plan."""
    passing: int = 0
    """Those of them whose error was of the moment (files, network, memory): the next run tries them again."""
    retried: int = 0
    """Samples that had failed before and were tried again."""
    interrupted: bool = False
    repairs: list[str] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    """What the plan left out, and what turned out not to work when it was taken up."""
    identities: dict[Cell, CellIdentity] = field(default_factory=dict)
    """What each cell of the plan that was taken up turned out to be, in the order of the plan."""


def run_suite(
    suite: Suite,
    out: Path,
    options: ModelOptions,
    *,
    mode: Mode = "resume",
    retry_failed: bool = False,
    token_budget: int | None = None,
    reporter: Reporter | None = None,
    command: list[str] | None = None,
) -> RunResult:
    """Plan a suite, then run every cell into the run directory `out`.

    Args:
        suite: what to compute.
        out: the run directory, made if it is not there.
        options: how models are loaded.
        mode: go on, begin anew, or score what is explained.
        retry_failed: compute samples that failed again; those whose error was of the moment always are.
        token_budget: padded tokens of a batch, where the model's own choice should be overruled.
        reporter: shows progress.
        command: the command line, for the provenance.

    Returns:
        What was done.
    """
    reporter = reporter or Reporter(show=False)
    loader = Loader(options, reporter, token_budget)
    plan = loader.plan(suite)
    for skip in plan.skips:
        reporter.say(f"skipped {skip.what}: {skip.reason}", style="yellow")
    return Runner(suite, plan, RunStore(out), loader, mode, retry_failed).run(command)


class Runner:
    """One call on one run directory."""

    def __init__(
        self,
        suite: Suite,
        plan: Plan,
        store: RunStore,
        loader: Loader,
        mode: Mode = "resume",
        retry_failed: bool = False,
    ) -> None:
        self.store = store
        self.loader = loader
        self.mode = mode
        self.retry_failed = retry_failed
        self.reporter = loader.reporter
        self.result = RunResult(store.path, suite, plan, skips=list(plan.skips))
        self._call = ""
        self._sources: dict[str, dict[str, Any]] = {}
        self._meters: dict[str, MeteredBackend] = {}
        self._kept: dict[str, set[str]] = {}
        self._refused: dict[tuple[str, str], str] = {}

    def run(self, command: list[str] | None = None) -> RunResult:
        """Every cell of the plan, those that another process holds last."""
        result = self.result
        call = {"suite": result.suite.model_dump(mode="json"), "mode": self.mode}
        call |= provenance(self.loader.options.device, command)
        if self.mode == "restart":
            self.store.check_restart()
        self._call = self.store.open(call | {"skips": [vars(skip) for skip in result.skips], "sources": []})
        try:
            with self.reporter.running(len(result.plan.cells), sum(cell.samples for cell in result.plan.cells)):
                self._run_all(list(result.plan.cells))
        except KeyboardInterrupt:
            result.interrupted = True
        except Exception:
            with contextlib.suppress(StoreError):
                self._finish()
            raise
        self._finish()
        return result

    def _run_all(self, cells: list[Cell]) -> None:
        waiting = []
        for i, cell in enumerate(cells):
            if not self._run_cell(cell, wait=False):
                waiting.append(cell)
            self.loader.keep(cells[i + 1 :])
        for i, cell in enumerate(waiting):
            self.reporter.say(f"waiting for another process that works on {cell.title}")
            self._run_cell(cell, wait=True)
            self.loader.keep(waiting[i + 1 :])

    def _run_cell(self, cell: Cell, *, wait: bool) -> bool:
        """Take up one cell and finish it; False where another process has it."""
        try:
            subject = self._taken_up(cell)
            identity = subject.identify(cell)
        except Unsupported as error:
            self._skip(cell, str(error))
            return True
        if self.mode == "score-only" and not self.store.has(identity):
            self._skip(cell, "nothing is explained yet that could be scored: run it without --mode score-only")
            return True
        self._note(subject)
        with self.store.taken(identity, restart=self.mode == "restart", wait=wait) as store:
            if store is None:
                return False
            self.result.identities[cell] = identity
            self._work(cell, subject, store)
        self.reporter.cell_done()
        return True

    def _taken_up(self, cell: Cell) -> Subject:
        """The loaded subject of a cell; Unsupported where it does not give what the cell needs, asked for once."""
        if cell.subject in self._refused:
            raise Unsupported(self._refused[cell.subject])
        try:
            subject = self.loader.subject(cell)
        except Unsupported as error:
            self._refused[cell.subject] = str(error)
            raise
        check_removal(cell.removal, subject.classifier.capabilities)
        if cell.explanations is None:
            subject.classifier.require(*registry.explainers.get(Ref.parse(cell.explainer).name).needs)
        return subject

    def _work(self, cell: Cell, subject: Subject, store: CellStore) -> None:
        """The missing explanations, then the missing scores, sample by sample."""
        examples = subject.examples(cell)
        labels = list(cell.labels.values())
        self.result.repairs += store.marker.lost()
        missing = [example for example in examples if not self._is_done(store, example.id, labels)]
        tables = (store.explanations, store.costs, *(store.scores(label) for label in labels))
        self.result.repairs += [table.repaired for table in tables if table.repaired]
        self.reporter.cell(cell.title, len(missing), len(examples))
        self.result.reused += len(examples) - len(missing)
        work = CellWork(cell, subject)
        self._keep_samples(work, store.identity, examples)
        if missing:
            store.uncommit()
            try:
                for done, example in enumerate(missing, start=1):
                    self._sample(work, store, example, labels)
                    self.reporter.sample(done, len(missing))
            finally:
                store.sync()
        ids = [example.id for example in examples]
        if store.explanations.rows.keys() >= set(ids):
            store.commit(ids, labels)
        self.result.failed += count_failed(store, ids, labels)
        self.result.passing += count_failed(store, ids, labels, is_passing)

    def _sample(self, work: CellWork, store: CellStore, example: Example, labels: Sequence[MetricLabel]) -> None:
        """Explain (unless stored) and score (where not stored) one example, and keep every row."""
        row = store.explanations.rows.get(example.id)
        before = (row, *(store.scores(label).rows.get(example.id) for label in labels))
        self.result.retried += any(is_failed(one) and not self._stands(one) for one in before)
        fresh = not self._stands(row) and self.mode != "score-only"
        if fresh:
            row, cost = work.explain(example)
            store.costs.append(cost)
            store.explanations.append(row)
            self.result.explained += 1
        if row is None:
            return
        for label in labels:
            # a score without its explanation (a power cut may lose it) is of another one than was now computed
            if not fresh and self._is_scored(store, example.id, label):
                continue
            scored, spent = work.score(example, row, label)
            if spent is not None:
                store.costs.append(spent)
            store.scores(label).append(scored)
            self.result.scored += 1

    def _is_done(self, store: CellStore, sample: str, labels: Sequence[MetricLabel]) -> bool:
        row = store.explanations.rows.get(sample)
        if row is None and self.mode == "score-only":
            return True
        if not self._stands(row) and self.mode != "score-only":
            return False
        return all(self._is_scored(store, sample, label) for label in labels)

    def _is_scored(self, store: CellStore, sample: str, label: MetricLabel) -> bool:
        """Whether there is a score to be kept; that nothing was explained holds only as long as nothing is."""
        row = store.scores(label).rows.get(sample)
        explained = "error" not in store.explanations.rows[sample]
        return self._stands(row) and not (explained and is_echo(row))

    def _stands(self, row: Mapping[str, Any] | None) -> bool:
        """Whether a row is kept: one that is there, and no error that is to be tried again."""
        return row is not None and not is_passing(row) and not (self.retry_failed and is_failed(row))

    def _keep_samples(self, work: CellWork, identity: CellIdentity, examples: Sequence[Example]) -> None:
        """The texts in the model's tokens; a text that cannot be encoded has no row."""
        kept = self._kept.setdefault(identity.samples_key, set())
        if all(example.id in kept for example in examples):
            return
        with self.store.keeping_samples(identity) as rows:
            for example in examples:
                if example.id in rows.rows:
                    continue
                with contextlib.suppress(InvalidInput):
                    rows.append(work.sample_row(example))
            self._say_cut(work.cell, [rows.rows[example.id] for example in examples if example.id in rows.rows])
        kept.update(example.id for example in examples)

    def _say_cut(self, cell: Cell, rows: Sequence[dict[str, Any]]) -> None:
        """How many texts were cut and to what, and how many human marks fell away with the rest."""
        cut = [row for row in rows if row["truncated"]]
        if not cut:
            return
        gone = sum(row.get("marks_cut", 0) for row in rows)
        marked = gone + sum(sum(row["marks"]) for row in rows if row["marks"])
        why = "what the model reads" if cell.max_tokens is None else "--max-tokens"
        self.reporter.say(
            f"{cell.task} · {cell.model}: {len(cut)} of {len(rows)} texts were cut to "
            f"{max(len(row['tokens']) for row in cut)} tokens ({why}; the longest had "
            f"{max(len(row['tokens']) + row['truncated'] for row in cut)})"
            + (f", and with them {gone} of {marked} marked tokens fell away" if gone else "")
        )

    # ---- the record of this call ----

    def _skip(self, cell: Cell, reason: str) -> None:
        skip = Skip(cell.title, reason)
        self.result.skips.append(skip)
        self.store.update(self._call, {"skips": [vars(skip) for skip in self.result.skips]})
        self.reporter.say(f"skipped {skip.what}: {skip.reason}", style="yellow")
        self.reporter.cell(cell.title, 0, cell.samples)
        self.reporter.cell_done()

    def _note(self, subject: Subject) -> None:
        """Say once what a subject may cost, and record where its data and weights came from."""
        facts = subject.facts()
        key = f"{facts['task']} {facts['model']}"
        backend = subject.classifier.backend
        if isinstance(backend, MeteredBackend):
            self._meters[subject.model] = backend
        if key in self._sources:
            return
        self._sources[key] = facts
        self.store.update(self._call, {"sources": list(self._sources.values())})
        if isinstance(backend, MeteredBackend):
            cells = [cell for cell in self.result.plan.cells if cell.subject == (facts["task"], subject.model)]
            queries = sum(cell.budget * cell.samples for cell in cells)
            sequences = []
            for example in subject.examples(cells[0]):
                with contextlib.suppress(InvalidInput):
                    sequences.append(subject.sample(example, cells[0].max_tokens).ids)
            amounts = backend.estimate(queries, sequences).items()
            parts = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in amounts)
            self.reporter.say(f"model {subject.model}: at most {parts} to explain; metrics come on top")

    def _finish(self) -> None:
        result = self.result
        order = {cell: i for i, cell in enumerate(result.plan.cells)}
        result.identities = dict(sorted(result.identities.items(), key=lambda item: order[item[0]]))
        self.store.update(
            self._call,
            {
                "backends": {model: backend.report() for model, backend in self._meters.items()},
                "skips": [vars(skip) for skip in result.skips],
                "ended": now(),
                "explained": result.explained,
                "scored": result.scored,
                "reused": result.reused,
                "failed": result.failed,
                "passing": result.passing,
                "retried": result.retried,
                "interrupted": result.interrupted,
            },
        )


def count_failed(
    store: CellStore,
    ids: Sequence[str],
    labels: Sequence[MetricLabel],
    fault: Callable[[Mapping[str, Any] | None], bool] = is_failed,
) -> int:
    """Samples of a cell with an error (of one kind) in their explanation or in a score."""
    tables = [store.explanations.rows, *(store.scores(label).rows for label in labels)]
    return sum(1 for sample in ids if any(fault(table.get(sample)) for table in tables))
