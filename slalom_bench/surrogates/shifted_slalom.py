"""SLALOM with position shifts: a token's contribution also depends on where it is read.

Under the removal rule `delete` every token behind a removed one is read at an earlier position. In a model with
position embeddings that moves the output as much as the missing token itself. To first order token j, read at position
q and no longer at j, changes the output by g_j . (P_q - P_j), with g_j the gradient at the token and P the position
embeddings. Gradients of one text lie in few directions, so that a few numbers a token (its carriers u_j) and as many a
position (its places p_q) say it all: u_j . (p_q - p_j).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slalom_bench.core.surrogate import checked_masks
from slalom_bench.core.types import Bools, Floats
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import surrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

BLOCK = 1024
"""Rows that are worked on together: memory does not grow with their number."""


def removed_shares(removed: Bools) -> Floats:
    """The share of the positions that each row removes (m)."""
    return removed.sum(axis=1) / removed.shape[1]


def shift_features(removed: Bools, carriers: Floats) -> Floats:
    """What each place carries, less what it carries in the full text (m x r (n+1)), the r carriers one after the other.

    Place q carries the u_j of the token that is read there; the anchor comes behind the last token. A token that moves
    from j to q counts at q and is taken away at j; one that is removed counts nowhere.

    >>> shift_features(np.array([[True, False]]), np.array([[5.0], [7.0], [1.0]])).tolist()
    [[7.0, -6.0, -1.0]]
    """
    m, n = removed.shape
    kept = np.hstack([~removed, np.ones((m, 1), np.bool_)])
    row, source = np.nonzero(kept)
    place = (kept.cumsum(axis=1) - 1)[row, source]
    out = np.zeros((m, carriers.shape[1], n + 1))
    for r, carrier in enumerate(carriers.T):
        out[row, r, place] = carrier[source]
        out[:, r] -= kept * carrier
    return out.reshape(m, -1)


@surrogate("slalom-shift", version=2)
class ShiftedSlalom(SlalomSurrogate):
    """Anchored SLALOM plus deletion effects and position shifts.

    F(S) = SLALOM(S) + offset + (-sum over removed i of effect_i + sum over kept j and the anchor of u_j . (p_q - p_j))
    / (1 - c |R| / n), with q the position that j is read at after the removals R. Where nothing moves there are no
    carriers. About ten numbers a token.

    Args:
        value: v of each position (n).
        importance: s of each position (n).
        anchor: (v_0, s_0) of the always-present token.
        effects: what removing each position takes away beside what SLALOM and the shifts say (n).
        carriers: u of each token, and last the anchor (n+1 x r).
        places: p of each position, and last the anchor's (n+1 x r).
        curvature: c, how much more the rest counts the less is left; below 1.
        offset: added to every prediction.
        spread: (variance, power): a prediction at k removals is off by a variance of variance * k^power.

    Reference:
        This package's own; see `slalom_bench.explainers.slalom_anchor`. Undefined nowhere: the anchor is always there.
    """

    kind = "slalom-shift"

    def __init__(
        self,
        value: ArrayLike,
        importance: ArrayLike,
        anchor: tuple[float, float],
        effects: ArrayLike,
        carriers: ArrayLike,
        places: ArrayLike,
        curvature: float = 0.0,
        offset: float = 0.0,
        spread: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__(value, importance, anchor)
        n = len(self)
        self.effects = np.array(effects, np.float64)
        self.carriers = np.array(carriers, np.float64).reshape(n + 1, -1)
        self.places = np.array(places, np.float64).reshape(n + 1, -1)
        self.curvature, self.offset = float(curvature), float(offset)
        self.spread = (float(spread[0]), float(spread[1]))
        if self.effects.shape != (n,) or self.carriers.shape != self.places.shape:
            raise InvalidInput(f"{n} values need {n} effects and as many carriers as places, {n + 1} of each")
        numbers = [self.effects.sum(), self.carriers.sum(), self.places.sum(), self.curvature, self.offset, *spread]
        if not np.isfinite(numbers).all() or not 0 <= self.curvature < 1:
            raise InvalidInput("effects, carriers, places, offset and spread must be finite, the curvature in [0, 1)")

    def predict(self, keep: np.ndarray) -> Floats:
        """Log-odds (m) of keep-masks (m x n)."""
        removed = ~checked_masks(keep, len(self))
        effects = (removed @ self.effects) / (1 - self.curvature * removed_shares(removed))
        return super().predict(keep) + self.offset - effects + self.shifts(keep)

    def shifts(self, keep: np.ndarray) -> Floats:
        """What of the predictions (m) is due to tokens being read elsewhere."""
        out = np.zeros(len(keep))
        for start in range(0, len(out) if self.carriers.size else 0, BLOCK):
            removed = ~np.asarray(keep[start : start + BLOCK], np.bool_)
            change = shift_features(removed, self.carriers) @ self.places.T.ravel()
            out[start : start + BLOCK] = change / (1 - self.curvature * removed_shares(removed))
        return out

    def predict_std(self, keep: np.ndarray) -> Floats:
        """By how much the predicted change of log-odds may be off (m): one standard deviation; 0 for the full text."""
        count = (~checked_masks(keep, len(self))).sum(axis=1).astype(np.float64)
        variance, power = self.spread
        return np.where(count > 0, np.sqrt(variance * np.maximum(count, 1.0) ** power), 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            **super().to_dict(),
            "effects": self.effects.tolist(),
            "carriers": self.carriers.tolist(),
            "places": self.places.tolist(),
            "curvature": self.curvature,
            "offset": self.offset,
            "spread": list(self.spread),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ShiftedSlalom:
        """The inverse of `to_dict`."""
        names = ("value", "importance", "anchor", "effects", "carriers", "places", "curvature", "offset", "spread")
        return cls(*(data[name] for name in names))
