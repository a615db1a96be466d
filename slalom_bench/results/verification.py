"""Whether a submission can be trusted: what it says follows from its own scores, and comes out again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import pstdev
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.hashing import short_hash
from slalom_bench.errors import InvalidInput, UnknownName
from slalom_bench.results.statistics import summarise
from slalom_bench.results.submission import OUTSIDE, Entry, Result, Submission, reference

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.run.plan import Subject
    from slalom_bench.run.progress import Reporter
    from slalom_bench.run.suite import Suite

RELATIVE, ABSOLUTE = 1e-6, 1e-9
"""How far a stored mean or interval may be from the one computed again."""
TOLERANCE = 0.01
"""How far a recomputed score may be off, as a share of its size or of the spread over samples, whichever is larger.

On one machine nothing differs; another number of threads changes last bits, which a fit or a ranking can enlarge."""


def problems(submission: Submission, file_name: str) -> list[str]:
    """Everything in a submission that contradicts itself or its name; nothing if it is sound."""
    found = []
    if file_name != submission.file_name:
        found.append(f"the file must be named {submission.file_name}, as its content says")
    if len(set(submission.samples)) != len(submission.samples):
        found.append("a sample id is given twice")
    rows = [short_hash([e.explainer.model_dump(), e.budget, e.seeds]) for e in submission.entries]
    if len(set(rows)) != len(rows):
        found.append("an explainer is given twice with the same budget and seeds")
    for label, info in submission.metrics.items():
        suffix = f"-{short_hash(dict(info.params), 8)}" if info.params else ""
        if label != f"{info.name}@{info.version}{suffix}":
            found.append(f"metric {label}: its name, version and parameters make {info.name}@{info.version}{suffix}")
    for entry in submission.entries:
        found += [f"{entry.title}, budget {entry.budget}: {wrong}" for wrong in _entry(submission, entry)]
    return found


def _entry(submission: Submission, entry: Entry) -> list[str]:
    found = []
    if entry.failed > len(submission.samples):
        found.append(f"{entry.failed} failed of {len(submission.samples)} samples")
    if entry.cost is not None and entry.cost.queries > entry.budget * (1 + RELATIVE) and not entry.failed:
        found.append(f"{entry.cost.queries:g} queries a sample are over the budget")
    for label, result in entry.results.items():
        if label not in submission.metrics:
            found.append(f"metric {label} is not described in `metrics`")
        elif wrong := _result(result, len(submission.samples)):
            found.append(f"{label}: {wrong}")
    return found


def _result(result: Result, samples: int) -> str:
    """The first contradiction between a result's numbers and its values."""
    if len(result.values) != samples:
        return f"{len(result.values)} values for {samples} samples"
    again = summarise(result.values)
    if (again.n, again.undefined) != (result.n, result.undefined):
        return f"n={result.n}, undefined={result.undefined}; the values say {again.n} and {again.undefined}"
    if sum(result.reasons.values()) != result.undefined:
        return f"{sum(result.reasons.values())} reasons for {result.undefined} undefined samples"
    for name in ("mean", "standard_error", "low", "high"):
        said, computed = getattr(result, name), getattr(again, name)
        if (said is None) != (computed is None) or (said is not None and not _near(said, computed)):
            return f"{name} is {said}; the values give {computed}"
    return ""


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def notes(submission: Submission) -> list[str]:
    """What a reviewer should know and that is no contradiction."""
    found = []
    for kind, name, version in _named(submission):
        try:
            entry = registry.KINDS[kind].get(name)
        except UnknownName:
            found.append(f"{kind} {name} is not registered here")
            continue
        if entry.version != version:
            found.append(f"{kind} {name} is version {version} there and {entry.version} here")
    for label, info in submission.metrics.items():
        if info.name in registry.metrics.names():
            here = registry.metrics.get(info.name)
            if (here.direction, here.headline) != (info.direction, info.headline):
                found.append(f"metric {label} is {here.direction}, {here.headline} here, not as the file says")
    if submission.origin.dirty:
        found.append("it was made from a checkout with uncommitted changes")
    return found


def _named(submission: Submission) -> list[tuple[str, str, int]]:
    named = [("task", submission.task.name, submission.task.version)]
    named += [("metric", info.name, info.version) for info in submission.metrics.values()]
    named += [("explainer", e.explainer.name, e.explainer.version) for e in submission.entries]
    return list(dict.fromkeys(named))


def check_run(submission: Submission, run: Path) -> list[str]:
    """Whether a run directory holds exactly the scores that were submitted."""
    from slalom_bench.results.collect import collect

    hashes = {entry.scores_sha256 for collected in collect(run) for entry in collected.submission.entries}
    return [
        f"{entry.title}, budget {entry.budget}: the scores of {run} are not the submitted ones"
        for entry in submission.entries
        if entry.scores_sha256 not in hashes
    ]


@dataclass(frozen=True)
class Difference:
    """The submitted and the recomputed value of one sample."""

    row: str
    metric: str
    sample: str
    submitted: float | None
    computed: float | None
    within: bool

    @property
    def size(self) -> float:
        if self.submitted is None or self.computed is None:
            return 0.0 if self.submitted == self.computed else math.inf
        return abs(self.submitted - self.computed)


def recompute(
    submission: Submission,
    count: int,
    options: ModelOptions,
    *,
    task: str | None = None,
    model: str | None = None,
    tolerance: float = TOLERANCE,
    reporter: Reporter | None = None,
    subjects: Sequence[Subject] | None = None,
) -> list[Difference]:
    """Run the first samples again, with the same identity, and put every value beside the submitted one."""
    from slalom_bench.results.collect import collect
    from slalom_bench.run.plan import make_plan
    from slalom_bench.run.progress import Reporter
    from slalom_bench.run.runner import Runner, load_subjects
    from slalom_bench.run.store import RunStore

    reporter = reporter or Reporter(show=False)
    count = min(count, len(submission.samples))
    for entry in submission.entries:
        if entry.explainer.family == OUTSIDE:
            raise InvalidInput(f"{entry.title} came from a file of explanations: {submission.command(entry)}")
    made: list[Difference] = []
    rows = 0
    for suite in _suites(submission, count, task, model):
        suite.check_names()
        found = list(subjects) if subjects is not None else load_subjects(suite, options, reporter)[0]
        plan = make_plan(suite, found, [])
        for cell in plan.cells:
            _same_identity(submission, cell.identity)
        with TemporaryDirectory() as folder, RunStore(Path(folder)).locked() as store:
            Runner(suite, plan, store, "resume", reporter).run([])
            again = collect(Path(folder))[0].submission
        if again.samples != submission.samples[:count]:
            raise InvalidInput("the first samples of the task here are not those of the submission")
        made += _differences(submission, again, tolerance)
        rows += len(again.entries)
    if rows < len(submission.entries):
        raise InvalidInput(f"only {rows} of {len(submission.entries)} rows could be computed with this model here")
    return made


def _suites(submission: Submission, count: int, task: str | None, model: str | None) -> list[Suite]:
    """One suite for each set of seeds and metrics that rows of the submission share."""
    from slalom_bench.run.suite import make_suite

    alike: dict[tuple[tuple[int, ...], int, tuple[str, ...]], list[str]] = {}
    for entry in submission.entries:
        alike.setdefault((tuple(entry.seeds), entry.budget, tuple(entry.results)), []).append(entry.title)
    return [
        make_suite(
            name="verify",
            tasks=(task or reference(submission.task.name, "", submission.task.params),),
            models=(model or submission.model.name,),
            explainers=tuple(titles),
            budgets=(budget,),
            seeds=seeds,
            metrics=tuple(reference(submission.metrics[m].name, "", submission.metrics[m].params) for m in labels),
            samples=count,
            protocol=submission.protocol,
            removal=submission.removal,
            max_tokens=submission.max_tokens,
        )
        for (seeds, budget, labels), titles in alike.items()
    ]


def _same_identity(submission: Submission, identity: Mapping[str, Any]) -> None:
    """Refuse to compare with a run of other texts, weights or versions."""
    task, model, explainer = identity["task"], identity["model"], identity["explainer"]
    said = {
        "the content of the task": (submission.task.content, task["content"]),
        "the version of the task": (submission.task.version, task["version"]),
        "the weights of the model": (submission.model.identity, model["identity"]),
        "the dtype": (submission.model.dtype, model["dtype"]),
    }
    versions = {e.explainer.version for e in submission.entries if e.explainer.name == explainer["name"]}
    wrong = [f"{what} is {here} here and {there} there" for what, (there, here) in said.items() if here != there]
    if explainer["version"] not in versions:
        wrong.append(f"explainer {explainer['name']} is version {explainer['version']} here, {versions} there")
    if wrong:
        raise InvalidInput(f"cannot recompute: {wrong[0]}; use the same data (--data-dir), model and version")


def _differences(submission: Submission, again: Submission, tolerance: float) -> list[Difference]:
    key = lambda e: (e.title, e.explainer.version, e.budget, tuple(e.seeds))  # noqa: E731
    computed = {key(entry): entry for entry in again.entries}
    made = []
    for entry in (entry for entry in submission.entries if key(entry) in computed):
        for label, result in computed[key(entry)].results.items():
            spread = pstdev(known) if (known := [v for v in entry.results[label].values if v is not None]) else 0.0
            for sample, new, old in zip(again.samples, result.values, entry.results[label].values, strict=False):
                within = old is new is None
                if old is not None and new is not None:
                    within = abs(old - new) <= max(ABSOLUTE, tolerance * max(abs(old), spread))
                made.append(Difference(f"{entry.title}, budget {entry.budget}", label, sample, old, new, within))
    return made
