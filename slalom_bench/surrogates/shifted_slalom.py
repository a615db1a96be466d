"""SLALOM with position shifts: a token's contribution also depends on how far deletions before it moved it forward.

Under the removal rule `delete` every token behind a removed one is read at an earlier position. In a model with
position embeddings that moves the output as much as the missing token itself, and differently for each number of
removals, so no function of the kept set's own weights predicts it. Here token j moved by m positions gains b_j(m), and
the anchor (the read-out, the last token or [SEP]) gains b_0(k) with k removals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import surrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

BLOCK = 1024
"""Rows that are worked on together: memory does not grow with their number."""


def with_anchor(removed: Bools) -> tuple[Bools, Ints]:
    """For each token, and last the anchor (m x n+1), whether it is removed and how many are removed before it.

    The anchor is never removed. The number removed before a token is its shift under the removal rule `delete`.
    """
    extended = np.hstack([removed, np.zeros((len(removed), 1), np.bool_)])
    before = np.zeros(extended.shape, np.int64)
    np.cumsum(removed, axis=1, out=before[:, 1:])
    return extended, before


def position_shifts(removed: Bools, largest: int) -> Ints:
    """By how many positions each token, and last the anchor, moves forward (m x n+1), cut at `largest`.

    >>> position_shifts(np.array([[False, True, False]]), 9).tolist()
    [[0, 0, 1, 1]]
    """
    return np.minimum(with_anchor(removed)[1], largest)


@surrogate("slalom-shift", version=1)
class ShiftedSlalom(SlalomSurrogate):
    """Anchored SLALOM plus a table of position shifts; made for the removal rule `delete`.

    F(S) = SLALOM(S) + offset - sum over removed i of correction_i + sum over kept j and the anchor of table[j, m_j],
    with m_j the number of tokens removed before j.

    Args:
        value: v of each position (n).
        importance: s of each position (n).
        anchor: (v_0, s_0) of the always-present token.
        correction: what removing each position takes away beside what SLALOM and the shifts say (n).
        table: what each token, and last the anchor, gains when it moves forward by 0, 1, ... positions; the last
            column serves all larger shifts (n+1 x largest+1).
        offset: added to every prediction.

    Reference:
        This package's own; see `slalom_bench.explainers.slalom_anchor`. Undefined nowhere: the anchor is always there.
    """

    kind = "slalom-shift"

    def __init__(
        self,
        value: ArrayLike,
        importance: ArrayLike,
        anchor: tuple[float, float],
        correction: ArrayLike,
        table: ArrayLike,
        offset: float,
    ) -> None:
        super().__init__(value, importance, anchor)
        self.correction = np.array(correction, np.float64)
        self.table = np.array(table, np.float64)
        self.offset = float(offset)
        n = len(self)
        if self.correction.shape != (n,) or self.table.ndim != 2 or len(self.table) != n + 1:
            raise InvalidInput(f"{n} values need {n} corrections and a table of {n + 1} rows, not {self.table.shape}")
        if not (np.isfinite(self.correction).all() and np.isfinite(self.table).all() and np.isfinite(self.offset)):
            raise InvalidInput("correction, table and offset must be finite")

    def predict(self, keep: np.ndarray) -> Floats:
        """Log-odds (m) of keep-masks (m x n)."""
        out = super().predict(keep) + self.offset
        for start in range(0, len(out), BLOCK):
            rows = slice(start, start + BLOCK)
            removed = ~np.asarray(keep[rows], np.bool_)
            gains = self.table[np.arange(len(self) + 1), position_shifts(removed, self.table.shape[1] - 1)]
            gains[:, :-1][removed] = 0.0
            out[rows] += gains.sum(axis=1) - removed @ self.correction
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        more = {"correction": self.correction.tolist(), "table": self.table.tolist(), "offset": self.offset}
        return {**super().to_dict(), **more}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ShiftedSlalom:
        """The inverse of `to_dict`."""
        anchor = (data["anchor"][0], data["anchor"][1])
        return cls(data["value"], data["importance"], anchor, data["correction"], data["table"], data["offset"])
