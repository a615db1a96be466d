"""Whether a submission can be trusted: what it says follows from its own scores, and is in the run that it names."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

from slalom_bench import registry
from slalom_bench.core.safe_text import look
from slalom_bench.errors import InvalidInput
from slalom_bench.results.collect import collect
from slalom_bench.results.columns import contradicted
from slalom_bench.results.reading import Run
from slalom_bench.results.statistics import Summary, summaries
from slalom_bench.results.submission import MetricSummary, Submission, SubmittedRow, read_submission
from slalom_bench.running.facts import OUTSIDE
from slalom_bench.running.identity import MetricLabel

RELATIVE, ABSOLUTE = 1e-6, 1e-9
"""How far a stored mean or interval may be from the one computed again."""


def read_sound(path: Path, file_name: str | None = None) -> Submission:
    """A file as a submission that holds together; anything else is an error that says what is wrong.

    Args:
        path: the file.
        file_name: what it is called; None: whatever its content asks for.
    """
    submission = read_submission(path)
    if wrong := problems(submission, file_name or submission.file_name):
        raise InvalidInput(f"{path}: {wrong[0]}; `slalom-bench verify {path}` says more")
    return submission


def problems(submission: Submission, file_name: str) -> list[str]:
    """Everything in a submission that contradicts itself or its name; nothing if it is sound."""
    found = []
    if file_name != submission.file_name:
        found.append(f"the file must be named {submission.file_name}, as its content says")
    if len(set(submission.samples)) != len(submission.samples):
        found.append("a sample id is given twice")
    rows = [row.key for row in submission.rows]
    if len(set(rows)) != len(rows):
        found.append("an explainer is given twice with the same budget and seeds")
    for label, info in submission.metrics.items():
        if label != info.label:
            found.append(f"metric {label}: its name, version and parameters make {info.label}")
        found += [f"metric {label}: its {wrong}" for wrong in contradicted(info)]
    found += _contradicted(submission)
    for kind, name, _ in _named(submission):
        if twin := _twin(kind, name):
            found.append(f"{kind} {name} looks like {twin}, which is another one")
    for row in submission.rows:
        found += [f"{row.title}: {wrong}" for wrong in _row_problems(submission, row)]
    return found


def _contradicted(submission: Submission) -> list[str]:
    """What it says otherwise of model and explainers than they are registered here.

    No hash holds these words, but a tier moves a table, and a family takes rows out of the ranking.
    """
    found = []
    model = registry.models.find(submission.model.name.partition(":")[0])
    if model is not None and submission.model.tier != model.tier:
        found.append(f"the tier of model {model.name} is {model.tier}, not {submission.model.tier}")
    for row in submission.rows:
        said, entry = row.explainer, registry.explainers.find(row.explainer.name)
        if entry is not None and entry.version == said.version and said.family not in (entry.family, OUTSIDE):
            found.append(f"the family of explainer {said.name} is {entry.family}, not {said.family}")
    return found


def _row_problems(submission: Submission, row: SubmittedRow) -> list[str]:
    found = []
    explained = len(submission.samples) * len(row.seeds)
    if row.failed > explained:
        found.append(f"{row.failed} failed of {explained} samples")
    # of more than two classes the predicted one is found by a query that no budget counts
    if row.cost is not None and row.cost.queries > (row.budget + 1) * (1 + RELATIVE) and not row.failed:
        found.append(f"{row.cost.queries:g} queries a sample are over the budget")
    again = summaries([result.values for result in row.results.values()])
    for (label, result), summary in zip(row.results.items(), again, strict=True):
        if label not in submission.metrics:
            found.append(f"metric {label} is not described in `metrics`")
        elif wrong := _summary_problem(result, summary, len(submission.samples)) or _impossible(label, result):
            found.append(f"{label}: {wrong}")
    return found


def _impossible(label: MetricLabel, result: MetricSummary) -> str:
    """The first value that the metric registered here cannot have, such as a correlation of 1.08."""
    entry = registry.metrics.find(label.name)
    if entry is None or entry.version != label.version:
        return ""
    low, high = (-math.inf if entry.bounds[0] is None else entry.bounds[0]), entry.bounds[1]
    high = math.inf if high is None else high
    every = [value for values in (result.values, *result.halves) for value in values if value is not None]
    wrong = [v for v in (min(every), max(every)) if not low - RELATIVE <= v <= high + RELATIVE] if every else []
    return f"a value of {wrong[0]:g} is outside what the metric can be, {low:g} to {high:g}" if wrong else ""


def _summary_problem(result: MetricSummary, again: Summary, samples: int) -> str:
    """The first contradiction between a result's numbers and its values, or what follows from these."""
    if len(result.values) != samples:
        return f"{len(result.values)} values for {samples} samples"
    if any(len(half) != samples for half in result.halves) or len(result.halves) not in (0, 2):
        return f"halves of {[len(half) for half in result.halves]} values for {samples} samples; two of as many are due"
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


@lru_cache(maxsize=10_000)
def _twin(kind: str, name: str) -> str:
    """The registered thing that a name, which is not registered, could be taken for."""
    known = registry.KINDS[kind]
    if known.find(name) is not None:
        return ""
    seen = look(name)
    return next((other for other in known.names() if look(other) == seen), "")


def notes(submission: Submission) -> list[str]:
    """What a reviewer should know and that is no contradiction."""
    found = []
    for kind, name, version in _named(submission):
        entry = registry.KINDS[kind].find(name)
        if entry is None:
            found.append(f"{kind} {name} is not registered here{submission.origin.brought(kind, name)}")
        elif entry.version != version:
            found.append(f"{kind} {name} is version {version} there and {entry.version} here")
    if submission.origin.dirty:
        found.append("it was made from a checkout with uncommitted changes")
    return found


def _named(submission: Submission) -> list[tuple[str, str, int]]:
    named = [("task", submission.task.name, submission.task.version)]
    named += [("removal", submission.removal.name, submission.removal.version)]
    named += [("metric", info.name, info.version) for info in submission.metrics.values()]
    named += [("explainer", row.explainer.name, row.explainer.version) for row in submission.rows]
    return list(dict.fromkeys(named))


def check_run(submission: Submission, run: Run) -> list[str]:
    """Whether a run holds exactly the scores that were submitted."""
    hashes = {row.scores_sha256 for collected in collect(run) for row in collected.submission.rows}
    return [
        f"{row.title}: the scores of {run.path} are not the submitted ones"
        for row in submission.rows
        if row.scores_sha256 not in hashes
    ]
