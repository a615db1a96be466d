"""Rows of several submissions that claim to be one: a single row where they agree, a conflict where they do not.

No file replaces what another one says, whenever it was made: which of two is right is a reviewer's to decide, by
removing the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import combinations
from typing import Literal

from slalom_bench.core.hashing import short_hash
from slalom_bench.results.near import distances, share
from slalom_bench.results.statistics import Scores
from slalom_bench.results.submission import Submission, SubmittedRow
from slalom_bench.running.facts import OUTSIDE
from slalom_bench.running.identity import MetricLabel

QUERIES: Literal["queries"] = "queries"
"""Of a text: what boards rank by beside the metrics, and what two files may say differently of one row."""
ASKED = 0.05
"""A method that stops by itself may stop earlier elsewhere: a share of its queries that two files may differ by."""
What = MetricLabel | Literal["queries"]


@dataclass(frozen=True)
class Claim:
    """A row of a submission, and the other submissions that say the same of it."""

    submission: Submission
    row: SubmittedRow
    """With the metrics of those others where it has none of its own."""
    also: tuple[Claim, ...] = ()
    """What those others say of it."""

    @cached_property
    def key(self) -> str:
        """Of one explainer and set of seeds: claims that share it are claims of the same row.

        Whoever scored a file of explanations named its method freely: it is not the explainer of that name.
        """
        outside = self.family == OUTSIDE
        return short_hash([self.row.explainer.model_dump(exclude={"family"}), self.row.seeds, outside])

    @property
    def submitted(self) -> SubmittedRow:
        """The row, as a board calls it."""
        return self.row

    @property
    def family(self) -> str:
        """The explainer's family."""
        return self.row.explainer.family

    def scores(self, label: MetricLabel) -> Scores:
        """The headline value of every sample."""
        return self.submission.scores(self.row, label)

    def distance(self, other: Claim, label: MetricLabel) -> float:
        """How far the other's values of a metric are from its own, as a share of their size: the largest."""
        one, two = self.row.results[label].values, other.row.results[label].values
        # the usual size of either: no file can make others seem near by large values of its own
        return max(*distances(one, two), *distances(two, one))

    def differs(self, other: Claim) -> list[What]:
        """What both say and do not agree on: metrics, and how much was asked of the model."""
        allowed = share(self.submission.model.dtype)
        found: list[What] = [label for label in self.shared(other) if self.distance(other, label) > allowed]
        one, two = self.said(QUERIES), other.said(QUERIES)
        return found if one is None or two is None or near_counts(one, two) else [*found, QUERIES]

    def said(self, what: What) -> float | None:
        """The mean of a metric, or the queries of a text; None where it says nothing of it."""
        if isinstance(what, MetricLabel):
            return self.row.results[what].mean if what in self.row.results else None
        return None if self.row.cost is None else self.row.cost.queries

    def shared(self, other: Claim) -> list[MetricLabel]:
        """The metrics of both."""
        return [label for label in self.row.results if label in other.row.results]

    def with_(self, other: Claim) -> Claim:
        """Both of them, which agree, as one."""
        row = self.row.model_copy(update={"results": other.row.results | self.row.results})
        return replace(self, row=row, also=(*self.also, other))

    @property
    def largest(self) -> float:
        """The largest difference to those others, as a share of a value's size."""
        return max((self.distance(other, label) for other in self.also for label in self.shared(other)), default=0.0)


@dataclass(frozen=True)
class Conflict:
    """A row that files give different values of."""

    row: str
    what: What
    means: Sequence[tuple[str, float | None]]
    """The name of each file and the mean that it gives."""


def near_counts(one: float, two: float) -> bool:
    """Whether two means of queries are those of one method on the same texts.

    >>> near_counts(1000, 990), near_counts(1000, 1)
    (True, False)
    """
    return abs(one - two) <= ASKED * max(one, two)


def tables(submissions: Iterable[Submission], attested: Collection[str] = ()) -> dict[str, list[Claim]]:
    """The rows of submissions by board: all but explainer and seeds are the same, and the samples.

    Of files that say the same, the one that was computed again by a reviewer (its fingerprint is among `attested`)
    comes first, then the oldest: a later one confirms it.
    """
    found: dict[str, list[Claim]] = {}

    def order(submission: Submission) -> tuple[bool, datetime, str]:
        started = datetime.fromisoformat(submission.origin.started)
        return submission.fingerprint not in attested, started, submission.file_name

    for submission in sorted(submissions, key=order):
        for row in submission.rows:
            key = short_hash([submission.identity(row).table_key, submission.samples], 12)
            found.setdefault(key, []).append(Claim(submission, row))
    return found


def settled(claims: Sequence[Claim]) -> tuple[dict[str, Claim], list[Conflict]]:
    """The rows to show, by names that differ, and what is in conflict among them."""
    same: dict[str, list[Claim]] = {}
    for claim in claims:
        known = same.setdefault(claim.key, [])
        at = next((i for i, other in enumerate(known) if not other.differs(claim)), None)
        if at is None:
            known.append(claim)
        else:
            known[at] = known[at].with_(claim)
    conflicts = [found for rivals in same.values() for found in _conflicts(rivals)]
    return _named(list(same.values())), conflicts


def _conflicts(rivals: Sequence[Claim]) -> list[Conflict]:
    matters = {what: None for one, other in combinations(rivals, 2) for what in one.differs(other)}
    return [
        Conflict(
            rivals[0].row.explainer.title,
            what,
            [
                (one.submission.file_name, one.said(what))
                for one in rivals
                if what == QUERIES or what in one.row.results
            ],
        )
        for what in matters
    ]


def _named(rows: Sequence[Sequence[Claim]]) -> dict[str, Claim]:
    """Titles, with version and seeds where a title alone does not tell rows apart, and the file in a conflict."""
    titles = [rivals[0].row.explainer.title for rivals in rows]
    names: dict[str, Claim] = {}
    for title, rivals in zip(titles, rows, strict=True):
        row = rivals[0].row
        seeds = ",".join(map(str, row.seeds))
        name = title if titles.count(title) == 1 else f"{title} (v{row.explainer.version}, seeds {seeds})"
        for claim in rivals:
            own = name if len(rivals) == 1 else f"{name} (in conflict, file {claim.submission.fingerprint[:8]})"
            names[f"{own} #{len(names) + 1}" if own in names else own] = claim
    return names
