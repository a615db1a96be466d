"""The additive surrogate: an intercept and a weight for each kept position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_bench.core.surrogate import checked_masks, checked_vector
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import surrogate


@surrogate("linear", version=1)
class LinearSurrogate:
    """An additive model of the kept positions.

    F(S) = intercept + sum over i in S of weight_i.

    Args:
        weights: of each position (n).
        intercept: the prediction for the empty input.

    Reference:
        What LIME (Ribeiro et al. 2016) and SHAP (Lundberg and Lee 2017, definition 1) fit.

    >>> LinearSurrogate([1.0, -2.0], 0.5).predict([[True, False]])
    array([1.5])
    """

    kind = "linear"

    def __init__(self, weights: ArrayLike, intercept: float) -> None:
        self.weights = checked_vector("weights", weights)
        self.intercept = float(intercept)
        if not np.isfinite(self.intercept):
            raise InvalidInput("the intercept must be finite")

    @classmethod
    def from_full(cls, scores: ArrayLike, full: float) -> LinearSurrogate:
        """For methods without an intercept of their own: F(S) = F(full) - sum of the removed scores.

        >>> LinearSurrogate.from_full([1.0, -2.0], 3.0).predict([[True, True], [False, True]])
        array([3., 2.])
        """
        return cls(scores, full - float(np.sum(scores)))

    def __len__(self) -> int:
        return len(self.weights)

    def predict(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Log-odds (m) of keep-masks (m x n)."""
        return self.intercept + checked_masks(keep, len(self)) @ self.weights

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": self.kind, "weights": self.weights.tolist(), "intercept": self.intercept}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LinearSurrogate:
        """The inverse of `to_dict`."""
        return cls(data["weights"], data["intercept"])
