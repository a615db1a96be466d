"""Random keep-masks: which positions a sampled deletion leaves. Explainers and metrics all draw from here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput


def delete_counts(n: int, counts: NDArray[np.integer], rng: np.random.Generator) -> Bools:
    """Keep-masks with counts[i] of n positions removed, uniformly at random without replacement.

    Args:
        n: how many positions there are.
        counts: how many of them each mask removes, 0 to n (m).
        rng: the generator.

    Returns:
        Masks (m x n), True where a position is kept.

    >>> delete_counts(5, np.array([0, 2, 5]), np.random.default_rng(0)).sum(axis=1).tolist()
    [5, 3, 0]
    """
    counts = np.asarray(counts)
    if len(counts) and (counts.min() < 0 or counts.max() > n):
        raise InvalidInput(f"cannot delete {counts.min()}..{counts.max()} of {n} positions")
    draws = rng.random((len(counts), n))
    ordered = np.hstack([np.sort(draws, axis=1), np.full((len(counts), 1), np.inf)])
    return draws >= ordered[np.arange(len(counts)), counts][:, None]


def balanced_subsets(n: int, count: int, size: int, rng: np.random.Generator) -> Ints:
    """Balanced sampling without replacement: `count` subsets of `size` distinct items out of n.

    Random permutations of the n items are cut into subsets. Each subset by itself is a uniform draw; together they hold
    every item about equally often, which independent draws do not.

    Args:
        n: how many items there are.
        count: how many subsets to draw.
        size: how many items each holds, 1 to n.
        rng: the generator.

    Returns:
        Item numbers 0 to n - 1 (count x size).

    >>> drawn = balanced_subsets(6, 4, 3, np.random.default_rng(0))
    >>> np.bincount(drawn.ravel()).tolist()
    [2, 2, 2, 2, 2, 2]
    """
    per_permutation = n // size
    permutations = rng.permuted(np.tile(np.arange(n), (-(-count // per_permutation), 1)), axis=1)
    return permutations[:, : per_permutation * size].reshape(-1, size)[:count]


def distinct_subsets(n: int, count: int, size: int, rng: np.random.Generator) -> Ints:
    """`count` subsets of `size` distinct items out of n, no two the same; all there are where there are no more.

    Balanced as those of `balanced_subsets`, but where so many are asked for that most there are must be taken.

    >>> len(distinct_subsets(5, 100, 2, np.random.default_rng(0)))
    10
    """
    if comb(n, size) <= 4 * count:
        every = np.array(list(combinations(range(n), size)), np.int64)
        return every[rng.permutation(len(every))[:count]]
    drawn = np.empty((0, size), np.int64)
    while len(drawn) < count:
        more = np.sort(balanced_subsets(n, count - len(drawn), size, rng), axis=1)
        drawn = np.vstack([drawn, more])
        drawn = drawn[np.sort(np.unique(drawn, axis=0, return_index=True)[1])]
    return drawn


def quotas(capacities: Sequence[int], count: int, rng: np.random.Generator) -> Ints:
    """How many to take of each kind so that they are `count`: equally many or one more, but none beyond its capacity.

    >>> quotas([1, 9, 9], 7, np.random.default_rng(0)).tolist()
    [1, 3, 3]
    """
    room = np.array([min(capacity, count) for capacity in capacities], np.int64)
    taken = np.zeros_like(room)
    while (left := min(count, int(room.sum())) - int(taken.sum())) > 0:
        usable = rng.permutation(np.flatnonzero(taken < room))[:left]
        taken[usable] += np.minimum(room[usable] - taken[usable], max(1, left // len(usable)))
    return taken


def distinct_deletions(n: int, sizes: Ints, count: int, rng: np.random.Generator) -> Bools:
    """Keep-masks, no two the same, each of the `sizes` equally often; fewer where so many are not to be had.

    Args:
        n: how many positions there are.
        sizes: how many of them a mask removes, 1 to n, each size once.
        count: how many masks to draw.
        rng: the generator.

    Returns:
        Masks (at most count x n) by rising size, True where a position is kept; positions balanced within a size.

    >>> (~distinct_deletions(4, np.array([1, 2]), 6, np.random.default_rng(0))).sum(axis=1).tolist()
    [1, 1, 1, 2, 2, 2]
    """
    taken = quotas([comb(n, int(size)) for size in sizes], count, rng)
    keep = np.ones((int(taken.sum()), n), np.bool_)
    ends = np.cumsum(taken)
    for size, many, end in zip(sizes, taken, ends, strict=True):
        if many:
            removed = distinct_subsets(n, int(many), int(size), rng)
            np.put_along_axis(keep[end - many : end], removed, False, axis=1)
    return keep


def balanced_deletions(n: int, counts: Ints, rng: np.random.Generator) -> Bools:
    """Keep-masks with counts[i] of n positions removed, balanced among the masks of one count (`balanced_subsets`).

    Args:
        n: how many positions there are.
        counts: how many of them each mask removes, 1 to n (m).
        rng: the generator.

    Returns:
        Masks (m x n), True where a position is kept.

    >>> balanced_deletions(4, np.array([2, 1, 2]), np.random.default_rng(0)).sum(axis=1).tolist()
    [2, 3, 2]
    """
    keep = np.ones((len(counts), n), np.bool_)
    for k in np.unique(counts):
        rows = np.flatnonzero(counts == k)
        keep[rows[:, None], balanced_subsets(n, len(rows), int(k), rng)] = False
    return keep


def small_deletions(n: int, count: int, rng: np.random.Generator, largest: int = 5) -> tuple[Bools, Floats]:
    """Keep-masks for k ~ Uniform{0..largest} deleted positions (SLALOM-fidel's samples, Algorithm 2), and weights.

    The distribution is Algorithm 2's with less variance: k is stratified (each value has its share of the `count`
    masks), positions are drawn balanced (`balanced_subsets`), and the full input, which a sixth of independent draws
    would repeat, comes first and once, weighted for the rest. At least one position is kept. Explainers that draw from
    here with one seed fit the same masks.

    Args:
        n: how many positions there are.
        count: how many masks to draw.
        rng: the generator.
        largest: the most positions that are deleted at once.

    Returns:
        Masks (count x n; one where nothing can be deleted), and weights that sum to `count`.

    >>> keep, weights = small_deletions(8, 11, np.random.default_rng(0))
    >>> sorted((8 - keep.sum(axis=1)).tolist())
    [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    """
    largest = min(largest, n - 1)
    if largest < 1 or count < 2:
        return np.ones((1, n), np.bool_), np.full(1, float(count))
    strata = np.diff(np.round(np.linspace(0, count - 1, largest + 1))).astype(np.int64)
    keep = np.ones((count, n), np.bool_)
    stop = 1
    for k, masks in enumerate(strata, start=1):
        start, stop = stop, stop + int(masks)
        np.put_along_axis(keep[start:stop], balanced_subsets(n, int(masks), k, rng), False, axis=1)
    keep[1:] = keep[1:][rng.permutation(count - 1)]
    weights = np.full(count, count * largest / (largest + 1) / (count - 1))
    weights[0] = count / (largest + 1)
    return keep, weights
