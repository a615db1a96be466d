"""Orders of tokens: how many of the first ones to look at, and the orders with the largest and the least total gain."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput

CANDIDATES = 16
"""Positions of each source that a search of extreme orders goes over."""
PROBES = 256
"""Random sets that it asks for."""
ROUNDS = 3
"""How often, at the most, it looks at what comes beside the best so far."""


class BestOrder(NamedTuple):
    """The best order that a search has found."""

    order: Ints
    """Positions, the first one first (steps)."""
    total: float
    """The sum of the gains of its first 1, 2, ..., steps positions."""


def beam_search(
    gain: Callable[[Bools], Floats],
    n: int,
    steps: int,
    width: int = 3,
    candidates: int | None = None,
    among: Ints | None = None,
) -> BestOrder:
    """Search the order of positions whose first 1, 2, ..., `steps` together gain most.

    maximises the sum over k = 1..steps of gain({o_1, ..., o_k}) over orders o. After each step the `width` sets of
    positions with the highest sum so far are kept, two ways to one set counting once (by the better of them), so that
    a width of at least the largest binomial coefficient (n over k) finds the exact maximum; width 1 is greedy. Ties go
    to the earlier position.

    Args:
        gain: of sets of positions, as masks (m x n, True inside), all of one size: m numbers. Asked once a step, for
            at most `width` x n distinct sets.
        n: how many positions there are.
        steps: the length of the order, 1 to n.
        width: how many sets are kept.
        candidates: from the second step on use only so many positions (no fewer than `steps`), those that gain most by
            themselves; None for all.
        among: the positions to choose from, at least `steps`, in ascending order; None for all.

    Returns:
        The best order, and its sum of gains.

    >>> best = beam_search(lambda chosen: chosen @ np.array([1.0, 5.0, 3.0]), 3, 2)
    >>> best.order.tolist(), best.total
    ([1, 2], 13.0)
    """
    if not 1 <= steps <= n or width < 1 or (candidates is not None and candidates < 1):
        raise InvalidInput(f"beam search of {n} positions: steps={steps}, width={width}, candidates={candidates}")
    chosen, totals, orders = np.zeros((1, n), np.bool_), np.zeros(1), np.empty((1, 0), np.int64)
    usable = np.arange(n) if among is None else among
    for step in range(steps):
        parents, added, grown = _grow(chosen, usable)
        gains = gain(grown)
        sums = totals[parents] + gains
        best = np.argsort(-sums, kind="stable")[:width]
        orders = np.hstack([orders[parents[best]], added[best, None]])
        chosen, totals = grown[best], sums[best]
        if step == 0 and candidates is not None:
            usable = np.sort(added[np.argsort(-gains, kind="stable")[: max(candidates, steps)]])
    return BestOrder(orders[0], float(totals[0]))


class Extremes(NamedTuple):
    """The orders of least and of largest total gain that a search has found, totals as they are."""

    lowest: BestOrder
    highest: BestOrder


def extreme_orders(gain: Callable[[Bools], Floats], n: int, steps: int, size: int, width: int = 8) -> Extremes:
    """Search the orders of positions whose first 1, 2, ..., `steps` together gain least, and most.

    A beam that starts from single positions misses what matters only together with others. So positions come from
    three sources: what they gain alone, least squares on random sets of `size` positions (always the same ones), and
    what they gain beside the first half of the best order so far, which a narrow beam over those two has found, then
    a wide one over the best of the third, again while it finds better ones. For up to 16 positions all are
    candidates, and a width of the largest binomial coefficient is exact.

    Args:
        gain: as in `beam_search`.
        n: how many positions there are.
        steps: the length of the orders, 1 to n.
        size: of the random sets.
        width: of the last beam.

    Returns:
        The two orders; of 256 positions 3,000 to 6,000 sets are asked for, those of a step at once.
    """
    alone = gain(np.eye(n, dtype=np.bool_))
    rng = np.random.default_rng([n, size])
    drawn = rng.random((PROBES, n)).argsort(axis=1).argsort(axis=1) < size
    slopes = _slopes(drawn, gain(drawn))

    def found(sign: float) -> BestOrder:
        """The best order, gains counted with this sign."""
        best = _three_sources(lambda chosen: sign * gain(chosen), sign * alone, sign * slopes, steps, width)
        return BestOrder(best.order, sign * best.total)

    return Extremes(found(-1.0), found(1.0))


def _three_sources(gain: Callable[[Bools], Floats], alone: Floats, slopes: Floats, steps: int, width: int) -> BestOrder:
    """The order of largest total gain, from what positions gain alone, on average, and beside others."""
    n = len(alone)
    few = np.union1d(_first(alone, max(CANDIDATES, steps)), _first(slopes, CANDIDATES))
    best = beam_search(gain, n, steps, 2, among=few)
    for _ in range(ROUNDS):
        half = np.isin(np.arange(n), best.order[: (steps + 1) // 2])
        _, added, grown = _grow(half[None], np.arange(n))
        beside = np.full(n, -np.inf)
        if len(grown):
            beside[added] = gain(grown)
        beside[best.order] = np.inf
        wide = beam_search(gain, n, steps, width, among=np.sort(_first(beside, max(CANDIDATES, steps + 6))))
        if wide.total <= best.total:
            break
        best = wide
    return best


def _slopes(drawn: Bools, gains: Floats) -> Floats:
    """Ridge regression of gains on which positions are in a set: a slope for each position."""
    centred = drawn - drawn.mean(axis=0)
    slopes: Floats = centred.T @ np.linalg.solve(centred @ centred.T + np.eye(len(drawn)), gains - gains.mean())
    return slopes


def _first(values: Floats, count: int) -> Ints:
    """The positions of the highest values; ties to the earlier ones."""
    return np.argsort(-values, kind="stable")[:count]


def _grow(chosen: Bools, usable: Ints) -> tuple[Ints, Ints, Bools]:
    """Every distinct set of one usable position more: the first set it comes from, the position, and the set."""
    parents, column = np.nonzero(~chosen[:, usable])
    added = usable[column]
    grown = chosen[parents]
    grown[np.arange(len(grown)), added] = True
    first = np.sort(np.unique(np.packbits(grown, axis=1), axis=0, return_index=True)[1])
    return parents[first], added[first], grown[first]


def count_grid(largest: int, points: int) -> Ints:
    """Counts from 1 to `largest`: all of them, or where there are more, `points` distinct ones even on a log scale.

    Where rounding would repeat a count the next one is taken, so that small counts are all there.

    >>> count_grid(5, 8).tolist()
    [1, 2, 3, 4, 5]
    >>> count_grid(100, 8).tolist()
    [1, 2, 4, 7, 14, 27, 52, 100]
    """
    if points < 2:
        raise InvalidInput(f"a grid of counts needs at least 2 points, not {points}")
    if largest <= points:
        return np.arange(1, largest + 1)
    even, steps = np.round(np.geomspace(1, largest, points)).astype(np.int64), np.arange(points)
    return np.maximum.accumulate(even - steps) + steps
