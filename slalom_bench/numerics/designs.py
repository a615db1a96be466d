"""The design matrix of a SLALOM fit: the token counts of its sequences, stored so that normal equations cost little.

A sequence is either short (SLALOM-eff) or the whole sample but for a few deletions (SLALOM-fidel). Both are a constant
row plus a few entries, so that products with the matrix of token counts (m x U) take a few operations per sequence, and
its Gram matrices a few more, not U^2. Where sequences are long and unlike each other, dense algebra takes over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput

DENSE_PAIRS = 4_000_000
"""More pairs of entries of one sequence than this, over all sequences, and dense algebra is cheaper."""


class Design:
    """Token counts: `base` (U) in every sequence, plus `count` of token `column` in sequence `row`, entry by entry.

    Entries of one sequence stand together; several may name the same token.

    Args:
        row: the sequence of each entry, rising (e).
        column: its token, 0 to U - 1 (e).
        count: what it adds to the token's count, below 0 for a deletion (e).
        base: the counts that all sequences have in common (U).
        length: the number m of sequences.

    >>> Design.of_deletions(np.array([[True, False, True]]), np.array([0, 1, 0]), 2).dense()
    array([[2., 0.]])
    """

    def __init__(self, row: Ints, column: Ints, count: Floats, base: Floats, length: int) -> None:
        self.row, self.column, self.count = row, column, count
        self.base = base if base.any() else None
        self.length, self.tokens = length, len(base)
        degree = np.bincount(row, minlength=length)
        each = degree[row]
        self._dense: Floats | None = None
        if int(each.sum()) > DENSE_PAIRS:
            self._dense = self.dense()
            return
        left = np.repeat(np.arange(len(row)), each)
        within = np.arange(len(left)) - np.repeat(np.cumsum(each) - each, each)
        right = (np.cumsum(degree) - degree)[row[left]] + within
        self._pair_row = row[left]
        self._pair_index = column[left] * self.tokens + column[right]
        self._pair_count = count[left] * count[right]

    @classmethod
    def of_counts(cls, counts: ArrayLike) -> Design:
        """From the matrix itself (m x U)."""
        counts = np.asarray(counts, np.float64)
        if counts.ndim != 2 or not counts.size:
            raise InvalidInput(f"token counts of shape {counts.shape}; expected (m, U) with m and U at least 1")
        if not np.isfinite(counts).all():
            raise InvalidInput("token counts must be finite numbers")
        most = counts.max(axis=0)
        base = most if np.count_nonzero(counts != most) < np.count_nonzero(counts) else np.zeros_like(most)
        entries = counts - base
        row, column = np.nonzero(entries)
        return cls(row, column, entries[row, column], base, len(counts))

    @classmethod
    def of_sequences(cls, drawn: Ints, tokens: int) -> Design:
        """From equally long sequences of tokens 0 to `tokens` - 1 (m x length)."""
        m, length = drawn.shape
        return cls(np.repeat(np.arange(m), length), drawn.ravel(), np.ones(drawn.size), np.zeros(tokens), m)

    @classmethod
    def of_deletions(cls, keep: Bools, of: Ints, tokens: int) -> Design:
        """From keep-masks (m x n) over positions whose tokens are `of` (n)."""
        row, position = np.nonzero(~keep)
        base = np.bincount(of, minlength=tokens).astype(np.float64)
        return cls(row, of[position], np.full(len(row), -1.0), base, len(keep))

    def anchored(self) -> Design:
        """The same with one more token, the last, that every sequence holds once."""
        base = np.zeros(self.tokens) if self.base is None else self.base
        return Design(self.row, self.column, self.count, np.append(base, 1.0), self.length)

    def dense(self) -> Floats:
        """The matrix itself (m x U)."""
        entries = _sums(self.row * self.tokens + self.column, self.count, self.length * self.tokens)
        counts = entries.reshape(self.length, self.tokens)
        return counts if self.base is None else counts + self.base

    def times(self, x: Floats) -> Floats:
        """counts @ x."""
        out = _sums(self.row, self.count * x[self.column], self.length)
        return out if self.base is None else out + self.base @ x

    def adjoint(self, x: Floats) -> Floats:
        """counts' @ x."""
        out = _sums(self.column, self.count * x[self.row], self.tokens)
        return out if self.base is None else out + self.base * x.sum()

    def gram(self, weights: Floats) -> Floats:
        """counts' diag(weights) counts (U x U)."""
        if self._dense is not None:
            return self._dense.T @ (weights[:, None] * self._dense)
        u = self.tokens
        out = _sums(self._pair_index, self._pair_count * weights[self._pair_row], u * u).reshape(u, u)
        if self.base is not None:
            cross = np.multiply.outer(_sums(self.column, self.count * weights[self.row], u), self.base)
            out += cross
            out += cross.T
            out += np.multiply.outer(self.base * weights.sum(), self.base)
        return out

    def total_share_variance(self, weights: Floats) -> float:
        """The variance over sequences of a token's share of them, summed over tokens: var(F) / var(v) at s = 0."""
        lengths = np.maximum(self.times(np.ones(self.tokens)), 1.0)
        squares = float(self.gram(weights / lengths**2).trace())
        return squares - float((self.adjoint(weights / lengths) ** 2).sum())


def _sums(index: Ints, values: Floats, size: int) -> Floats:
    """The sum of the values at each index below `size` (of no values at all, numpy makes integers)."""
    return np.bincount(index, values, size).astype(np.float64, copy=False)
