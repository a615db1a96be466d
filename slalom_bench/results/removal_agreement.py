"""Rank agreement across removal rules: does the same explainer win however tokens are taken away?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from slalom_bench import registry
from slalom_bench.core.types import Floats
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.correlation import kendall, spearman
from slalom_bench.results.claims import Claim, settled, tables
from slalom_bench.results.collect import collect
from slalom_bench.results.columns import columns
from slalom_bench.results.ranking import turn
from slalom_bench.results.reading import Run
from slalom_bench.results.statistics import Scores, average_seeds
from slalom_bench.results.submission import MetricInfo, Submission, task_reference
from slalom_bench.running.identity import MetricLabel, RemovalIdentity

FEWEST = 3
"""Explainers without which a rank correlation says nothing: two agree or not."""
TOO_FEW = f"fewer than {FEWEST} explainers with scores under both rules"
NOT_RANKED = "all explainers have the same mean under one rule"


class Column(NamedTuple):
    """What must be the same for two removal rules to be compared: all but the rule and the explainer."""

    table: str
    """The task, model, budget, protocol and cut in words."""
    key: str
    """A hash of the same, weights and versions included: `CellIdentity.rules_key`."""
    label: MetricLabel


@dataclass
class _Rules:
    """The scores of one column: by rule, by explainer (title and version), one table for each set of seeds."""

    info: MetricInfo
    scores: dict[str, dict[tuple[str, int], list[Scores]]] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleAgreement:
    """How alike two removal rules rank the explainers by one metric."""

    table: str
    metric: MetricInfo
    rules: tuple[str, str]
    means: Mapping[str, tuple[float, float]]
    """Of each explainer that has scores under both rules, over the samples that have them under both; geometric means
    where the metric is compared on the log scale."""
    spearman: float | None = None
    kendall: float | None = None
    """tau-b."""
    reason: str = ""
    """Why there is no correlation."""

    @property
    def best(self) -> tuple[str, str]:
        """The explainer with the best mean under each rule; of equal ones the first by name."""
        sign = 1 if self.metric.direction == "lower" else -1
        first, second = (min(self.means, key=lambda name: sign * self.means[name][i]) for i in (0, 1))
        return first, second

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "table": self.table,
            "metric": str(self.metric.label),
            "direction": self.metric.direction,
            "rules": list(self.rules),
            "means": {name: list(pair) for name, pair in self.means.items()},
            "spearman": self.spearman,
            "kendall": self.kendall,
            "reason": self.reason,
        }


def removal_agreement(runs: Sequence[Run]) -> list[RuleAgreement]:
    """The agreements of `across_rules`, of runs.

    Args:
        runs: run directories that were read; each may hold any number of rules.

    Returns:
        One agreement for each table, metric and pair of rules; runs without two rules to compare are an error.
    """
    submissions = [collected.submission for run in runs for collected in collect(run, unfinished=True)]
    found = [agreement for members in across_rules(submissions).values() for agreement in members]
    if not found:
        rules = sorted({rule_name(submission.removal) for submission in submissions})
        raise InvalidInput(
            f"nothing to compare across removal rules (there {'is' if len(rules) == 1 else 'are'} "
            f"{', '.join(rules) or 'none'}): run the same task, model, budget, explainers and metrics again "
            "with another --removal"
        )
    return found


def across_rules(submissions: Sequence[Submission]) -> dict[str, list[RuleAgreement]]:
    """Rank correlations of the explainers' means between every two removal rules, metric by metric.

    Compared is what has the same task, model, budget, protocol, cut of the texts and metric, versions and weights
    included; metrics of the model itself rank no explainer. An explainer's mean under a rule is over the samples that
    it has a score for under both rules, its seeds averaged, those of several submissions too; a row that was
    submitted twice counts once, and not at all where its values are in conflict. The mean is geometric where boards
    compare the metric on the log scale. Rules that change the scale of a metric are compared by ranks alone; two
    versions of a rule are two rules.

    Returns:
        By `CellIdentity.rules_key`, in the order of tables, the agreements of every metric and pair of rules; nothing
        where there is one rule.
    """
    if len({(submission.removal.name, rule_name(submission.removal)) for submission in submissions}) < 2:
        return {}
    known, _ = columns(submissions)
    by_column: dict[Column, _Rules] = {}
    for claim in _undisputed(submissions):
        rule, explainer = rule_name(claim.submission.removal), (claim.row.explainer.title, claim.row.explainer.version)
        for column, info in _columns(claim, known):
            by_rule = by_column.setdefault(column, _Rules(info)).scores.setdefault(rule, {})
            by_rule.setdefault(explainer, []).append(claim.scores(column.label))
    found: dict[str, list[RuleAgreement]] = {}
    for column, under in sorted(by_column.items(), key=lambda item: (item[0].table, item[1].info.order, item[0])):
        for a, b in combinations(sorted(under.scores), 2):
            found.setdefault(column.key, []).append(_agreement(column.table, under, a, b))
    return found


def rule_name(rule: RemovalIdentity) -> str:
    """Name and parameters, and the version where it is not the one that is registered here."""
    entry = registry.removals.find(rule.name)
    return str(rule) if entry is not None and entry.version == rule.version else f"{rule} (v{rule.version})"


def _undisputed(submissions: Sequence[Submission]) -> Iterator[Claim]:
    """Every row once, but for those that files give different values of."""
    for claims in tables(submissions).values():
        rows = settled(claims)[0].values()
        versions = Counter(claim.key for claim in rows)
        yield from (claim for claim in rows if versions[claim.key] == 1)


def _columns(claim: Claim, known: Mapping[MetricLabel, MetricInfo]) -> Iterator[tuple[Column, MetricInfo]]:
    """The columns that a row has scores in."""
    same = claim.submission.identity(claim.row)
    cut = "" if same.max_tokens is None else f" · {same.max_tokens} tokens"
    words = f"{task_reference(same.task)} · {same.model.name} · budget {same.budget} · {same.protocol}{cut}"
    for label in claim.row.results:
        if label in known and known[label].level == "explainer":
            yield Column(words, same.rules_key, label), known[label]


def _agreement(table: str, under: _Rules, a: str, b: str) -> RuleAgreement:
    """Of the explainers that both rules have, by title; of two versions of one that both have, each by its own."""
    means: dict[str, tuple[float, float]] = {}
    both = sorted(under.scores[a].keys() & under.scores[b].keys())
    titles = [title for title, _ in both]
    for title, version in both:
        left, right = (average_seeds(under.scores[rule][title, version]).values for rule in (a, b))
        pairs = [(one, two) for key, one in left.items() if one is not None and (two := right.get(key)) is not None]
        if pairs:
            name = title if titles.count(title) == 1 else f"{title} (v{version})"
            means[name] = _means(np.array(pairs, np.float64), under.info)
    x, y = np.array(list(means.values()), np.float64).reshape(-1, 2).T
    if reason := _unrankable(x, y):
        return RuleAgreement(table, under.info, (a, b), means, reason=reason)
    return RuleAgreement(table, under.info, (a, b), means, spearman(x, y), kendall(x, y))


def _means(pairs: Floats, info: MetricInfo) -> tuple[float, float]:
    """Of either column (samples x 2), as boards compare the metric; zeros are floored there by a share of the rest."""
    if info.scale != "log":
        return float(pairs[:, 0].mean()), float(pairs[:, 1].mean())
    first, second = (float(np.exp(turn(column[:, None], "lower", "log").mean())) for column in pairs.T)
    return first, second


def _unrankable(x: Floats, y: Floats) -> str:
    """Why two vectors of means have no rank correlation; empty where they have one."""
    if len(x) < FEWEST:
        return TOO_FEW
    return NOT_RANKED if min(len(np.unique(x)), len(np.unique(y))) == 1 else ""
