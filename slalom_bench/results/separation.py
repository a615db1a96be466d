"""Which methods can be told apart: all pairs compared at once, at one family-wise level.

One mechanism serves the marks, the rank sets and the intervals of differences: on how many more texts the one of two
methods does better than the other, against the distribution of the largest such count under joint sign flips. It asks
nothing of the shape of the differences: tests of means lose their level where a few texts differ by much, as they do
here (`slalom-bench simulate --like` and docs/statistics.md show by how far).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput
from slalom_bench.results.statistics import EXACT, LEVEL, ROUNDING, random_signs

Signs = npt.NDArray[np.int8]
"""As small integers pairs take a quarter of the memory."""
Singles = npt.NDArray[np.float32]
PAIR_FLIPS = 4999
"""Random sign patterns for more samples than are enumerated: a p-value is then known to 0.003 at the level."""
WORK = 25_000_000
"""Statistics computed at most: above 70 methods there are fewer patterns, FEWEST at least. The level holds for any
number of them; with fewer, less is separated."""
FEWEST = 99
BLOCK = 1_000_000
"""Statistics held at once: about what stays in a processor's cache."""
DRAWN = 200_000
"""Numbers of one random stream: with another value the patterns, and so the p-values, would be others."""
HELD = 10_000_000
"""Numbers of sign patterns held at once: all of them up to 2,000 samples."""
_NO_BLOCK = 2**31
"""In the place of a block of sign patterns: lots have a stream of their own."""
SLACK = 1e-5
"""Counts over square roots are computed in single precision: two that differ by less are the same."""


@dataclass(frozen=True)
class Pairwise:
    """Every pair of m columns, of which the smaller score is the better."""

    n: int
    difference: Floats
    """m x m: median over samples of the row's score minus the column's."""
    upper: Floats
    """m x m: upper ends of the intervals of these medians, simultaneous over all pairs (single step); the lower ends
    are minus the transpose. Infinite where n is too small for them."""
    wins: Floats
    """m x m: share of the samples on which the row is better than the column."""
    critical: float
    """Wins minus losses (by their `lots`) over the root of their sum is above it, for any pair, with the chance `level`
    where all are equal; infinite where n is too small for it."""
    p: Floats
    """m x m, adjusted over all ordered pairs (step-down): evidence that the row is better than the column."""
    level: float

    @property
    def better(self) -> Bools:
        """m x m: the row is better on more samples; the chance of any wrong one is at most the level."""
        return self.p <= self.level

    def rank_sets(self) -> list[tuple[int, int]]:
        """The rank set of each column: all of them hold the true ranks at once."""
        return rank_sets(self.better)

    def told_apart(self, relevant: float | None = None) -> Bools:
        """m x m: the row is better than the column, and it is not certain that by less than `relevant`."""
        if relevant is None:
            return self.better
        worse_by_up_to = self.upper.T
        return self.better & (worse_by_up_to >= relevant)


def rank_sets(better: Bools) -> list[tuple[int, int]]:
    """For each column 1 + how many are better, m - how many are worse (m x m: the row is better than the column).

    >>> rank_sets(np.array([[False, True], [False, False]]))
    [(1, 1), (2, 2)]
    """
    return [
        (1 + int(above), len(better) - int(below))
        for above, below in zip(better.sum(axis=0), better.sum(axis=1), strict=True)
    ]


def too_few(n: int, level: float = LEVEL) -> bool:
    """Whether so few samples cannot separate any pair at this level, whatever the scores are.

    >>> too_few(5), too_few(6)
    (True, False)
    """
    return n <= EXACT and 2.0 / 2**n > level


def all_pairs(
    scores: Floats,
    *,
    among: Sequence[tuple[int, int]] | None = None,
    level: float = LEVEL,
    seed: int = 0,
    flips: int = PAIR_FLIPS,
) -> Pairwise:
    """Compare all columns with each other, or those pairs that are asked for, at a family-wise level.

    The statistic of an ordered pair is (wins - losses) / sqrt(wins + losses) over samples, ties left out: the sign
    test; equal counts are told apart by lot (`lots`). Its reference is the largest such statistic when rows (samples)
    change their signs at random, a whole row at once, so that methods stay as correlated as they are. P-values are
    those of the step-down over ordered pairs (Romano and Wolf 2005): the k-th largest statistic is compared with the
    largest over itself and all smaller ones. Up to EXACT samples all 2^n patterns are enumerated. The interval of a
    median difference holds every shift of the scores that the counts do not reject.

    Args:
        scores: n samples x m methods, finite, smaller is better.
        among: the pairs of columns that are the family, each in both orders; None: all of them. P-values of others
            are 1, and the critical value says nothing of them.
        level: the chance that any pair is separated wrongly.
        seed: of the lots and of the sign patterns.
        flips: how many of them, for more than EXACT samples.

    Returns:
        Median differences with simultaneous intervals, shares of wins, and adjusted p-values.

    Reference:
        Romano and Wolf 2005, Exact and approximate stepdown methods for multiple hypothesis testing, JASA; Mogstad,
        Romano, Shaikh and Wilhelm 2024, Inference for ranks, Review of Economic Studies.
    """
    n, m = scores.shape
    if not 0 < level < 1:
        raise InvalidInput(f"a level is between 0 and 1, not {level}")
    family = np.triu_indices(m, 1) if among is None else tuple(np.array(among, np.intp).reshape(-1, 2).T)
    noise = ROUNDING * float(np.abs(scores).max(initial=0.0))
    below = scores - noise
    wins = np.stack([(scores[:, i : i + 1] < below).mean(axis=0) for i in range(m)]) if n else np.zeros((m, m))
    if n < 2 or m < 2 or not len(family[0]):
        nothing = np.full((m, m), np.inf)
        np.fill_diagonal(nothing, 0.0)
        return Pairwise(n, _differences(scores, np.inf)[0], nothing, wins, np.inf, np.ones((m, m)), level)
    p, critical = against_flips(signs_of(scores, family, noise), m, family, level, seed, flips)
    return Pairwise(n, *_differences(scores, critical), wins, critical, p, level)


def _place(n: int, critical: float) -> int:
    """Of n sorted differences, the place of the upper end: as many may lie below it as the test does not reject."""
    return n if not np.isfinite(critical) else int(np.floor((n + critical * np.sqrt(n)) / 2 + SLACK))


def _differences(scores: Floats, critical: float) -> tuple[Floats, Floats]:
    """Medians of the differences, row minus column, and the upper ends of their intervals (both m x m).

    Row by row, since all at once would take n x m x m numbers; and once for both orders of a pair: those of the other
    are the same with their signs changed.
    """
    n, m = scores.shape
    place = _place(n, critical)
    middle, upper = np.zeros((m, m)), np.full((m, m), np.inf)
    np.fill_diagonal(upper, 0.0)
    columns = np.ascontiguousarray(scores.T)
    for i in range(m - 1 if n else 0):
        ordered = np.sort(columns[i] - columns[i + 1 :], axis=1)
        middle[i, i + 1 :] = (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2
        if place < n:
            upper[i, i + 1 :] = ordered[:, place]
            upper[i + 1 :, i] = 0.0 - ordered[:, n - 1 - place]
    return middle - middle.T, upper


def signs_of(scores: Floats, family: tuple[Ints, ...], noise: float = 0.0) -> Signs:
    """Pairs x samples: 1 where the first of a pair is better, -1 where the second is, 0 for a tie."""
    columns = np.ascontiguousarray(scores.T)
    found = np.empty((len(family[0]), len(scores)), np.int8)
    for part in _parts(len(found), 8 * len(scores)):
        difference = columns[family[1][part]] - columns[family[0][part]]
        np.subtract(difference > noise, difference < -noise, out=found[part], dtype=np.int8)
    return found


def _parts(rows: int, columns: int) -> list[slice]:
    """Rows in blocks of at most BLOCK numbers."""
    step = max(1, BLOCK // max(1, columns))
    return [slice(start, min(rows, start + step)) for start in range(0, rows, step)]


def lots(n: int, seed: int) -> Singles:
    """What each sample counts in every pair: 1 and, drawn by lot, less than 1/n more.

    All lots together are less than a win, so that only pairs with equal counts are ordered by them. Counts alone are
    coarse: a test by them stays well below its level. No sizes of differences can take the place of the lots: where
    wins are large and losses small, as often as not, they speak for one side, and the level is lost.
    """
    return (1 + np.random.default_rng([seed, n, _NO_BLOCK]).random(n) / n).astype(np.float32)


def against_flips(
    signs: Signs, m: int, family: tuple[Ints, ...], level: float, seed: int, flips: int
) -> tuple[Floats, float]:
    """Step-down p-values (m x m) of what signs (pairs x samples, overwritten) say, and the single-step critical value.

    A pair in the other order has minus the statistic. So pairs are kept once, the better column first, those with the
    largest statistic first: the largest over one of them and all ordered pairs below it is the largest over it and
    those after it, or minus the smallest of all.
    """
    one, other = family
    pairs, n = signs.shape
    if not pairs:
        return np.ones((m, m)), np.inf
    weights, roots = lots(n, seed), np.sqrt(np.maximum(np.count_nonzero(signs, axis=1), 1))

    def counted(part: slice) -> Singles:
        made = signs[part].astype(np.float32)
        made /= roots[part, None]
        made *= weights
        return made

    observed = np.concatenate([counted(part).sum(axis=1) for part in _parts(pairs, n)])
    order = np.argsort(-np.abs(observed), kind="stable")
    signs *= np.where(observed < 0, -1, 1).astype(np.int8)[:, None]
    signs, roots = signs[order], roots[order]
    first, second = (np.where(observed < 0, *ends)[order] for ends in ((other, one), (one, other)))
    t = np.abs(observed[order]).astype(np.float64)
    due = (t - SLACK)[:, None]
    reached, maxima = np.zeros(pairs), []
    for patterns in _patterns(n, 2 * pairs, flips, seed):
        flipped: npt.NDArray[np.floating] = patterns[:0]
        parts, largest = _parts(pairs, patterns.shape[1]), np.full(patterns.shape[1], -np.inf)
        highest = []
        for part in parts:
            flipped = counted(part) @ patterns
            largest = np.maximum(largest, -flipped.min(axis=0))
            highest.append(flipped.max(axis=0))
        for part in reversed(parts):
            high = highest.pop()
            if due[part.start] <= largest.min():  # of every pattern the largest is above these all: none can tell them
                largest = np.maximum(largest, high)
                reached[part] += patterns.shape[1]
                continue
            flipped = flipped if part is parts[-1] else counted(part) @ patterns
            largest = _suffix_maxima(flipped, largest)
            reached[part] += np.count_nonzero(flipped >= due[part], axis=1)
        maxima.append(largest)
    largest = np.concatenate(maxima)
    itself = 2 if n <= EXACT else 1
    adjusted = np.maximum.accumulate((reached + itself) / (len(largest) + itself))
    p = np.ones((m, m))
    p[first, second] = np.where(t > 0, np.minimum(adjusted, 1.0), 1.0)
    allowed = int(level * (len(largest) + itself) * (1 + SLACK)) - itself
    critical = float(np.sort(largest)[::-1][allowed]) if 0 <= allowed < len(largest) else np.inf
    return p, critical


def _suffix_maxima(rows: npt.NDArray[np.floating], after: Floats) -> Floats:
    """In place of each row the largest of it, of all that follow and of `after`; a copy of what the first became.

    In steps of many rows at once: a fourth of the time of row by row for 10,000 rows of 99; numpy's accumulate takes
    longer than either.
    """
    step = max(1, math.isqrt(len(rows)))
    whole = len(rows) // step * step
    for row in rows[whole:][::-1]:
        after = np.maximum(row, after, out=row)
    chunks = rows[:whole].reshape(-1, step, rows.shape[1])
    for place in reversed(range(step - 1)):
        np.maximum(chunks[:, place], chunks[:, place + 1], out=chunks[:, place])
    for chunk in chunks[::-1]:
        after = np.maximum(chunk, after, out=chunk)[0]
    return after.copy()


def _patterns(n: int, columns: int, flips: int, seed: int) -> Iterator[Singles]:
    """Sign patterns, a column each, in groups: all but the two that flip nothing for few samples, else random ones."""
    if n <= EXACT:
        codes = np.arange(1, 2**n - 1)
        yield np.where((codes >> np.arange(n)[:, None]) & 1, -1, 1).astype(np.float32)
        return
    flips = min(flips, max(FEWEST, WORK // columns))
    rows = max(1, DRAWN // max(n, columns))
    held: list[Floats] = []
    for block, start in enumerate(range(0, flips, rows)):
        held.append(random_signs(n, block, min(rows, flips - start), seed))
        if sum(map(len, held)) * n >= HELD or start + rows >= flips:
            yield np.concatenate(held).T.astype(np.float32)
            held = []
