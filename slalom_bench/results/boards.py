"""Boards: tables whose rows may be compared, made of submissions; all that is shown of results comes from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import get_args

from slalom_bench.entries import Tier
from slalom_bench.errors import InvalidInput
from slalom_bench.results.attestation import Again, Attestation
from slalom_bench.results.claims import Claim, Conflict, settled, tables
from slalom_bench.results.columns import columns
from slalom_bench.results.quality import MetricQuality, metric_agreement, metric_quality
from slalom_bench.results.ranking import Ranked, Ranking, rank
from slalom_bench.results.removal_agreement import RuleAgreement, across_rules, rule_name
from slalom_bench.results.separation import too_few
from slalom_bench.results.statistics import Scores
from slalom_bench.results.submission import (
    CostInfo,
    Machine,
    MetricInfo,
    MetricSummary,
    Submission,
    SubmittedRow,
    task_reference,
)
from slalom_bench.running.identity import CellIdentity, MetricLabel

SEARCH = "search"
"""The family of references that ask the model what a metric asks: shown beside the methods, never ranked with them."""
AT_ONCE = 2
"""Metrics that are ranked at the same time: of a thousand rows each takes a hundred MB."""
BASELINE = "baseline"
"""The family of rows that say nothing of the text: ranked, but no metric is judged by telling methods from them."""


@dataclass(frozen=True, slots=True)
class BoardCell:
    """One metric of one row: its result, and its place among the rows of the board."""

    result: MetricSummary
    ranked: Ranked
    marked: bool
    """Best, not separable from the best, or not by what could matter; never where the metric separates no two rows."""

    @property
    def place(self) -> str:
        """`2`, `1-3` or nothing: the rank set, that of all rows joint."""
        low, high = self.ranked.rank_low, self.ranked.rank_high
        if low is None:
            return ""
        return f"{low}" if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class BoardRow:
    """One explainer on a board. A metric that it has no results for is missing from `cells`."""

    name: str
    """The explainer's title, with version and seeds where the title alone does not tell two rows apart."""
    submitted: SubmittedRow
    submission: Submission
    cells: Mapping[MetricLabel, BoardCell]
    also: tuple[Claim, ...] = ()
    """What other files say of this row, which is the same."""
    largest: float = 0.0
    """The largest difference to them, as a share of a value's size."""
    attested: tuple[Again, ...] = ()
    """Who computed it again."""

    @property
    def family(self) -> str:
        """The explainer's family."""
        return self.submitted.explainer.family

    def scores(self, label: MetricLabel) -> Scores:
        """The headline value of every sample."""
        return self.submission.scores(self.submitted, label)

    @property
    def failed(self) -> int:
        """Samples that failed, counted in each seed."""
        return self.submitted.failed

    @property
    def cost(self) -> CostInfo | None:
        """What a sample costs, where that was counted."""
        return self.submitted.cost

    @property
    def diagnostics(self) -> Mapping[str, float]:
        """What the method says of its own computation, on average: see `results.diagnostics`."""
        return self.submitted.diagnostics

    @property
    def machine(self) -> Machine | None:
        """What it was timed on; None where that were several."""
        return self.submission.origin.machine

    @property
    def seconds(self) -> float | None:
        """Median seconds per sample, where they are of one known machine."""
        return None if self.cost is None or self.machine is None else self.cost.median_seconds

    @property
    def reused(self) -> bool:
        """Whether it was answered from what another explainer had asked, so that its model time is that one's."""
        return self.cost is not None and self.cost.saved_seconds > 0

    @property
    def command(self) -> str:
        """The command that computes the row again."""
        return self.submission.command(self.submitted)

    @property
    def again(self) -> str:
        """How it stands, in a word: `recomputed` by a reviewer, else `reproduced` in another file, else nothing."""
        return "recomputed" if self.attested else "reproduced" if self.also else ""

    def timings(self) -> list[BoardRow]:
        """The row as it was timed, by each of the files that say the same of it."""
        others = [replace(self, submitted=claim.row, submission=claim.submission, also=()) for claim in self.also]
        return [self, *others]


@dataclass(frozen=True)
class MetricResult:
    """A metric with its result."""

    info: MetricInfo
    result: MetricSummary

    @property
    def values(self) -> dict[str, float]:
        """Every named mean of it, sorted by name."""
        headline = {} if self.result.mean is None else {self.info.headline: self.result.mean}
        return dict(sorted((self.result.parts | headline).items()))


@dataclass(frozen=True, repr=False)
class Board:
    """Rows that differ in nothing but the explainer: same texts, model weights, protocol, removal, cut and budget."""

    key: str
    identity: CellIdentity
    """Of its first row: all but explainer and seed is that of every row."""
    samples: Sequence[str]
    metrics: Mapping[MetricLabel, MetricInfo]
    about_model: Mapping[MetricLabel, MetricResult]
    """Metrics of the model itself: the same under every explainer, so never ranked."""
    rows: Sequence[BoardRow]
    quality: Mapping[MetricLabel, MetricQuality]
    agreement: Mapping[tuple[MetricLabel, MetricLabel], float]
    """Rank correlations between metrics over rows."""
    across_rules: Sequence[RuleAgreement]
    """Of every metric, how alike this board's removal rule and another rank the explainers; nothing for one rule."""
    conflicts: Sequence[Conflict] = ()
    """Rows that files give different values of; every one of them is among the rows."""
    left_out: Mapping[MetricLabel, Sequence[str]] = field(default_factory=dict)
    """Metrics on whose meaning files disagree, with what they say: no column of them can be ranked."""

    def ranking(self, label: MetricLabel) -> Ranking:
        """The ranking by a metric, with all its pairs, computed again."""
        return _ranking(label, self.metrics[label], {row.name: row for row in self.rows if label in row.cells})

    @property
    def title(self) -> str:
        """The board in one line."""
        return f"{self.task} · {self.identity.model.name} · budget {self.identity.budget:,}"

    @property
    def task(self) -> str:
        """As on the command line: with other parameters it is another task, with pages of its own."""
        return task_reference(self.identity.task)

    def __repr__(self) -> str:
        return f"<{self.title}: {len(self.rows)} rows, {len(self.metrics)} metrics, {len(self.samples)} samples>"

    @property
    def cut(self) -> int | None:
        """Texts that were cut; None where no submission of its rows says so."""
        counts = [row.submission.cut for row in self.rows if row.submission.cut is not None]
        return max(counts, default=None)

    @property
    def tier(self) -> Tier:
        """The model's: boards of one tier stand together, apart from the others."""
        return self.identity.model.tier

    @property
    def too_few(self) -> bool:
        """Whether there are so few samples that no difference could be significant."""
        return too_few(len(self.samples))

    def machines(self) -> list[tuple[Machine | None, list[BoardRow]]]:
        """Rows by the machine that they were timed on: seconds are compared inside one only.

        A row that several machines have computed is in the list of each, once.
        """
        found: dict[str, tuple[Machine | None, list[BoardRow]]] = {}
        for row in chain.from_iterable(each.timings() for each in self.rows):
            key = "" if row.machine is None else row.machine.fingerprint
            _, members = found.setdefault(key, (row.machine, []))
            if all(row.name != member.name for member in members[-1:]):
                members.append(row)
        return [found[key] for key in sorted(found, key=lambda key: (not key, key))]


def boards(
    submissions: Sequence[Submission], attestations: Mapping[str, Sequence[Attestation]] = MappingProxyType({})
) -> list[Board]:
    """Every board of these submissions, in an order that depends on nothing but what they say.

    Args:
        submissions: what was submitted.
        attestations: what was computed again, by the fingerprint of the submission.
    """
    rules = across_rules(submissions)
    grouped = tables(submissions, attestations)
    made = [_board(key, claims, rules, attestations) for key, claims in grouped.items()]

    def place(board: Board) -> tuple[str, int, str, str, int, str]:
        said = board.identity
        return (
            board.task,
            get_args(Tier).index(board.tier),
            said.protocol,
            said.model.name,
            said.budget,
            board.key,
        )

    return sorted(made, key=place)


def _board(
    key: str,
    claims: Sequence[Claim],
    rules: Mapping[str, Sequence[RuleAgreement]],
    attestations: Mapping[str, Sequence[Attestation]],
) -> Board:
    every, left_out = columns(claim.submission for claim in claims)
    metrics = {label: info for label, info in every.items() if info.level == "explainer"}
    named, conflicts = settled(claims)

    def judged(label: MetricLabel) -> tuple[dict[str, Ranked], MetricQuality, dict[str, float]]:
        # of a thousand rows a ranking has millions of pairs: it is not kept
        own = {name: claim for name, claim in named.items() if label in claim.row.results}
        ranking = _ranking(label, metrics[label], own)
        quality = metric_quality(ranking, _halves(label, named))
        return {ranked.name: ranked for ranked in ranking.rows}, quality, ranking.means()

    placed: dict[MetricLabel, dict[str, Ranked]] = {}
    quality: dict[MetricLabel, MetricQuality] = {}
    means: dict[MetricLabel, dict[str, float]] = {}
    with ThreadPoolExecutor(AT_ONCE) as threads:  # numpy lets others work meanwhile
        for label, made in zip(metrics, threads.map(judged, metrics), strict=True):
            placed[label], quality[label], means[label] = made
    rows = []
    for name, claim in named.items():
        results = claim.row.results
        cells = {
            label: BoardCell(results[label], ranked, quality[label].separates and ranked.tied_with_best)
            for label in metrics
            if label in results and (ranked := placed[label][name])
        }
        again = _attested(claim, attestations)
        rows.append(BoardRow(name, claim.row, claim.submission, cells, claim.also, claim.largest, again))
    first = next(iter(metrics), None)
    rows.sort(key=lambda row: (_place(row, first), row.name))
    identity = claims[0].submission.identity(claims[0].row)
    return Board(
        key,
        identity,
        claims[0].submission.samples,
        metrics,
        _about_model(every, claims),
        rows,
        quality,
        metric_agreement(means),
        [found for found in rules.get(identity.rules_key, ()) if rule_name(identity.removal) in found.rules],
        conflicts,
        left_out,
    )


def _attested(claim: Claim, attestations: Mapping[str, Sequence[Attestation]]) -> tuple[Again, ...]:
    """What was computed again of a row, in whichever of the files that say the same of it."""
    every = [(one, made) for one in (claim, *claim.also) for made in attestations.get(one.submission.fingerprint, ())]
    return tuple(Again(made, row) for one, made in every if (row := made.row(one.row.key)) is not None)


def _about_model(metrics: Mapping[MetricLabel, MetricInfo], claims: Sequence[Claim]) -> dict[MetricLabel, MetricResult]:
    made = {}
    for label, info in metrics.items():
        found = next((claim.row.results[label] for claim in claims if label in claim.row.results), None)
        if info.level == "model" and found is not None and found.mean is not None:
            made[label] = MetricResult(info, found)
    return made


def _ranking(label: MetricLabel, info: MetricInfo, named: Mapping[str, Claim | BoardRow]) -> Ranking:
    """The ranking of rows by a metric that all of them have."""
    table = {name: row.scores(label) for name, row in named.items()}
    kinds = (SEARCH, BASELINE)
    searches, baselines = ({name for name, row in named.items() if row.family == kind} for kind in kinds)
    aside = searches | partial({name: row.submitted for name, row in named.items()}, label)
    scale, relevant = info.scale or "linear", info.relevant
    try:
        return rank(table, info.direction, scale=scale, relevant=relevant, references=aside, baselines=baselines)
    except InvalidInput as error:
        raise InvalidInput(f"{label} on {next(iter(named.values())).submission.task.name}: {error}") from error


def partial(rows: Mapping[str, SubmittedRow], label: MetricLabel) -> set[str]:
    """Rows that failed on more texts than the one that failed on fewest: means of theirs are of other texts."""
    failed = {name: row.unexplained(label) for name, row in rows.items()}
    least = min(failed.values(), default=0)
    return {name for name, count in failed.items() if count > least}


def _halves(label: MetricLabel, named: Mapping[str, Claim]) -> list[dict[str, Scores]]:
    """The scores of every row on either half of a metric's masks; no tables where the metric draws none."""
    methods = {name: claim for name, claim in named.items() if claim.row.explainer.family != SEARCH}
    drawn = {name: c for name, c in methods.items() if label in c.row.results and c.row.results[label].halves}
    return [{name: c.submission.half(c.row, label, i) for name, c in drawn.items()} for i in (0, 1)] if drawn else []


def _place(row: BoardRow, label: MetricLabel | None) -> tuple[int, float]:
    cell = None if label is None else row.cells.get(label)
    if cell is None:
        return (2, 0.0)
    return (1, 0.0) if cell.ranked.rank is None else (0, float(cell.ranked.rank))
