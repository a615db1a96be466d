"""Packing sequences into batches, and how many tokens a batch may hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slalom_bench.core.types import Ints
from slalom_bench.errors import InvalidInput

VERSION = "batches 2"
"""Part of a torch model's identity; changes when the same set of sequences would go into other batches."""
ENOUGH = 0.25
"""The share of its tokens from which a batch ends rather than be padded."""


class TokenBudget:
    """How many tokens a batch may hold, padding included; all views of a handle share one.

    >>> budget = TokenBudget(1000)
    >>> budget.halve([50, 50, 40])
    >>> budget.tokens
    75
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    @property
    def tokens(self) -> int:
        """Tokens of a batch; set anew, it holds from the next call on."""
        return self._tokens

    @tokens.setter
    def tokens(self, tokens: int) -> None:
        """Refuses less than one."""
        if tokens < 1:
            raise InvalidInput(f"the token budget must be positive, not {tokens}")
        self._tokens = tokens

    def halve(self, lengths: Sequence[int] | Ints) -> None:
        """After a batch of sequences of these falling lengths did not fit: half of what it held, for good."""
        self.tokens = max(1, min(self.tokens, int(lengths[0]) * len(lengths)) // 2)


def pack(lengths: Sequence[int] | Ints, token_budget: int, *, pads: bool = True) -> Iterator[slice]:
    """Cut sequences sorted by falling length into batches of at most `token_budget` tokens, padding included.

    A single sequence longer than the budget is a batch of its own. Where batches are padded, one that holds `ENOUGH`
    takes equal lengths only: unpadded ones need no mask, which costs attention more than a smaller batch does.

    >>> list(pack([5, 5, 3], 10))
    [slice(0, 2, None), slice(2, 3, None)]
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
