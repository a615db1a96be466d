"""Packing sequences into batches of a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slalom_bench.core.types import Ints

VERSION = "batches 2"
"""Part of a torch model's identity; changes when the same set of sequences would go into other batches."""
ENOUGH = 0.25
"""The share of its tokens from which a batch ends rather than be padded."""


def pack(lengths: Sequence[int] | Ints, token_budget: int, *, pads: bool = True) -> Iterator[slice]:
    """Cut sequences sorted by falling length into batches of at most `token_budget` tokens, padding included.

    A single sequence longer than the budget is a batch of its own. Where batches are padded, one that holds `ENOUGH`
    takes equal lengths only: unpadded ones need no mask, which costs attention more than a smaller batch does.
    """
    lengths = np.asarray(lengths, np.int64)
    falling, before = -lengths, np.concatenate(([0], lengths.cumsum()))
    start = 0
    while start < len(lengths):
        if pads:
            full = start + token_budget // max(1, int(lengths[start]))
            shorter = falling.searchsorted(falling[start], side="right")
            enough = before.searchsorted(before[start] + ENOUGH * token_budget)
            stop = min(full, max(shorter, enough), len(lengths))
        else:
            stop = before.searchsorted(before[start] + token_budget, side="right") - 1
        stop = max(int(stop), start + 1)
        yield slice(start, stop)
        start = stop
