"""What the statistics keep of what they promise, where the truth is known: size of the tests, coverage of the sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.results.separation import Signs, against_flips, rank_sets, signs_of
from slalom_bench.results.statistics import LEVEL, bootstrap_interval, student_interval

Draw = Callable[[np.random.Generator, int, int], Floats]
"""Generator, texts, methods -> texts x methods."""
SIZES = (20, 50, 100)
METHODS = (12, 25)
GROUPS = 3
GAP = 2.0
"""Distance of the groups of equal methods, in standard deviations of one method's scores."""


@dataclass(frozen=True)
class Law:
    """How scores are drawn where all methods are equal on the scale on which they are compared."""

    name: str
    scale: Literal["linear", "log"]
    draw: Draw
    """On the compared scale."""
    says: str
    mean: float | None = None
    """The true mean score (not logarithm) of the first method; None: no interval is checked."""
    mean_log: float = 0.0
    """The true mean logarithm, on the log scale."""


def _text(rng: np.random.Generator, n: int) -> Floats:
    """What a text does to all methods."""
    return rng.normal(size=(n, 1))


def _clustered(rng: np.random.Generator, n: int, m: int) -> Floats:
    groups = rng.normal(size=(n, -(-m // 4)))
    drawn: Floats = np.repeat(groups, 4, axis=1)[:, :m] + 0.3 * rng.normal(size=(n, m)) + _text(rng, n)
    return drawn


LAWS = (
    Law("normal", "linear", lambda rng, n, m: rng.normal(size=(n, m)) + _text(rng, n), "bounded metrics", 0.0),
    Law("t3", "linear", lambda rng, n, m: rng.standard_t(3, size=(n, m)) + _text(rng, n), "heavy tails", 0.0),
    Law(
        "lognormal",
        "log",
        lambda rng, n, m: rng.normal(size=(n, m)) + _text(rng, n),
        "squared errors over three decades",
        float(np.exp(1)),
    ),
    Law(
        "gamma",
        "log",
        lambda rng, n, m: np.log(rng.gamma(0.5, size=(n, m))) + _text(rng, n),
        "squares of normal errors: logarithms skewed to the left",
        float(0.5 * np.exp(0.5)),
        -1.9635100260214235,  # digamma(1/2)
    ),
    Law("clustered", "log", _clustered, "lognormal, methods alike in groups of four", float(np.exp(2.09 / 2))),
)


@dataclass(frozen=True)
class Seen:
    """Scores of real methods on real texts, from which texts are drawn again where all methods are equal.

    Equal: in each pair either is better on as many texts as the other. Each pair's differences are moved by their
    median, and pairs stay as correlated as they are. Pairs of which that does not leave as many wins on either side,
    because of ties, are left out: one win too many among 50 texts is a difference that 100 draws may well find.
    """

    name: str
    scale: Literal["linear", "log"]
    scores: Floats
    """Texts x methods."""

    def pairs(self) -> tuple[tuple[Ints, Ints], Signs]:
        """The pairs that can be made equal, and the signs of their differences (pairs x texts), which add up to 0."""
        one, other = np.triu_indices(self.scores.shape[1], 1)
        between = (self.scores[:, other] - self.scores[:, one]).T
        signs = np.sign(between - np.median(between, axis=1, keepdims=True)).astype(np.int8)
        fair = signs.sum(axis=1) == 0
        return (one[fair], other[fair]), signs[fair]


@dataclass(frozen=True)
class Separation:
    """How often marks and rank sets are right: shares over repetitions."""

    law: str
    scale: str
    texts: int
    methods: int
    size: float
    """All methods equal: any pair separated (nominal: 0.05)."""
    unmarked: float
    """All methods equal: share of methods that lose their mark."""
    rank_coverage: float | None
    """Three groups of equal methods far apart: all rank sets hold all ranks of their group (nominal: at least 0.95).
    None for scores that were seen."""


@dataclass(frozen=True)
class Coverage:
    """How often the intervals of one method hold the truth (nominal: 0.95)."""

    law: str
    scale: str
    texts: int
    mean: float
    """Bootstrap interval of the mean."""
    compared: float
    """Student's interval of the mean on the compared scale: on the log scale that of the geometric mean."""


@dataclass(frozen=True)
class Plan:
    """What is simulated. Each line has a generator of its own: it is the same whatever else is asked."""

    laws: Sequence[Law] = LAWS
    texts: Sequence[int] = SIZES
    methods: Sequence[int] = METHODS
    repetitions: int = 300
    """Data sets for a line on separation: with 300 a share of 5 % is known to 2.5 points (two standard errors)."""
    flips: int = 499
    seed: int = 0
    seen: Sequence[Seen] = ()

    @property
    def lines(self) -> int:
        """How many lines it has."""
        intervals = sum(law.mean is not None for law in self.laws)
        return len(self.texts) * (len(self.laws) * len(self.methods) + intervals + len(self.seen))

    def run(self) -> Iterator[Separation | Coverage]:
        """The lines, one after the other."""
        for law in self.laws:
            for n in self.texts:
                for m in self.methods:
                    yield self.separation(law, n, m)
                if law.mean is not None:
                    yield self.coverage(law, law.mean, n)
        for seen in self.seen:
            for n in self.texts:
                yield self.again(seen, n)

    def separation(self, law: Law, n: int, m: int) -> Separation:
        """Size, marks lost and coverage of rank sets."""
        rng = np.random.default_rng([self.seed, n, m, *law.name.encode()])
        group = np.arange(m) * GROUPS // m
        pairs = np.triu_indices(m, 1)
        offsets = GAP * group * law.draw(rng, 2000, m).std(axis=0).max()
        truth = [(1 + int((group < g).sum()), m - int((group > g).sum())) for g in group]
        right = np.zeros((self.repetitions, 3))
        for i in range(self.repetitions):
            equal = self.better(signs_of(law.draw(rng, n, m), pairs), m, pairs, i)
            sets = rank_sets(self.better(signs_of(law.draw(rng, n, m) + offsets, pairs), m, pairs, i))
            held = all(low <= a and b <= high for (low, high), (a, b) in zip(sets, truth, strict=True))
            right[i] = bool(equal.any()), float(equal.any(axis=0).mean()), held
        return Separation(law.name, law.scale, n, m, *right.mean(axis=0).tolist())

    def again(self, seen: Seen, n: int) -> Separation:
        """Size and marks lost where n texts are drawn from those that were seen."""
        rng = np.random.default_rng([self.seed, n, *seen.name.encode()])
        pairs, signs = seen.pairs()
        m = seen.scores.shape[1]
        wrong = np.zeros((self.repetitions, 2))
        for i in range(self.repetitions):
            better = self.better(signs[:, rng.integers(0, signs.shape[1], n)], m, pairs, i)
            wrong[i] = bool(better.any()), float(better.any(axis=0).mean())
        size, unmarked = wrong.mean(axis=0).tolist()
        return Separation(seen.name, seen.scale, n, m, size, unmarked, None)

    def better(self, signs: Signs, m: int, pairs: tuple[Ints, ...], seed: int) -> Bools:
        """m x m: what a board would call better, of the signs of its pairs (pairs x texts)."""
        return against_flips(signs, m, pairs, LEVEL, seed, self.flips)[0] <= LEVEL

    def coverage(self, law: Law, mean: float, n: int) -> Coverage:
        """Coverage of the intervals, over five times as many data sets: they cost little."""
        rng = np.random.default_rng([self.seed, n, *law.name.encode()])
        held = np.zeros((5 * self.repetitions, 2))
        for i in range(len(held)):
            x = law.draw(rng, n, 1)[:, 0]
            low, high = bootstrap_interval(np.exp(x) if law.scale == "log" else x)
            below, above = student_interval(x)
            held[i] = low <= mean <= high, below <= (law.mean_log if law.scale == "log" else mean) <= above
        return Coverage(law.name, law.scale, n, *held.mean(axis=0).tolist())
