"""Two runs side by side: paired differences of every metric, and what else changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slalom_bench.errors import InvalidInput
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import Run
from slalom_bench.results.statistics import LEVEL, Difference, Scores, average_seeds, compare, holm, inseparable
from slalom_bench.results.submission import Submission, SubmittedRow

THE_MODEL = "the model itself"
"""Stands for the explainer in metrics that say something of the model."""


@dataclass(frozen=True)
class Change:
    """One metric of one explainer, B minus A on the samples that both define."""

    row: str
    metric: str
    direction: str
    difference: Difference
    p_adjusted: float | None
    lost: int
    """Samples that A defines and B has, undefined or failed."""

    @property
    def worse(self) -> bool:
        """Significantly worse after Holm over all comparisons, or scores lost."""
        mean = self.difference.mean
        towards_worse = mean is not None and (mean > 0 if self.direction == "lower" else mean < 0)
        return self.lost > 0 or (self.significant and towards_worse)

    @property
    def significant(self) -> bool:
        """Whether the difference is, after Holm over all comparisons."""
        return self.p_adjusted is not None and self.p_adjusted < LEVEL

    @property
    def verdict(self) -> str:
        """The change in one or two words."""
        if self.worse:
            return f"WORSE ({self.lost} samples lost)" if self.lost else "WORSE"
        if self.significant:
            return "better"
        if not self.difference.mean:
            return "same" if self.difference.mean is not None else "no common sample"
        return "not separable"

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "row": self.row,
            "metric": self.metric,
            "direction": self.direction,
            **vars(self.difference),
            "p_adjusted": self.p_adjusted,
            "lost": self.lost,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs."""

    changes: Sequence[Change]
    only_a: Sequence[str]
    only_b: Sequence[str]
    provenance: Sequence[tuple[str, str, str]]
    """What, in A, in B."""
    too_few: bool
    """Whether there are so few samples that no difference could be significant."""

    @property
    def worse(self) -> list[Change]:
        """The changes for the worse."""
        return [change for change in self.changes if change.worse]


@dataclass(frozen=True, order=True)
class _Key:
    """What is paired: contents, weights and versions are not in it."""

    row: str
    metric: str

    def __str__(self) -> str:
        return f"{self.row} · {self.metric}"


@dataclass(frozen=True)
class _Table:
    """The headline scores of one row and metric."""

    direction: str
    scores: Scores


def compare_runs(a: Run, b: Run) -> Comparison:
    """Pair what has the same names and settings; contents, weights and versions may differ and are reported.

    Args:
        a: the run to compare with.
        b: the run that is compared.

    Returns:
        B minus A, sample by sample, to the six digits that a submission keeps, and what else is not the same.
    """
    left, right = _tables(a), _tables(b)
    common = [key for key in left if key in right]
    if not common:
        raise InvalidInput(
            f"{a.path} and {b.path} have no explainer on the same task, model, budget and metric in common"
        )
    differences = {key: compare(right[key].scores, left[key].scores) for key in common}
    tested = {key: difference.p for key, difference in differences.items() if difference.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    changes = [
        Change(
            key.row,
            key.metric,
            right[key].direction,
            difference,
            adjusted.get(key),
            _lost(left[key].scores, right[key].scores),
        )
        for key, difference in differences.items()
    ]
    return Comparison(
        changes,
        [str(key) for key in left if key not in right],
        [str(key) for key in right if key not in left],
        changed_provenance(a, b),
        inseparable(max(difference.n for difference in differences.values()), len(tested)),
    )


def _tables(run: Run) -> dict[_Key, _Table]:
    """Headline scores by row and metric: those of the submissions, without samples that were not computed yet."""
    found: dict[_Key, list[Scores]] = {}
    directions: dict[_Key, str] = {}
    for collected in collect(run, unfinished=True):
        submission = collected.submission
        for row, cells in collected.rows():
            for label in row.results:
                info = submission.metrics[label]
                who = THE_MODEL if info.level == "model" else row.explainer.title
                key = _Key(_spell(submission, row, who), label.unversioned)
                if who == THE_MODEL and key in found:
                    continue  # the same under every explainer
                computed = {sample for cell in cells for sample in cell.scores.get(label, {})}
                scores = submission.scores(row, label).items()
                found.setdefault(key, []).append({sample: value for sample, value in scores if sample in computed})
                directions[key] = info.direction
    return {key: _Table(directions[key], average_seeds(runs).values) for key, runs in sorted(found.items())}


def _spell(submission: Submission, row: SubmittedRow, who: str) -> str:
    cut = "" if submission.max_tokens is None else f" · {submission.max_tokens} tokens"
    return (
        f"{submission.task.name} · {submission.model.name} · {who} · budget {row.budget} · "
        f"{submission.protocol} · {submission.removal}{cut}"
    )


def _lost(a: Scores, b: Scores) -> int:
    return sum(1 for sample, value in a.items() if value is not None and sample in b and b[sample] is None)


def changed_provenance(a: Run, b: Run) -> list[tuple[str, str, str]]:
    """Every fact of code, machine, data, model and versions that the two runs do not share: what, in A, in B."""
    left, right = _facts(a), _facts(b)
    keys = [*left, *(key for key in right if key not in left)]
    return [(key, left.get(key, "absent"), right.get(key, "absent")) for key in keys if left.get(key) != right.get(key)]


def _facts(run: Run) -> dict[str, str]:
    last = run.calls[-1]
    found: dict[str, Any] = {"slalom-bench": last["slalom_bench"], "revision": last["git"]["revision"]}
    found |= {"uncommitted changes": last["git"]["dirty"], "python": last["python"], "platform": last["platform"]}
    found |= {f"package {name}": version for name, version in last["packages"].items()}
    found |= {f"machine {name}": value for name, value in last["machine"].items()}
    for source in last["sources"]:
        where = f"{source['task']} · {source['model']}"
        found[f"content of {source['task']}"] = source["source"]["content_hash"]
        found[f"weights of {where}"] = source["weights"]
        found[f"dtype of {where}"] = source["dtype"]
    for cell in run.cells:
        explainer, task, removal = cell.identity.explainer, cell.identity.task, cell.identity.removal
        found[f"version of explainer {explainer.name}"] = explainer.version
        found[f"version of task {task.name}"] = task.version
        found[f"version of removal {removal.name}"] = removal.version
        for label in cell.scores:
            found[f"version of metric {label.name}"] = label.version
    return {key: str(value) for key, value in found.items()}
