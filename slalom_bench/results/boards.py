"""Boards: tables whose rows may be compared, made of submissions; all that is shown of results comes from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from slalom_bench import registry
from slalom_bench.core.hashing import short_hash
from slalom_bench.entries import Tier
from slalom_bench.errors import InvalidInput
from slalom_bench.results.quality import MetricQuality, metric_agreement, metric_quality
from slalom_bench.results.ranking import Ranked, Ranking, rank
from slalom_bench.results.separation import too_few
from slalom_bench.results.statistics import Scores
from slalom_bench.results.submission import CostInfo, Machine, MetricInfo, MetricSummary, Submission, SubmittedRow
from slalom_bench.running.identity import CellIdentity, MetricLabel


@dataclass(frozen=True)
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
    also: tuple[str, ...] = ()
    """Older submissions of the same row, with how far their means are away."""

    @property
    def family(self) -> str:
        """The explainer's family."""
        return self.submitted.explainer.family

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


@dataclass(frozen=True)
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
    rankings: Mapping[MetricLabel, Ranking]
    quality: Mapping[MetricLabel, MetricQuality]
    agreement: Mapping[tuple[MetricLabel, MetricLabel], float]
    """Rank correlations between metrics over rows."""

    @property
    def title(self) -> str:
        """The board in one line."""
        identity = self.identity
        return f"{identity.task.name} · {identity.model.name} · budget {identity.budget:,}"

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
        """Rows by the machine that they were timed on: seconds are compared inside one only."""
        found: dict[str, tuple[Machine | None, list[BoardRow]]] = {}
        for row in self.rows:
            key = "" if row.machine is None else row.machine.fingerprint
            found.setdefault(key, (row.machine, []))[1].append(row)
        return [found[key] for key in sorted(found, key=lambda key: (not key, key))]


@dataclass(frozen=True)
class _Member:
    """A row of a submission, with the submission."""

    submission: Submission
    row: SubmittedRow

    @property
    def key(self) -> str:
        """Submissions of one explainer and set of seeds are the same row, submitted again."""
        return short_hash([self.row.explainer.model_dump(exclude={"family"}), self.row.seeds])

    def scores(self, label: MetricLabel) -> Scores:
        return self.submission.scores(self.row, label)


def boards(submissions: Sequence[Submission]) -> list[Board]:
    """Every board of these submissions, in an order that depends on nothing but what they say."""
    found: dict[str, list[_Member]] = {}
    for submission in sorted(submissions, key=lambda s: (s.origin.started, s.file_name)):
        for row in submission.rows:
            key = short_hash([submission.identity(row).table_key, submission.samples], 12)
            found.setdefault(key, []).append(_Member(submission, row))
    made = [_board(key, members) for key, members in found.items()]

    def place(board: Board) -> tuple[str, int, str, str, int, str]:
        said = board.identity
        return (
            said.task.name,
            get_args(Tier).index(board.tier),
            said.protocol,
            said.model.name,
            said.budget,
            board.key,
        )

    return sorted(made, key=place)


def _board(key: str, members: Sequence[_Member]) -> Board:
    every = _metrics([member.submission for member in members])
    metrics = {label: info for label, info in every.items() if info.level == "explainer"}
    versions: dict[str, list[_Member]] = {}
    for member in members:
        versions.setdefault(member.key, []).append(member)
    latest = dict(zip(_names([same[-1].row for same in versions.values()]), versions.values(), strict=True))
    rankings = {label: _ranking(label, info, latest) for label, info in metrics.items()}
    rows = []
    for name, (*older, member) in latest.items():
        results = member.row.results
        cells = {label: _cell(rankings[label], results[label], name) for label in metrics if label in results}
        also = tuple(_distance(member.row, old.row) for old in older)
        rows.append(BoardRow(name, member.row, member.submission, cells, also))
    first = next(iter(metrics), None)
    rows.sort(key=lambda row: (_place(row, first), row.name))
    identity = members[0].submission.identity(members[0].row)
    return Board(
        key,
        identity,
        members[0].submission.samples,
        metrics,
        _about_model(every, members),
        rows,
        rankings,
        {label: metric_quality(ranking, _halves(label, latest)) for label, ranking in rankings.items()},
        metric_agreement(rankings),
    )


def _about_model(
    metrics: Mapping[MetricLabel, MetricInfo], members: Sequence[_Member]
) -> dict[MetricLabel, MetricResult]:
    made = {}
    for label, info in metrics.items():
        found = next((member.row.results[label] for member in members if label in member.row.results), None)
        if info.level == "model" and found is not None and found.mean is not None:
            made[label] = MetricResult(info, found)
    return made


def _ranking(label: MetricLabel, info: MetricInfo, latest: Mapping[str, Sequence[_Member]]) -> Ranking:
    table = {name: same[-1].scores(label) for name, same in latest.items() if label in same[-1].row.results}
    try:
        return rank(table, info.direction, scale=info.scale or "linear", relevant=info.relevant)
    except InvalidInput as error:
        raise InvalidInput(f"{label} on {latest[next(iter(table))][-1].submission.task.name}: {error}") from error


def _halves(label: MetricLabel, latest: Mapping[str, Sequence[_Member]]) -> list[dict[str, Scores]]:
    """The scores of every row on either half of a metric's masks; no tables where the metric draws none."""
    last = {name: same[-1] for name, same in latest.items()}
    drawn = {name: m for name, m in last.items() if label in m.row.results and m.row.results[label].halves}
    return [{name: m.submission.half(m.row, label, i) for name, m in drawn.items()} for i in (0, 1)] if drawn else []


def _cell(ranking: Ranking, result: MetricSummary, name: str) -> BoardCell:
    ranked = next(ranked for ranked in ranking.rows if ranked.name == name)
    return BoardCell(result, ranked, ranking.separates and ranked.tied_with_best)


def _place(row: BoardRow, label: MetricLabel | None) -> tuple[int, float]:
    cell = None if label is None else row.cells.get(label)
    if cell is None:
        return (2, 0.0)
    return (1, 0.0) if cell.ranked.rank is None else (0, float(cell.ranked.rank))


def _names(rows: Sequence[SubmittedRow]) -> list[str]:
    """Titles, with version and seeds where a title alone does not tell two rows apart, and a number if need be."""
    titles = [row.explainer.title for row in rows]
    names: list[str] = []
    for title, row in zip(titles, rows, strict=True):
        seeds = ",".join(map(str, row.seeds))
        name = title if titles.count(title) == 1 else f"{title} (v{row.explainer.version}, seeds {seeds})"
        names.append(f"{name} #{len(names) + 1}" if name in names else name)
    return names


def _metrics(submissions: Sequence[Submission]) -> dict[MetricLabel, MetricInfo]:
    """Columns in the order that metrics declare; two files may not disagree on what a metric is."""
    found: dict[MetricLabel, MetricInfo] = {}
    for submission in submissions:
        for label, info in submission.metrics.items():
            known = found.setdefault(label, _completed(info))
            if (known.direction, known.headline) != (info.direction, info.headline):
                raise InvalidInput(
                    f"{submission.file_name} says {label} is {info.direction}, {info.headline}; another submission of "
                    f"this task says {known.direction}, {known.headline}: correct or remove one"
                )
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


def _completed(info: MetricInfo) -> MetricInfo:
    """What a file from before metrics declared a scale does not say, as the metric that is registered here says it."""
    entry = registry.metrics.find(info.name)
    if info.scale is not None or entry is None:
        return info
    return info.model_copy(update={"scale": entry.scale, "relevant": entry.relevant})


def _distance(new: SubmittedRow, old: SubmittedRow) -> str:
    """How far the means of two submissions of one row are apart, metric by metric."""
    both = [(label, new.results[label].mean, old.results[label].mean) for label in new.results if label in old.results]
    parts = [f"{label} {abs(a - b):.2g}" for label, a, b in both if a is not None and b is not None]
    return ", ".join(parts) or "nothing in common"
