"""Surrogates: what an explanation predicts the model to say when only some positions are kept."""

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
    """F(S) = intercept + sum of the kept weights."""

    kind = "linear"

    def __init__(self, weights: ArrayLike, intercept: float) -> None:
        self.weights = checked_vector("weights", weights)
        self.intercept = float(intercept)
        if not np.isfinite(self.intercept):
            raise InvalidInput("the intercept must be finite")

    @classmethod
    def from_full(cls, scores: ArrayLike, full: float) -> LinearSurrogate:
        """For methods without an intercept of their own: F(S) = F(full) - sum of the removed scores."""
        return cls(scores, full - float(np.sum(scores)))

    def __len__(self) -> int:
        return len(self.weights)

    def predict(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        return self.intercept + checked_masks(keep, len(self)) @ self.weights

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "weights": self.weights.tolist(), "intercept": self.intercept}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LinearSurrogate:
        return cls(data["weights"], data["intercept"])
