"""Two runs side by side: paired differences of every metric, and what else changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np

from slalom_bench.core.hashing import short_hash
from slalom_bench.errors import InvalidInput
from slalom_bench.results.collect import collect
from slalom_bench.results.ranking import Effect, effect_between, paired, turn
from slalom_bench.results.reading import Run
from slalom_bench.results.separation import Pairwise, all_pairs, too_few
from slalom_bench.results.statistics import Scores, average_seeds
from slalom_bench.results.submission import MetricInfo, Submission, SubmittedRow

THE_MODEL = "the model itself"
"""Stands for the explainer in metrics that say something of the model."""
Moved = Literal["worse", "better", "same", "no practical difference", "not separable", "not tested"]


@dataclass(frozen=True, order=True)
class Key:
    """What is paired: contents, weights and versions are not in it."""

    table: str
    """Task, model, budget, protocol, removal rule and cut in words."""
    order: int
    metric: str
    explainer: str

    def __str__(self) -> str:
        return f"{self.table} · {self.explainer} · {self.metric}"


@dataclass(frozen=True)
class Change:
    """One metric of one explainer, B against A."""

    key: Key
    direction: str
    n: int
    """Samples compared; where it is not tested, those that both define."""
    effect: Effect | None
    """B minus A, on the log scale B over A; None where it is not tested."""
    p_adjusted: float | None
    """Of either being better, adjusted over the explainers of the table."""
    moved: Moved
    lost: int
    """Samples that A defines and B has, undefined or failed."""

    @property
    def worse(self) -> bool:
        """Significantly worse by what could matter, or scores lost."""
        return self.lost > 0 or self.moved == "worse"

    @property
    def verdict(self) -> str:
        """The change in a few words."""
        if self.worse:
            return f"WORSE, {self.lost} lost" if self.lost else "WORSE"
        return self.moved

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        effect = self.effect
        return {
            "table": self.key.table,
            "explainer": self.key.explainer,
            "metric": self.key.metric,
            "direction": self.direction,
            "n": self.n,
            "difference": None if effect is None else effect.value,
            "low": None if effect is None else effect.low,
            "high": None if effect is None else effect.high,
            "ratio": None if effect is None else effect.ratio,
            "p_adjusted": self.p_adjusted,
            "lost": self.lost,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs."""

    changes: Sequence[Change]
    only_a: Sequence[Key]
    only_b: Sequence[Key]
    provenance: Sequence[tuple[str, str, str]]
    """What, in A, in B."""
    too_few: bool
    """Whether there are so few samples that no difference could be significant."""

    @property
    def worse(self) -> list[Change]:
        """The changes for the worse."""
        return [change for change in self.changes if change.worse]


@dataclass(frozen=True)
class _Column:
    """The headline scores of one row and metric."""

    info: MetricInfo
    scores: Scores


def compare_runs(a: Run, b: Run, budgets: tuple[int, int] | None = None) -> Comparison:
    """Pair what has the same names and settings; contents, weights and versions may differ and are reported.

    The explainers of one table and metric are one family: B against A for each, all at once, as boards compare all
    pairs (see `slalom_bench.results.separation`), on the samples that all of them define in both runs. A row that has
    less than half the samples of the fullest is not tested.

    Args:
        a: the run to compare with.
        b: the run that is compared.
        budgets: compare the rows of A at the first with those of B at the second; None: rows of equal budgets, or
            those that are there if each run has but one.

    Returns:
        B against A, and what else is not the same.
    """
    if budgets is None and len(_budgets(a)) == len(_budgets(b)) == 1 and _budgets(a) != _budgets(b):
        budgets = (_budgets(a)[0], _budgets(b)[0])
    left, right = _tables(a, budgets, 0), _tables(b, budgets, 1)
    common = sorted(left.keys() & right.keys())
    if not common:
        raise InvalidInput(_nothing_in_common(a, b, left, right))
    changes = [
        change
        for _, keys in groupby(common, key=lambda key: (key.table, key.metric))
        for change in _family({key: (left[key], right[key]) for key in keys})
    ]
    return Comparison(
        changes,
        sorted(left.keys() - right.keys()),
        sorted(right.keys() - left.keys()),
        changed_provenance(a, b),
        too_few(max(change.n for change in changes)),
    )


def _family(columns: Mapping[Key, tuple[_Column, _Column]]) -> Iterator[Change]:
    """B against A for every explainer of one table and metric, at one family-wise level."""
    info = next(iter(columns.values()))[1].info
    scale = info.scale or "linear"
    table: dict[tuple[Key, str], Scores] = {}
    for key, (a, b) in columns.items():
        both = [x for x, value in a.scores.items() if value is not None and b.scores.get(x) is not None]
        table |= {(key, "A"): {x: a.scores[x] for x in both}, (key, "B"): {x: b.scores[x] for x in both}}
    names, scores = paired(table)
    among = [(i, i + 1) for i in range(0, len(names), 2)]
    pairs = all_pairs(turn(scores, info.direction, scale), among=among)
    relevant = np.log1p(info.relevant) if scale == "log" and info.relevant is not None else info.relevant
    places = {names[i][0]: (i, j) for i, j in among}
    for key, (a, b) in columns.items():
        lost = _lost(a.scores, b.scores)
        if key not in places or pairs.n < 2:
            yield Change(key, info.direction, len(table[key, "A"]), None, None, "not tested", lost)
            continue
        i, j = places[key]
        effect = effect_between(pairs, j, i, info.direction, scale)
        p = float(min(pairs.p[i, j], pairs.p[j, i]))
        yield Change(key, info.direction, pairs.n, effect, p, _moved(pairs, i, j, relevant), lost)


def _moved(pairs: Pairwise, a: int, b: int, relevant: float | None) -> Moved:
    apart = pairs.told_apart(relevant)
    if apart[a, b] or apart[b, a]:
        return "worse" if apart[a, b] else "better"
    if pairs.wins[a, b] == pairs.wins[b, a] == 0:
        return "same"
    near = relevant is not None and max(pairs.upper[a, b], pairs.upper[b, a]) < relevant
    return "no practical difference" if near else "not separable"


def _budgets(run: Run) -> list[int]:
    return sorted({cell.identity.budget for cell in run.cells})


def _nothing_in_common(a: Run, b: Run, left: Mapping[Key, _Column], right: Mapping[Key, _Column]) -> str:
    """What either run has, so that one sees where they part, and who compares across that."""
    has = [sorted({key.table for key in keys}) for keys in (left, right)]
    if common := sorted(set(has[0]) & set(has[1])):
        return f"{a.path} and {b.path} have no explainer with the same metric in common on {'; '.join(common)}"
    said = ", ".join(f"{run.path} has {'; '.join(own) or 'none'}" for run, own in zip((a, b), has, strict=True))
    return (
        f"no table in common: {said}. --budgets compares two budgets, `slalom-bench removals` two removal rules, "
        "`slalom-bench carry-over` two models"
    )


def _tables(run: Run, budgets: tuple[int, int] | None, side: int) -> dict[Key, _Column]:
    """Headline scores by row and metric: those of the submissions, without samples that were not computed yet."""
    found: dict[Key, list[Scores]] = {}
    infos: dict[Key, MetricInfo] = {}
    for collected in collect(run, unfinished=True):
        submission = collected.submission
        for row, cells in collected.rows():
            if budgets is not None and row.budget != budgets[side]:
                continue
            for label in row.results:
                info = submission.metrics[label]
                who = THE_MODEL if info.level == "model" else row.explainer.title
                key = Key(_spell(submission, row, budgets), info.order, label.unversioned, who)
                if who == THE_MODEL and key in found:
                    continue  # the same under every explainer
                computed = {sample for cell in cells for sample in cell.scores.get(label, {})}
                scores = submission.scores(row, label).items()
                found.setdefault(key, []).append({sample: value for sample, value in scores if sample in computed})
                infos[key] = info
    return {key: _Column(infos[key], average_seeds(runs).values) for key, runs in found.items()}


def _spell(submission: Submission, row: SubmittedRow, budgets: tuple[int, int] | None) -> str:
    cut = "" if submission.max_tokens is None else f" · {submission.max_tokens} tokens"
    cut += "" if submission.target is None else f" · class {submission.target}"
    budget = f"budget {row.budget}" if budgets is None else f"budget {budgets[0]} -> {budgets[1]}"
    return (
        f"{submission.task.name} · {submission.model.name} · {budget} · "
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
    samples: dict[str, set[str]] = {}
    seeds: dict[str, set[int]] = {}
    for cell in run.cells:
        samples.setdefault(f"samples of {cell.identity.task.name}", set()).update(cell.explanations)
        seeds.setdefault(f"seeds of {cell.identity.explainer.title}", set()).add(cell.identity.seed)
        explainer, task, removal = cell.identity.explainer, cell.identity.task, cell.identity.removal
        found[f"version of explainer {explainer.name}"] = explainer.version
        found[f"version of task {task.name}"] = task.version
        found[f"version of removal {removal.name}"] = removal.version
        for label in cell.scores:
            found[f"version of metric {label.name}"] = label.version
    found |= {"budgets": _budgets(run)} | {key: sorted(drawn) for key, drawn in seeds.items()}
    found |= {key: f"{len(ids)} (set {short_hash(sorted(ids), 8)})" for key, ids in samples.items()}
    return {key: str(value) for key, value in found.items()}
