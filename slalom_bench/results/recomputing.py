"""A submission's first samples computed again, and every value put beside the submitted one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from slalom_bench.errors import InvalidInput
from slalom_bench.results.collect import require_results
from slalom_bench.results.near import TOLERANCE, near
from slalom_bench.results.reading import read_run
from slalom_bench.results.submission import Submission, SubmittedRow, task_reference
from slalom_bench.running.identity import CellIdentity, MetricLabel
from slalom_bench.running.loading import OUTSIDE, Loader, Subject
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


def recompute(
    submission: Submission,
    count: int,
    loader: Loader,
    *,
    task: str | None = None,
    model: str | None = None,
    tolerance: float = TOLERANCE,
) -> list[Recomputed]:
    """Run the first samples again, with the same identity, and put every value beside the submitted one.

    Args:
        submission: what is checked.
        count: how many samples.
        loader: loads the task and the model.
        task: the task as it is called here, where that is not as in the submission.
        model: the model likewise.
        tolerance: the largest difference, as a share of a value.

    Returns:
        One entry for each row, metric and sample. Other texts, weights or versions here are an error.
    """
    count = min(count, len(submission.samples))
    for row in submission.rows:
        if row.explainer.family == OUTSIDE:
            raise InvalidInput(f"{row.explainer.title} came from a file of explanations: {submission.command(row)}")
    made: list[Recomputed] = []
    rows = 0
    for again in _again(submission, _suites(submission, count, task, model), loader):
        if again.samples != submission.samples[:count]:
            raise InvalidInput("the first samples of the task here are not those of the submission")
        made += _beside(submission, again, tolerance)
        rows += len(again.rows)
    if rows < len(submission.rows):
        raise InvalidInput(f"only {rows} of {len(submission.rows)} rows could be computed with this model here")
    return made


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


def _suites(submission: Submission, count: int, task: str | None, model: str | None) -> list[Suite]:
    """One suite for each set of seeds and metrics that rows of the submission share."""
    alike: dict[tuple[tuple[int, ...], int, tuple[MetricLabel, ...]], list[str]] = {}
    for row in submission.rows:
        alike.setdefault((tuple(row.seeds), row.budget, tuple(row.results)), []).append(row.explainer.title)
    return [
        make_suite(
            name="verify",
            tasks=(task or task_reference(submission.task),),
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
    """Refuse to compare with a run of other texts, weights or versions."""
    said = {
        "the content of the task": (submission.task.content, here.task.content),
        "the version of the task": (submission.task.version, here.task.version),
        "the weights of the model": (submission.model.identity, here.model.identity),
        "the dtype": (submission.model.dtype, here.model.dtype),
        "the removal rule": (str(submission.removal), str(here.removal)),
        "the version of the removal rule": (submission.removal.version, here.removal.version),
    }
    wrong = [f"{what} is {ours} here and {theirs} there" for what, (theirs, ours) in said.items() if ours != theirs]
    name = here.explainer.name
    versions = {row.explainer.version for row in submission.rows if row.explainer.name == name}
    if here.explainer.version not in versions:
        wrong.append(f"explainer {name} is version {here.explainer.version} here, {versions} there")
    if wrong:
        raise InvalidInput(f"cannot recompute: {wrong[0]}; use the same data (--data-dir), model and version")


def _beside(submission: Submission, again: Submission, tolerance: float) -> list[Recomputed]:
    computed = {_key(row): row for row in again.rows}
    made = []
    for row in (row for row in submission.rows if _key(row) in computed):
        for label, result in computed[_key(row)].results.items():
            submitted = row.results[label].values[: len(result.values)]
            within = near(result.values, submitted, tolerance)
            each = zip(again.samples, submitted, result.values, within, strict=True)
            made += [Recomputed(row.title, label, *values) for values in each]
    return made


def _key(row: SubmittedRow) -> tuple[str, int, int, tuple[int, ...]]:
    return (row.explainer.title, row.explainer.version, row.budget, tuple(row.seeds))
