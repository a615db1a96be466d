"""Keep-masks to id sequences under a removal rule, vectorised; and the random deletions that all draw from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.types import Bools, Ints

REMOVALS = ("delete", "mask", "pad")
HIDDEN = -1
"""The id of a position that is kept but not attended to; the handle turns it into padding with attention 0."""


def apply_masks(ids: Ints, keep: Bools, removal: str = "delete", mask_id: int | None = None) -> list[Ints]:
    """The content sequences that keep-masks (m x n) leave of `ids`: shorter ones for `delete`, equally long else."""
    ids = np.asarray(ids, np.int64)
    keep = np.asarray(keep, np.bool_)
    if keep.ndim != 2 or keep.shape[1] != len(ids):
        raise InvalidInput(f"keep-masks of shape {keep.shape}; expected (m, {len(ids)})")
    if removal == "delete":
        kept = np.broadcast_to(ids, keep.shape)[keep]
        return np.split(kept, np.cumsum(keep.sum(axis=1))[:-1]) if len(keep) else []
    if removal == "mask":
        if mask_id is None:
            raise Unsupported("removal rule 'mask': this tokenizer has no mask token; use delete or pad")
        return list(np.where(keep, ids, mask_id))
    if removal == "pad":
        return list(np.where(keep, ids, HIDDEN))
    raise InvalidInput(f"unknown removal rule {removal!r}; one of {', '.join(REMOVALS)}")


def delete_counts(n: int, counts: NDArray[np.integer], rng: np.random.Generator) -> Bools:
    """Keep-masks with counts[i] of n positions removed, uniformly at random without replacement."""
    counts = np.asarray(counts)
    if len(counts) and (counts.min() < 0 or counts.max() > n):
        raise InvalidInput(f"cannot delete {counts.min()}..{counts.max()} of {n} positions")
    ranks = rng.random((len(counts), n)).argsort(axis=1).argsort(axis=1)
    return ranks >= counts[:, None]


def small_deletions(n: int, count: int, rng: np.random.Generator, largest: int = 5) -> Bools:
    """Keep-masks with k ~ Uniform{0..largest} positions removed (SLALOM-fidel's samples, Algorithm 2).

    At least one position is kept. Explainers that draw from here with one seed fit the same masks.
    """
    counts = rng.integers(0, min(largest, n - 1) + 1, size=count)
    return delete_counts(n, counts, rng)
