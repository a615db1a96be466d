"""Which methods can be told apart: all pairs compared at once, at one family-wise level.

One mechanism serves the marks, the rank sets and the intervals of differences: the studentised paired difference of
every ordered pair of methods, against the distribution of the largest of them under joint sign flips.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput
from slalom_bench.results.statistics import EXACT, LEVEL, ROUNDING, random_signs

PAIR_FLIPS = 4999
"""Random sign patterns for more samples than are enumerated: a p-value is then known to 0.003 at the level."""
WORK = 100_000_000
"""Statistics computed at most: above 140 methods there are fewer patterns, FEWEST at least. The level holds for any
number of them; with fewer, less is separated."""
FEWEST = 99
BLOCK = 200_000
"""Statistics held at once: what stays in a processor's cache."""
SLACK = 1e-9
"""Relative: a pattern that repeats the data up to rounding counts as reaching them."""


@dataclass(frozen=True)
class Pairwise:
    """Every pair of m columns, of which the smaller mean is the better."""

    n: int
    difference: Floats
    """m x m: mean of the row's column minus that of the column's column."""
    error: Floats
    """m x m: standard errors of the differences, paired."""
    critical: float
    """Difference +- critical x error covers all pairs at once (single step); infinite where n is too small for it."""
    p: Floats
    """m x m, adjusted over all ordered pairs (step-down): evidence that the row is better (smaller) than the column."""
    level: float

    @property
    def better(self) -> Bools:
        """m x m: the row is better than the column; the chance of any wrong one is at most the level."""
        return self.p <= self.level

    @cached_property
    def upper(self) -> Floats:
        """Upper ends of the simultaneous intervals of the differences; the lower ones are minus the transpose."""
        width = self.critical * self.error if np.isfinite(self.critical) else np.full_like(self.error, np.inf)
        np.fill_diagonal(width, 0.0)
        ends: Floats = self.difference + width
        return ends

    def rank_sets(self) -> list[tuple[int, int]]:
        """For each column 1 + how many are better, m - how many are worse: all sets hold the true ranks at once."""
        better = self.better
        return [
            (1 + int(above), len(better) - int(below))
            for above, below in zip(better.sum(axis=0), better.sum(axis=1), strict=True)
        ]

    def told_apart(self, relevant: float | None = None) -> Bools:
        """m x m: the row is better than the column, and it is not certain that by less than `relevant`."""
        if relevant is None:
            return self.better
        worse_by_up_to = self.upper.T
        return self.better & (worse_by_up_to >= relevant)


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

    The statistic of an ordered pair is the mean paired difference over its standard error. Its reference is the largest
    such statistic when the centred rows (samples) change their signs at random, a whole row at once, so that methods
    stay as correlated as they are. P-values are those of the step-down over ordered pairs (Romano and Wolf 2005):
    the k-th largest statistic is compared with the largest over itself and all smaller ones. Up to EXACT samples all
    2^n patterns are enumerated; the two that flip nothing have a centred statistic of zero and stand for the data
    themselves. Exact size needs differences symmetric about their mean; `slalom-bench simulate` shows what it is where
    they are not.

    Args:
        scores: n samples x m methods, finite, smaller is better, on the scale on which means are compared.
        among: the pairs of columns that are the family, each in both orders; None: all of them. P-values of others
            are 1, and the critical value says nothing of them.
        level: the chance that any pair is separated wrongly.
        seed: of the sign patterns.
        flips: how many of them, for more than EXACT samples.

    Returns:
        Differences, standard errors, the critical value of simultaneous intervals, and adjusted p-values.

    Reference:
        Romano and Wolf 2005, Exact and approximate stepdown methods for multiple hypothesis testing, JASA; Mogstad,
        Romano, Shaikh and Wilhelm 2024, Inference for ranks, Review of Economic Studies.
    """
    n, m = scores.shape
    if not 0 < level < 1:
        raise InvalidInput(f"a level is between 0 and 1, not {level}")
    means = scores.mean(axis=0) if n else np.zeros(m)
    difference = means[:, None] - means
    if n < 2 or m < 2:
        return Pairwise(n, difference, np.zeros((m, m)), np.inf, np.ones((m, m)), level)
    centred = scores - means
    # row by row: all at once would take n x m x m numbers
    squares = np.stack([((centred - centred[:, i : i + 1]) ** 2).sum(axis=0) for i in range(m)])
    noise = ROUNDING * float(np.abs(scores).max())
    squares[squares <= n * noise**2] = 0.0
    error = np.sqrt(squares / (n - 1) / n)
    certain = np.where(-difference > noise, np.inf, 0.0)
    observed = np.divide(-difference, error, out=certain, where=error > 0)
    family = np.triu_indices(m, 1) if among is None else tuple(np.array(among, np.intp).reshape(-1, 2).T)
    p, critical = _against_flips(observed, centred, squares, family, level, seed, flips)
    return Pairwise(n, difference, error, critical, p, level)


def _against_flips(
    observed: Floats,
    centred: Floats,
    squares: Floats,
    family: tuple[Ints, ...],
    level: float,
    seed: int,
    flips: int,
) -> tuple[Floats, float]:
    """Step-down p-values of the observed statistics (m x m), and the single-step critical value.

    A pair in the other order has minus the statistic. So pairs are kept once, the better column first: the largest over
    one of them and all ordered pairs below it is the largest over it and those after it, or minus the smallest of all.
    """
    n, m = centred.shape
    one, other = family
    turned = observed[one, other] < observed[other, one]
    first, second = np.where(turned, other, one), np.where(turned, one, other)
    order = np.argsort(-observed[first, second], kind="stable")
    first, second = first[order], second[order]
    t, square = observed[first, second], squares[first, second][:, None]
    floor, due = SLACK * square, (t * (1 - SLACK) - SLACK)[:, None]
    reached = np.zeros(len(t))
    maxima = np.empty(0)
    for signs in _patterns(n, 2 * len(t), flips, seed):
        sums = (signs @ centred).T
        total = sums[second] - sums[first]
        variance = np.maximum(square - total**2 / n, floor) / (n - 1)
        flipped = np.divide(total, np.sqrt(n * variance), out=np.zeros_like(total), where=variance > 0)
        largest = np.maximum.accumulate(flipped[::-1], axis=0)[::-1]
        largest = np.maximum(largest, -flipped.min(axis=0))
        reached += (largest >= due).sum(axis=1)
        maxima = np.append(maxima, largest[0])
    itself = 2 if n <= EXACT else 1
    adjusted = np.maximum.accumulate((reached + itself) / (len(maxima) + itself))
    p = np.ones((m, m))
    p[first, second] = np.where(t > 0, np.minimum(adjusted, 1.0), 1.0)
    allowed = int(level * (len(maxima) + itself) * (1 + SLACK)) - itself
    critical = float(np.sort(maxima)[::-1][allowed]) if 0 <= allowed < len(maxima) else np.inf
    return p, critical


def _patterns(n: int, columns: int, flips: int, seed: int) -> Iterator[Floats]:
    """Sign patterns in blocks: all but the two that flip nothing for few samples, else random ones."""
    rows = max(1, BLOCK // max(n, columns))
    if n <= EXACT:
        codes = np.arange(1, 2**n - 1)
        every = np.where((codes[:, None] >> np.arange(n)) & 1, -1.0, 1.0)
        yield from np.split(every, range(rows, len(every), rows))
        return
    flips = min(flips, max(FEWEST, WORK // columns))
    for block, start in enumerate(range(0, flips, rows)):
        yield random_signs(n, block, min(rows, flips - start), seed)
