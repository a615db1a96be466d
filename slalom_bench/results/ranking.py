"""Rankings that keep their level: marks, rank sets and differences from the best, from one comparison of all pairs.

Places, marks and intervals come from the samples that all ranked rows define. Places are those of means; a mark says
that no other row does better on significantly more samples. A metric of skewed positive errors is on the log scale:
its means are geometric, and ratios stand for differences.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from slalom_bench.core.types import Bools, Floats
from slalom_bench.errors import InvalidInput
from slalom_bench.results.separation import Pairwise, all_pairs
from slalom_bench.results.statistics import ROUNDING, Scores, student_interval

Direction = Literal["higher", "lower"]
Scale = Literal["linear", "log"]
Verdict = Literal["best", "not separable", "no practical difference", "worse", "not ranked"]
TIED: tuple[Verdict, ...] = ("best", "not separable", "no practical difference")
K = TypeVar("K", bound=Hashable)
COVERAGE = 0.5
"""An explainer with scores for less than this share of the samples is listed but not ranked."""
FLOOR = 1e-6
"""On the log scale errors count as no less than this share of the typical one, the median of the rows' medians: zeros
have a logarithm then, and what is exact up to rounding is tied with what is exact."""
ROUNDED = 1e-12
"""Nor less than this: a millionth of a log-odds squared is what single precision rounds, and where most rows are exact
the typical error is rounding too."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Median over samples of row minus another (the best), on the log scale of row over it.

    With its interval, simultaneous over all pairs.
    """

    n: int
    value: float
    low: float | None
    high: float | None
    """None where there are too few samples for a finite interval."""
    ratio: bool
    wins: float
    """Share of the samples on which the row is better."""
    losses: float


@dataclass(frozen=True, slots=True)
class GeometricMean:
    """exp of the mean logarithm, with Student's interval on the logarithms; it needs two samples."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """One row of a ranking: its place among the samples that all ranked rows define."""

    name: str
    verdict: Verdict = "not ranked"
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    """The rank set: 1 + how many do better on significantly more samples, all - how many on fewer; joint over rows."""
    to_best: Effect | None = None
    p_adjusted: float | None = None
    """Of the best being better than this row, adjusted over all pairs."""
    geometric: GeometricMean | None = None
    """On the log scale only."""

    @property
    def tied_with_best(self) -> bool:
        """No other row does better on significantly more samples, by what could matter."""
        return self.verdict in TIED


@dataclass(frozen=True)
class Ranking:
    """The rows of one metric, best first, and the comparison they come from."""

    rows: Sequence[Ranked]
    scale: Scale
    names: Sequence[str]
    """The ranked rows: the columns of `scores` and of `pairs`."""
    scores: Floats
    """Samples x names on the compared scale, turned so that smaller is better."""
    pairs: Pairwise
    relevant: float | None
    """The smallest difference that matters, on the compared scale."""
    baselines: frozenset[str] = frozenset()
    """Rows that say nothing of the text: ranked, but that a metric tells methods from them says little of it."""

    @property
    def methods(self) -> list[int]:
        """The columns that a metric is judged by: all but the baselines, or all where fewer than two are left."""
        found = [i for i, name in enumerate(self.names) if name not in self.baselines]
        return found if len(found) > 1 else list(range(len(self.names)))

    @property
    def apart(self) -> Bools:
        """Methods x methods: the row is better than the column by what could matter."""
        return self.pairs.told_apart(self.relevant)[np.ix_(self.methods, self.methods)]

    def means(self) -> dict[str, float]:
        """The mean of every method, on the compared scale."""
        return {self.names[i]: float(self.scores[:, i].mean()) for i in self.methods}

    @property
    def separates(self) -> bool:
        """Whether any two methods are told apart by what could matter; if none are, nothing is marked."""
        return bool(self.apart.any())


def rank(
    table: Mapping[str, Scores],
    direction: Direction,
    *,
    scale: Scale = "linear",
    relevant: float | None = None,
    references: Collection[str] = (),
    baselines: Collection[str] = (),
    confidence: float = 0.95,
    seed: int = 0,
) -> Ranking:
    """Rank rows by their means over the samples that all ranked rows define, with marks that keep their level.

    A row is tied with the best unless another does better on significantly more samples (all pairs at once, see
    `slalom_bench.results.separation`), and that not certainly by less than matters. The best is the first by its mean
    of those that no other beats so: a mean may owe its place to one sample. A row that defines less than half of what
    the fullest row defines would shrink the common samples for everyone: it comes last and has no rank.

    Args:
        table: sample id to score, for each row.
        direction: whether higher or lower is better.
        scale: `log` compares mean logarithms (geometric means); scores must not be negative then, and the smallest
            count as FLOOR times the median of the rows' medians, and as ROUNDED at least.
        relevant: the smallest difference that matters, in the metric's unit; on the log scale as a share (0.05: 5 %).
        references: rows that are listed and not compared: they come last and have no rank.
        baselines: rows that are ranked, but by which the metric itself is not judged.
        confidence: 1 - the chance that any pair is separated wrongly; also that of the intervals of means.
        seed: of resamples and sign patterns.

    Returns:
        The rows, best first, with what they were compared by.
    """
    if direction not in ("higher", "lower"):
        raise InvalidInput(f"direction must be higher or lower, not {direction!r}")
    names, scores = paired({name: row for name, row in table.items() if name not in references})
    floor = log_floor(scores, _defined(table)) if scale == "log" else 0.0
    turned = turn(scores, direction, scale, floor)
    matters = np.log1p(relevant) if scale == "log" and relevant is not None else relevant
    pairs = all_pairs(turned, level=round(1 - confidence, 12), seed=seed)
    means = {
        name: geometric_mean(row, floor, confidence) if scale == "log" and set(row.values()) - {None} else None
        for name, row in table.items()
    }
    rows = _ranked(names, means, turned, pairs, matters, (direction, scale))
    ranked = set(names)
    rows += [Ranked(name, geometric=means[name]) for name in table if name not in ranked]
    return Ranking(rows, scale, names, turned, pairs, matters, frozenset(baselines))


def paired(table: Mapping[K, Scores]) -> tuple[list[K], Floats]:
    """The rows that can be ranked and their scores (samples x rows) on the samples that all of them define."""
    defined = {name: sum(value is not None for value in row.values()) for name, row in table.items()}
    least = max(1.0, COVERAGE * max(defined.values(), default=0))
    names = [name for name, n in defined.items() if n >= least]
    samples = list(table[names[0]]) if names else []
    rows = [[table[name].get(key) for name in names] for key in samples]
    whole = [row for row in rows if None not in row]
    return (names, np.array(whole, np.float64)) if whole else ([], np.empty((0, 0)))


def turn(scores: Floats, direction: Direction, scale: Scale, floor: float | None = None) -> Floats:
    """Scores (samples x rows) on the scale on which their means are compared, turned so that smaller is better."""
    if scale == "log":
        scores = np.log(np.maximum(scores, log_floor(scores) if floor is None else floor))
    return scores if direction == "lower" else -scores


def _defined(table: Mapping[str, Scores]) -> Floats:
    """Every defined score of a table."""
    return np.array([value for row in table.values() for value in row.values() if value is not None], np.float64)


def log_floor(scores: Floats, every: Floats | None = None) -> float:
    """What the smallest scores count as on the log scale: FLOOR times the median of the rows' positive medians.

    At least ROUNDED. Where no row has a positive median, FLOOR times that of all the positive scores in `every`; where
    there is none, the smallest positive number.

    >>> round(log_floor(np.array([[0.0, 2.0, 8.0], [0.0, 2.0, 8.0]])), 9)
    5e-06
    """
    if scores.size and scores.min() < 0:
        raise InvalidInput(f"a score of {scores.min():g} has no logarithm: only metrics of errors are on the log scale")
    medians = np.median(scores, axis=0) if scores.size else np.empty(0)
    positive = medians[medians > 0]
    if not len(positive) and every is not None:
        positive = every[every > 0]
    return max(ROUNDED, FLOOR * float(np.median(positive))) if len(positive) else float(np.finfo(np.float64).tiny)


def geometric_mean(row: Scores, floor: float, confidence: float = 0.95) -> GeometricMean:
    """Of the defined scores of a row, none below the floor; 0 where no score of the table is above 0."""
    if floor <= np.finfo(np.float64).tiny and not any(row.values()):
        return GeometricMean(0.0, 0.0, 0.0)
    x = np.log(np.maximum([value for value in row.values() if value is not None], floor))
    if len(x) < 2:
        return GeometricMean(float(np.exp(x.mean())), None, None)
    low, high = student_interval(x, confidence)
    return GeometricMean(float(np.exp(x.mean())), float(np.exp(low)), float(np.exp(high)))


def _ranked(
    names: Sequence[str],
    means: Mapping[str, GeometricMean | None],
    scores: Floats,
    pairs: Pairwise,
    relevant: float | None,
    how: tuple[Direction, Scale],
) -> list[Ranked]:
    """The ranked rows, best first; equal means share the better place."""
    if not names:
        return []
    slack = ROUNDING * float(np.abs(scores).max())
    columns = scores.mean(axis=0)
    places = 1 + (columns[:, None] - columns > slack).sum(axis=1)
    order = sorted(range(len(names)), key=lambda i: (places[i], names[i]))
    worse = set(np.flatnonzero(pairs.told_apart(relevant).any(axis=0)))
    best, sets = next((i for i in order if i not in worse), order[0]), pairs.rank_sets()
    # no worse than the best by what matters, whether or not it is separable from it
    near = set() if relevant is None else set(np.flatnonzero(pairs.upper[:, best] < relevant))
    rows = []
    for i in order:
        verdict: Verdict = "worse" if i in worse else "no practical difference" if i in near else "not separable"
        rows.append(
            Ranked(
                names[i],
                "best" if i == best else verdict,
                int(places[i]),
                *sets[i],
                None if i == best else effect_between(pairs, i, best, *how),
                None if i == best else float(pairs.p[best, i]),
                means[names[i]],
            )
        )
    return rows


def effect_between(pairs: Pairwise, row: int, other: int, direction: Direction, scale: Scale) -> Effect:
    """Row minus the other in the metric's own direction, on the log scale as a ratio."""
    ends = (-pairs.upper[other, row], pairs.difference[row, other], pairs.upper[row, other])
    low, value, high = (float(end) for end in (ends if direction == "lower" else (-end for end in reversed(ends))))
    wins, losses = float(pairs.wins[row, other]), float(pairs.wins[other, row])
    finite = bool(np.isfinite(low))
    if scale == "log":
        low, value, high = (float(np.exp(end)) for end in (low, value, high))
    return Effect(
        pairs.n, value, low if finite else None, high if finite else None, scale == "log", wins=wins, losses=losses
    )
