"""Running a plan: every cell taken up, explained, scored, kept row by row. Resumable at any point, by any process."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slalom_bench.core.options import ModelOptions
from slalom_bench.core.safe_text import line
from slalom_bench.errors import InvalidInput, RunStopped, StoreError, Unsupported
from slalom_bench.running.cluster import Cluster
from slalom_bench.running.executor import Executor, InProcess
from slalom_bench.running.facts import Facts
from slalom_bench.running.identity import CellIdentity
from slalom_bench.running.jobs import Job, Prepare, Prepared, Row, given_up
from slalom_bench.running.loading import Loader
from slalom_bench.running.opened import Mode, OpenCell, count_failed
from slalom_bench.running.plan import Cell, Plan, Skip
from slalom_bench.running.progress import Reporter
from slalom_bench.running.provenance import now, provenance
from slalom_bench.running.records import is_passing
from slalom_bench.running.schedule import Schedule
from slalom_bench.running.store import EXPLANATIONS, SCORES, RunStore
from slalom_bench.running.suite import Suite

AHEAD = 2
"""Cells of a model, for each worker, that are open at once."""
RETRIES = 2
"""How often a sample whose worker died is tried again."""


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
    cluster: Cluster | None = None,
    shard: tuple[int, int] = (1, 1),
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
        cluster: workers on Ray; None: everything in this process.
        shard: (i, n): only the i-th of n parts of the texts.

    Returns:
        What was done.
    """
    if cluster is not None:
        from slalom_bench.running.on_ray import OnRay, check_options

        check_options(options)
    reporter = reporter or Reporter(show=False)
    loader = Loader(options, reporter, token_budget)
    plan = loader.plan(suite).part(shard)
    for skip in plan.skips:
        reporter.say(line(f"skipped {skip.what}: {skip.reason}"), style="yellow")
    store = RunStore(out)
    if cluster is None:
        return Runner(suite, plan, store, loader, mode, retry_failed).run(command)
    with OnRay(loader, plan, cluster) as executor:
        return Runner(suite, plan, store, loader, mode, retry_failed, executor).run(command)


class Runner:
    """One call on one run directory: it says what is to be done, writes what comes of it, and computes nothing."""

    def __init__(
        self,
        suite: Suite,
        plan: Plan,
        store: RunStore,
        loader: Loader,
        mode: Mode = "resume",
        retry_failed: bool = False,
        executor: Executor | None = None,
    ) -> None:
        self.store = store
        self.loader = loader
        self.mode = mode
        self.retry_failed = retry_failed
        self.reporter = loader.reporter
        self.executor: Executor = executor or InProcess(loader)
        self.result = RunResult(store.path, suite, plan, skips=list(plan.skips))
        self._call = ""
        self._sources: dict[str, Mapping[str, Any]] = {}
        self._texts: dict[tuple[str, str, str], Sequence[Row]] = {}
        self._told: set[tuple[str, str, str]] = set()
        self._lengths: dict[tuple[tuple[str, str, str], str], int] = {}
        self._open: dict[Cell, OpenCell] = {}
        self._held: list[Cell] = []
        self._waits = False
        self._deaths: Counter[tuple[Cell, str]] = Counter()
        self._schedule = Schedule([], self._opens)

    def run(self, command: list[str] | None = None) -> RunResult:
        """Every cell of the plan, those that another process holds last."""
        result = self.result
        call = {"suite": result.suite.model_dump(mode="json"), "mode": self.mode, "shard": list(result.plan.shard)}
        call |= provenance(self.loader.options.device, command, self.executor.threads)
        if self.mode == "restart":
            self.store.check_restart()
        self.store.check_shard(result.plan.shard)
        self._call = self.store.open(call | {"skips": [vars(skip) for skip in result.skips], "sources": []})
        try:
            with self.reporter.running(len(result.plan.cells), sum(len(cell.places) for cell in result.plan.cells)):
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
        several = self.executor.workers > 1
        if several:  # what takes longest first, so that what is left at the end is short
            cells = sorted(cells, key=lambda cell: -cell.budget * len(cell.places))
        with self.store.forcing.beside() if several else contextlib.nullcontext():  # workers must not wait for the disk
            self._run(cells, window=AHEAD * self.executor.workers if several else 1)
        self._waits = True
        for cell in self._held:
            self.reporter.say(f"waiting for another process that works on {cell.title}")
            self._run([cell], window=1)

    def _run(self, cells: list[Cell], window: int) -> None:
        self._schedule = Schedule(cells, self._opens, window=window)
        try:
            self.executor.run(self)
        finally:
            for opened in self._open.values():
                opened.leave()
            self._open.clear()
        for group in self._schedule.unfinished():
            raise next(iter(group.unfit.values()), RunStopped(f"nobody took {' · '.join(group.key)} up"))

    # ---- what an executor asks and tells (`Driver`) ----

    def next(self, worker: str) -> Prepare | Job | None:
        """The next thing for a worker to do; None while there is nothing for it."""
        found = self._schedule.next(worker)
        if found is None or isinstance(found, Prepare):
            return found
        opened, sample = found
        self.result.retried += not self._deaths[opened.cell, sample] and opened.retries(sample)
        return opened.job(sample)

    def prepared(self, worker: str, wanted: Prepare, found: Prepared) -> None:
        """Say once what a subject may cost, and record where its data and weights came from."""
        facts = found.facts
        if not self._schedule.prepared(worker, facts):
            self.unfit(worker, InvalidInput("its weights or texts are others than those of another worker"))
            return
        if found.rows and wanted.cell.loaded not in self._told:
            self._texts[wanted.cell.loaded] = found.rows
            self._told.add(wanted.cell.loaded)
        key = f"{facts.source['task']} {facts.source['model']}"
        if key in self._sources:
            return
        self._sources[key] = facts.source
        self.store.update(self._call, {"sources": list(self._sources.values())})
        if facts.estimate:
            parts = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in facts.estimate.items())
            self.reporter.say(f"model {facts.model.name}: at most {parts} to explain; metrics come on top")

    def refused(self, worker: str, why: str) -> None:
        """The cells of what could not be loaded are skipped."""
        for cell in self._schedule.refuse(worker):
            self._skip(cell, why)

    def unfit(self, worker: str, error: Exception) -> None:
        """Others do it; where nobody can, the run ends with the error when the rest is done."""
        group = self._schedule.unfit(worker, error)
        self.reporter.say(f"{worker} cannot load {' · '.join(group.key)}: {error}", style="yellow")

    def keep(self, job: Job, table: str, row: Row) -> None:
        """One row, on the disk when this returns."""
        self._open[job.cell].keep(table, row)
        self.result.explained += table == EXPLANATIONS
        self.result.scored += table.startswith(SCORES)

    def done(self, worker: str, job: Job) -> None:
        """A sample is done, and with the last of them its cell."""
        opened = self._open[job.cell]
        opened.left -= 1
        self.reporter.sample(len(opened.missing) - opened.left, len(opened.missing), job.cell.title, worker)
        if not opened.left:
            self._schedule.finished(opened)
            self._close(opened)

    def lost(self, worker: str, jobs: list[Job], why: str) -> None:
        """What a dead worker had is done again; a sample that was the end of several workers is an error."""
        self._schedule.gone(worker)
        for place, job in enumerate(jobs):
            self._deaths[job.cell, job.sample] += place == 0
            if self._deaths[job.cell, job.sample] <= RETRIES:
                self._schedule.again(self._open[job.cell], job.sample)
                continue
            message = f"{self._deaths[job.cell, job.sample]} workers died of it; the last one: {why}"
            for table, row in given_up(job, message):
                self.keep(job, table, row)
            self.done(worker, job)

    def left(self) -> list[Cell]:
        """Cells that are still to be taken up."""
        return [*self._schedule.left(), *self._held]

    def finished(self) -> bool:
        """Whether nothing is left to be done."""
        return not self._open and not self._schedule.unfinished()

    # ---- cells ----

    def _opens(self, facts: Facts, cell: Cell) -> OpenCell | None:
        """Take up one cell; None where nothing is missing, or another process has it."""
        try:
            facts.check(cell)
            identity = facts.identify(cell)
        except Unsupported as error:
            self._skip(cell, str(error))
            return None
        if self.mode == "score-only" and not self.store.has(identity):
            self._skip(cell, "nothing is explained yet that could be scored: run it without --mode score-only")
            return None
        with ExitStack() as held:
            restart = self.mode == "restart"
            store = held.enter_context(self.store.taken(identity, restart=restart, wait=self._waits))
            if store is None:
                self._held.append(cell)
                return None
            self.result.identities[cell] = identity
            samples = facts.samples(cell)
            self._keep_samples(cell, identity)
            opened = OpenCell(cell, store, samples, self.mode, self.retry_failed, held.pop_all())
        self._open[cell] = opened
        self.result.repairs += opened.repairs
        self.result.reused += len(samples) - opened.left
        self.reporter.cell(cell.title, opened.left, len(samples))
        if not opened.left:
            self._close(opened)
            return None
        if self.executor.workers > 1:
            opened.missing.sort(key=lambda sample: -self._lengths.get((cell.loaded, sample), 0))
        return opened

    def _close(self, opened: OpenCell) -> None:
        self.store.forcing.do(opened.finish)
        del self._open[opened.cell]
        self.result.failed += count_failed(opened.store, opened.samples, opened.labels)
        self.result.passing += count_failed(opened.store, opened.samples, opened.labels, is_passing)
        self.reporter.cell_done()

    def _keep_samples(self, cell: Cell, identity: CellIdentity) -> None:
        """The texts in the model's tokens, once; a text that cannot be encoded has no row."""
        texts = self._texts.pop(cell.loaded, None)
        if texts is None:
            return
        with self.store.keeping_samples(identity) as rows:
            for row in texts:
                self._lengths[cell.loaded, row["id"]] = len(row["tokens"])
                if row["id"] not in rows.rows:
                    rows.append(row)
        self._say_cut(cell, texts)

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
        self.reporter.say(line(f"skipped {skip.what}: {skip.reason}"), style="yellow")
        self.reporter.cell(cell.title, 0, cell.samples)
        self.reporter.cell_done()

    def _finish(self) -> None:
        result = self.result
        order = {cell: i for i, cell in enumerate(result.plan.cells)}
        result.identities = dict(sorted(result.identities.items(), key=lambda item: order[item[0]]))
        self.store.update(
            self._call,
            {
                "backends": dict(self.executor.spent()),
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
