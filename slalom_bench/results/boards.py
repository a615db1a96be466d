"""Tables whose rows may be compared, made of submissions: the one path from results to Markdown and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slalom_bench import registry
from slalom_bench.core.hashing import short_hash
from slalom_bench.errors import InvalidInput
from slalom_bench.results.statistics import EXACT, Ranked, rank
from slalom_bench.results.submission import (
    CostInfo,
    Entry,
    Machine,
    MetricInfo,
    ModelInfo,
    Result,
    Submission,
    TaskInfo,
)

ARROWS = {"higher": "↑", "lower": "↓"}
LEVEL = 0.05
REUSED = "†: its queries were known from another explainer that asks the same; their model time is counted as its own."
TOO_FEW = "So few samples cannot make any difference significant: every entry is marked as tied with the best."


@dataclass(frozen=True)
class Cell:
    """One metric of one row: its result, and its place among the rows of the table."""

    result: Result
    ranked: Ranked

    @property
    def best(self) -> bool:
        """Best, or not separable from the best."""
        return self.ranked.tied_with_best

    @property
    def place(self) -> str:
        """`2`, `1-3` or nothing: the interval of the rank."""
        low, high = self.ranked.rank_low, self.ranked.rank_high
        if low is None:
            return ""
        return f"{low}" if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class Row:
    """One explainer in a table. A metric that it has no results for is missing from `cells`."""

    name: str
    entry: Entry
    submission: Submission
    cells: Mapping[str, Cell]
    also: tuple[str, ...] = ()
    """Older submissions of the same row, with how far their means are away."""

    @property
    def family(self) -> str:
        return self.entry.explainer.family

    @property
    def cost(self) -> CostInfo | None:
        return self.entry.cost

    @property
    def machine(self) -> Machine | None:
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
        return self.submission.command(self.entry)


@dataclass(frozen=True)
class Board:
    """Rows that differ in nothing but the explainer: same texts, model weights, protocol, removal, cut and budget."""

    key: str
    task: TaskInfo
    model: ModelInfo
    protocol: str
    removal: str
    max_tokens: int | None
    budget: int
    samples: Sequence[str]
    metrics: Mapping[str, MetricInfo]
    about_model: Mapping[str, str]
    """Metrics of the model itself, spelled: the same under every explainer, so never ranked."""
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        return f"{self.task.name} · {self.model.name} · budget {self.budget:,}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What all rows share, and what must be the same for a number to be compared with them."""
        return [
            ("task", f"{self.task.name} v{self.task.version}{spelled(self.task.params)}"),
            ("content", f"{self.task.content[:12]} ({self.task.source})"),
            ("model", f"{self.model.name}, {self.model.dtype}, weights {self.model.identity[:12]}"),
            ("samples", f"{len(self.samples)} (set {short_hash(list(self.samples), 8)})"),
            ("tokens", "whole texts" if self.max_tokens is None else f"first {self.max_tokens}"),
            ("budget", f"{self.budget:,} queries a sample"),
            ("protocol", self.protocol),
            ("removal", self.removal),
        ]

    @property
    def too_few(self) -> bool:
        """Whether there are so few samples that no difference from the best could be significant."""
        n = len(self.samples)
        return n <= EXACT and 2.0 / 2**n * max(1, len(self.rows) - 1) >= LEVEL

    def machines(self) -> list[tuple[Machine | None, list[Row]]]:
        """Rows by the machine that they were timed on: seconds are compared inside one only."""
        found: dict[str, tuple[Machine | None, list[Row]]] = {}
        for row in self.rows:
            key = "" if row.machine is None else row.machine.fingerprint
            found.setdefault(key, (row.machine, []))[1].append(row)
        return [found[key] for key in sorted(found, key=lambda key: (not key, key))]


def spelled(params: Mapping[str, object]) -> str:
    return "".join(f" {key}={value}" for key, value in params.items())


def boards(submissions: Sequence[Submission]) -> list[Board]:
    """Every table of these submissions, in an order that depends on nothing but what they say."""
    found: dict[str, list[tuple[Submission, Entry]]] = {}
    for submission in sorted(submissions, key=lambda s: (s.origin.started, s.file_name)):
        for entry in submission.entries:
            found.setdefault(board_key(submission, entry.budget), []).append((submission, entry))
    made = [_board(key, members) for key, members in found.items()]
    return sorted(made, key=lambda b: (b.task.name, b.model.embedded, b.protocol, b.model.name, b.budget, b.key))


def board_key(submission: Submission, budget: int) -> str:
    said = submission.model_dump(mode="json", include={"task", "model", "protocol", "removal", "max_tokens", "samples"})
    del said["task"]["source"]
    return short_hash([said, budget], 12)


def _board(key: str, members: Sequence[tuple[Submission, Entry]]) -> Board:
    first, entry = members[0]
    every = _metrics([submission for submission, _ in members])
    metrics = {label: info for label, info in every.items() if info.level == "explainer"}
    latest: dict[str, tuple[Submission, Entry]] = {}
    older: dict[str, list[Entry]] = {}
    for submission, row in members:
        same = short_hash([row.explainer.model_dump(), row.seeds])
        if same in latest:
            older.setdefault(same, []).append(latest[same][1])
        latest[same] = (submission, row)
    names = _names([row for _, row in latest.values()])
    ranked = {
        label: {r.name: r for r in rank(_scores(label, names, latest), info.direction)}
        for label, info in metrics.items()
    }
    rows = []
    for name, (same, (submission, row)) in zip(names, latest.items(), strict=True):
        cells = {label: Cell(row.results[label], ranked[label][name]) for label in metrics if label in row.results}
        also = tuple(_distance(row, old) for old in older.get(same, []))
        rows.append(Row(name, row, submission, cells, also))
    order = next(iter(metrics), "")
    rows.sort(key=lambda row: (_place(row, order), row.name))
    return Board(
        key,
        first.task,
        first.model,
        first.protocol,
        first.removal,
        first.max_tokens,
        entry.budget,
        first.samples,
        metrics,
        _about_model(every, [row for _, row in members]),
        rows,
    )


def _about_model(metrics: Mapping[str, MetricInfo], entries: Sequence[Entry]) -> dict[str, str]:
    made = {}
    for label, info in metrics.items():
        found = next((entry.results[label] for entry in entries if label in entry.results), None)
        if info.level == "model" and found is not None and found.mean is not None:
            parts = {**found.parts, info.headline: found.mean}
            arrow = ARROWS[info.direction]
            made[f"{info.name} {arrow}"] = ", ".join(f"{name} {parts[name]:.3g}" for name in sorted(parts))
    return made


def _scores(
    label: str, names: Sequence[str], rows: Mapping[str, tuple[Submission, Entry]]
) -> dict[str, dict[str, float | None]]:
    pairs = zip(names, rows.values(), strict=True)
    return {
        name: dict(zip(submission.samples, row.results[label].values, strict=True))
        for name, (submission, row) in pairs
        if label in row.results
    }


def _place(row: Row, label: str) -> tuple[int, float]:
    cell = row.cells.get(label)
    if cell is None:
        return (2, 0.0)
    return (1, 0.0) if cell.ranked.rank is None else (0, float(cell.ranked.rank))


def _names(entries: Sequence[Entry]) -> list[str]:
    """Titles, with version and seeds where a title alone does not tell two rows apart."""
    titles = [entry.title for entry in entries]
    return [
        entry.title
        if titles.count(entry.title) == 1
        else f"{entry.title} (v{entry.explainer.version}, seeds {','.join(map(str, entry.seeds))})"
        for entry in entries
    ]


def _metrics(submissions: Sequence[Submission]) -> dict[str, MetricInfo]:
    """Columns in the order that metrics declare; two files may not disagree on what a metric is."""
    found: dict[str, MetricInfo] = {}
    for submission in submissions:
        for label, info in submission.metrics.items():
            known = found.setdefault(label, info)
            if (known.direction, known.headline) != (info.direction, info.headline):
                raise InvalidInput(
                    f"{submission.file_name} says {label} is {info.direction}, {info.headline}; another submission of "
                    f"this task says {known.direction}, {known.headline}: correct or remove one"
                )

    def place(label: str) -> tuple[int, str]:
        entry = registry.metrics.find(found[label].name)
        return (1000 if entry is None else entry.order, label)

    return {label: found[label] for label in sorted(found, key=place)}


def _distance(new: Entry, old: Entry) -> str:
    """How far the means of two submissions of one row are apart, metric by metric."""
    both = [(label, new.results[label].mean, old.results[label].mean) for label in new.results if label in old.results]
    parts = [f"{label} {abs(a - b):.2g}" for label, a, b in both if a is not None and b is not None]
    return ", ".join(parts) or "nothing in common"
