"""Keep-masks to id sequences under a removal rule, vectorised; and the random deletions that all draw from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput


def delete_counts(n: int, counts: NDArray[np.integer], rng: np.random.Generator) -> Bools:
    """Keep-masks with counts[i] of n positions removed, uniformly at random without replacement."""
    counts = np.asarray(counts)
    if len(counts) and (counts.min() < 0 or counts.max() > n):
        raise InvalidInput(f"cannot delete {counts.min()}..{counts.max()} of {n} positions")
    draws = rng.random((len(counts), n))
    ordered = np.hstack([np.sort(draws, axis=1), np.full((len(counts), 1), np.inf)])
    return draws >= ordered[np.arange(len(counts)), counts][:, None]


def dealt(n: int, hands: int, size: int, rng: np.random.Generator) -> Ints:
    """Hands of `size` distinct out of n things (hands x size), dealt from shuffled decks.

    Each hand is a uniform draw; together they hold every thing about equally often, which independent draws do not.
    """
    each = n // size
    decks = rng.permuted(np.tile(np.arange(n), (-(-hands // each), 1)), axis=1)
    return decks[:, : each * size].reshape(-1, size)[:hands]


def small_deletions(n: int, count: int, rng: np.random.Generator, largest: int = 5) -> tuple[Bools, Floats]:
    """Keep-masks for k ~ Uniform{0..largest} deleted positions (SLALOM-fidel's samples, Algorithm 2), and weights.

    The law is Algorithm 2's with less chance in it: each k has its share of the `count` masks, positions are dealt, and
    the full input, which a sixth of independent draws would repeat, comes first and once, weighted for the rest. At
    least one position is kept. Explainers that draw from here with one seed fit the same masks.
    """
    largest = min(largest, n - 1)
    if largest < 1 or count < 2:
        return np.ones((1, n), np.bool_), np.full(1, float(count))
    shares = np.diff(np.round(np.linspace(0, count - 1, largest + 1))).astype(np.int64)
    keep = np.ones((count, n), np.bool_)
    stop = 1
    for k, share in enumerate(shares, start=1):
        start, stop = stop, stop + int(share)
        np.put_along_axis(keep[start:stop], dealt(n, int(share), k, rng), False, axis=1)
    keep[1:] = keep[1:][rng.permutation(count - 1)]
    weights = np.full(count, count * largest / (largest + 1) / (count - 1))
    weights[0] = count / (largest + 1)
    return keep, weights
