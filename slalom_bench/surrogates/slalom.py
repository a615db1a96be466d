"""The SLALOM surrogate: values averaged with softmax weights over the kept positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_bench.core.surrogate import checked_masks, checked_vector
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import surrogate

_IN_RANGE = 600.0
"""Importances less far apart than this have weights that double precision holds together."""


@surrogate("slalom", version=1)
class SlalomSurrogate:
    """A softmax-weighted mean of the kept positions' values, optionally with an always-kept anchor.

    F(S) = sum_S w_i v_i / sum_S w_i with w = exp(importance); an anchor (v_0, s_0) is in every S. Without one F is
    undefined (0/0) where nothing is kept: such a mask is refused.

    Args:
        value: v of each position, the log-odds it has alone (n).
        importance: s of each position, up to a constant (n).
        anchor: (v_0, s_0), on the scale of `importance`; None for the published SLALOM.

    Reference:
        Leemann et al. 2025, Attention Mechanisms Don't Learn Additive Models, TMLR, equation 4.

    >>> SlalomSurrogate([2.0, 0.0], [0.0, 0.0]).predict([[True, True], [True, False]])
    array([1., 2.])
    """

    kind = "slalom"

    def __init__(self, value: ArrayLike, importance: ArrayLike, anchor: tuple[float, float] | None = None) -> None:
        self.value = checked_vector("value", value)
        self.importance = checked_vector("importance", importance)
        if self.value.shape != self.importance.shape:
            raise InvalidInput("value and importance must have one length")
        self.anchor = None if anchor is None else (float(anchor[0]), float(anchor[1]))
        if self.anchor is not None and not np.isfinite(self.anchor).all():
            raise InvalidInput("the anchor must be finite")

    def __len__(self) -> int:
        return len(self.value)

    def predict(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Log-odds (m) of keep-masks (m x n); without an anchor each must keep a position."""
        keep = checked_masks(keep, len(self))
        if self.anchor is None and not keep.any(axis=1).all():
            raise InvalidInput("SLALOM without an anchor is undefined (0/0) where no token is kept")
        value, importance = self.value, self.importance
        if self.anchor is not None:
            value, importance = np.append(value, self.anchor[0]), np.append(importance, self.anchor[1])
            keep = np.hstack([keep, np.ones((len(keep), 1), np.bool_)])
        if np.ptp(importance) < _IN_RANGE:
            weights = np.exp(importance - importance.max())
            numerator, denominator = (keep.astype(np.float64) @ np.stack([weights * value, weights], axis=1)).T
            return numerator / denominator
        # a row's own maximum keeps exp() in range however far apart the importances are
        shifted = np.where(keep, importance, -np.inf)
        weights = np.exp(shifted - shifted.max(axis=1, keepdims=True))
        return (weights @ value) / weights.sum(axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "kind": self.kind,
            "value": self.value.tolist(),
            "importance": self.importance.tolist(),
            "anchor": None if self.anchor is None else list(self.anchor),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SlalomSurrogate:
        """The inverse of `to_dict`."""
        anchor = data.get("anchor")
        return cls(data["value"], data["importance"], None if anchor is None else (anchor[0], anchor[1]))
