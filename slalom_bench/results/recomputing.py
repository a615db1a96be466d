"""Samples of a submission computed again, and every value put beside the submitted one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slalom_bench import registry
from slalom_bench.core.cores import usable_cores
from slalom_bench.errors import InvalidInput
from slalom_bench.results.claims import near_counts
from slalom_bench.results.collect import require_results
from slalom_bench.results.near import near, share
from slalom_bench.results.reading import read_run
from slalom_bench.results.submission import Machine, Submission, SubmittedRow, task_reference
from slalom_bench.running.facts import OUTSIDE
from slalom_bench.running.identity import CellIdentity, MetricLabel
from slalom_bench.running.loading import Loader, Subject
from slalom_bench.running.runner import Runner
from slalom_bench.running.store import RunStore
from slalom_bench.running.suite import Suite, make_suite


@dataclass(frozen=True)
class Recomputed:
    """The submitted and the recomputed value of one sample."""

    row: str
    metric: MetricLabel
    sample: str
    submitted: float | None
    computed: float | None
    within: bool

    @property
    def size(self) -> float:
        """How far the two are apart; infinite where only one is defined."""
        if self.submitted is None or self.computed is None:
            return 0.0 if self.submitted == self.computed else math.inf
        return abs(self.submitted - self.computed)


@dataclass(frozen=True)
class Recomputation:
    """What came of computing a submission again."""

    values: Sequence[Recomputed]
    samples: Sequence[str]
    """Those that were chosen."""
    left: Mapping[str, str]
    """Rows that could not be computed here, by title, and why."""
    asked: Mapping[str, tuple[float, float]]
    """Rows whose queries a text came out otherwise, by title: those submitted and those counted here. Only where all
    samples were computed again: the means of a part are others."""

    @property
    def off(self) -> list[Recomputed]:
        """The values that are too far from the submitted ones."""
        return [value for value in self.values if not value.within]


def choose(samples: Sequence[str], count: int, seed: int) -> list[str]:
    """So many of the samples at random, in their order."""
    drawn = np.random.default_rng(seed).permutation(len(samples))[:count]
    return [samples[i] for i in sorted(drawn)]


def chance_missed(samples: int, chosen: int, forged: int) -> float:
    """How likely it is that none of the forged samples is among the chosen ones.

    >>> round(chance_missed(20, 5, 2), 3), chance_missed(20, 20, 1)
    (0.553, 0.0)
    """
    return math.comb(samples - forged, chosen) / math.comb(samples, chosen)


def recompute(
    submission: Submission,
    chosen: Sequence[str],
    loader: Loader,
    *,
    task: str | None = None,
    model: str | None = None,
    tolerance: float | None = None,
) -> Recomputation:
    """Compute chosen samples again, with the same identity, and put every value beside the submitted one.

    Args:
        submission: what is checked.
        chosen: which samples, in the order of the submission.
        loader: loads the task and the model.
        task: the task as it is called here, where that is not as in the submission.
        model: the model likewise.
        tolerance: the largest difference, as a share of a value; None: what the model's dtype makes of rounding.

    Returns:
        One value for each row, metric and sample, and the rows that cannot be computed here. Other texts or weights
        here are an error.
    """
    left = {row.title: reason for row in submission.rows if (reason := _not_here(submission, row))}
    rows = [row for row in submission.rows if row.title not in left]
    task = task or task_reference(submission.task)
    _only(submission, chosen, loader, task)
    allowed = share(submission.model.dtype) if tolerance is None else tolerance
    made: list[Recomputed] = []
    done: set[tuple[str, int, int, tuple[int, ...]]] = set()
    asked: dict[str, tuple[float, float]] = {}
    with _computing_on(threads_of(submission.origin.machine)):
        for again in _again(submission, _suites(submission, rows, len(chosen), task, model), loader):
            made += _beside(submission, again, allowed)
            asked |= _asked(submission, again)
            done |= {_key(row) for row in again.rows}
    left |= {row.title: "the model here does not give what it needs" for row in rows if _key(row) not in done}
    return Recomputation(made, chosen, left, asked)


def threads_of(machine: Machine | None) -> int | None:
    """The threads that a file was made with, where there are so many here; None: as many as there are.

    Others sum in another order: answers differ by rounding, and so may the ranks of tokens that all but tie.
    """
    said = None if machine is None else machine.threads
    return said if said and said <= usable_cores() else None


@contextmanager
def _computing_on(threads: int | None) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _not_here(submission: Submission, row: SubmittedRow) -> str:
    """Why a row cannot be computed here; empty where it can."""
    if row.explainer.family == OUTSIDE:
        return f"it came from a file of explanations: {submission.command(row)}"
    needed = [("explainer", row.explainer.name, row.explainer.version)]
    needed += [("metric", label.name, label.version) for label in row.results]
    for kind, name, version in needed:
        entry = registry.KINDS[kind].find(name)
        if entry is None:
            return f"{kind} {name} is not registered here{submission.origin.brought(kind, name)}"
        if entry.version != version:
            return f"{kind} {name} is version {entry.version} here, {version} there"
    return ""


def _only(submission: Submission, chosen: Sequence[str], loader: Loader, task: str) -> None:
    """Leave of the task's texts those that were chosen; they must be among its first ones, as in a run."""
    loaded = loader.task(task)
    first = loaded.data.evaluation[: len(submission.samples)]
    if [example.id for example in first] != submission.samples:
        raise InvalidInput("the first samples of the task here are not those of the submission")
    loaded.data = replace(loaded.data, evaluation=tuple(example for example in first if example.id in set(chosen)))


def _again(submission: Submission, suites: list[Suite], loader: Loader) -> Iterator[Submission]:
    """The submission of each suite, run in a folder that is thrown away; the model is loaded once."""
    held: Subject | None = None
    for suite in suites:
        if held is not None:
            loader.put(held, suite.removal)
        plan = loader.plan(suite)
        for cell in plan.cells:
            held = loader.subject(cell)
            _same_identity(submission, held.identify(cell))
        if not plan.cells:
            continue
        with TemporaryDirectory() as folder:
            Runner(suite, plan, RunStore(Path(folder)), loader).run([])
            (collected,) = require_results(read_run(Path(folder)))
        yield collected.submission


def _suites(
    submission: Submission, rows: Sequence[SubmittedRow], count: int, task: str, model: str | None
) -> list[Suite]:
    """One suite for each set of seeds and metrics that rows share."""
    alike: dict[tuple[tuple[int, ...], int, tuple[MetricLabel, ...]], list[str]] = {}
    for row in rows:
        alike.setdefault((tuple(row.seeds), row.budget, tuple(row.results)), []).append(row.explainer.title)
    return [
        make_suite(
            name="verify",
            tasks=(task,),
            models=(model or submission.model.name,),
            explainers=tuple(titles),
            budgets=(budget,),
            seeds=seeds,
            metrics=tuple(submission.metrics[label].reference for label in labels),
            samples=count,
            protocol=submission.protocol,
            removal=str(submission.removal),
            max_tokens=submission.max_tokens,
            target=submission.target,
        )
        for (seeds, budget, labels), titles in alike.items()
    ]


def _same_identity(submission: Submission, here: CellIdentity) -> None:
    """Refuse to compare with a run of other texts or weights."""
    said = {
        "the content of the task": (submission.task.content, here.task.content),
        "the version of the task": (submission.task.version, here.task.version),
        "the weights of the model": (submission.model.identity, here.model.identity),
        "the dtype": (submission.model.dtype, here.model.dtype),
        "the removal rule": (str(submission.removal), str(here.removal)),
        "the version of the removal rule": (submission.removal.version, here.removal.version),
    }
    wrong = [f"{what} is {ours} here and {theirs} there" for what, (theirs, ours) in said.items() if ours != theirs]
    if wrong:
        raise InvalidInput(f"cannot recompute: {wrong[0]}; use the same data (--data-dir), model and version")


def _beside(submission: Submission, again: Submission, tolerance: float) -> list[Recomputed]:
    computed = {_key(row): row for row in again.rows}
    made = []
    for row in (row for row in submission.rows if _key(row) in computed):
        for label, result in computed[_key(row)].results.items():
            said = submission.scores(row, label)
            submitted = [said[sample] for sample in again.samples]
            within = near(result.values, submitted, tolerance)
            each = zip(again.samples, submitted, result.values, within, strict=True)
            made += [Recomputed(row.title, label, *values) for values in each]
    return made


def _asked(submission: Submission, again: Submission) -> dict[str, tuple[float, float]]:
    """Rows that say other queries than were counted, where that can be said."""
    if again.samples != submission.samples:
        return {}
    counted = {_key(row): row.cost.queries for row in again.rows if row.cost is not None}
    said = {
        row.title: (row.cost.queries, counted[_key(row)])
        for row in submission.rows
        if row.cost and _key(row) in counted
    }
    return {title: pair for title, pair in said.items() if not near_counts(*pair)}


def _key(row: SubmittedRow) -> tuple[str, int, int, tuple[int, ...]]:
    return (row.explainer.title, row.explainer.version, row.budget, tuple(row.seeds))
