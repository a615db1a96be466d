"""Multi-class SLALOM (appendix C.1): one importance and, for every class, a value for each token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slalom_bench.core.types import Floats
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import surrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate


@surrogate("slalom-multiclass", version=1)
class MulticlassSlalom(SlalomSurrogate):
    """A SLALOM for every class with one importance in common; predicts the target's log-odds.

    Centred logits l_c(S) = sum_S w_i v_ic / sum_S w_i with w = exp(importance) and sum_c v_ic = 0, of which the
    log-odds are l_target - logsumexp of the others. The attribute `value` is the target's value against the mean of
    the others, v_c K / (K - 1); of two classes 2 v_1, the binary one. Undefined (refused) where nothing is kept.

    Args:
        values: v of each position for every class, rows summing to 0 (n x K).
        importance: s of each position, up to a constant (n).
        target: the class whose log-odds are predicted.

    Reference:
        Leemann et al. 2025, appendix C.1.

    >>> surrogate = MulticlassSlalom([[-1.0, 1.0], [0.0, 0.0]], [0.0, 0.0], target=1)
    >>> surrogate.predict([[True, False], [True, True]])
    array([2., 1.])
    """

    kind = "slalom-multiclass"

    def __init__(self, values: ArrayLike, importance: ArrayLike, target: int) -> None:
        values = np.array(values, np.float64)
        if values.ndim != 2 or values.shape[1] < 2 or not 0 <= target < values.shape[1]:
            raise InvalidInput(f"values of shape {values.shape} for target {target}; expected (n, classes)")
        if not np.isfinite(values).all() or np.abs(values.sum(axis=1)).max() > 1e-6 * max(1.0, np.abs(values).max()):
            raise InvalidInput("the values of a token must be finite and sum to 0 over the classes")
        classes = values.shape[1]
        super().__init__(values[:, target] * classes / (classes - 1), importance)
        self.values, self.target = values, int(target)

    def logits(self, keep: np.ndarray) -> Floats:
        """Centred logits (m x classes) of keep-masks (m x n)."""
        return np.stack([SlalomSurrogate(v, self.importance).predict(keep) for v in self.values.T], axis=1)

    def predict(self, keep: np.ndarray) -> Floats:
        """Log-odds of the target (m) for keep-masks (m x n), each with a kept position."""
        from scipy.special import logsumexp

        logits = self.logits(keep)
        return logits[:, self.target] - logsumexp(np.delete(logits, self.target, axis=1), axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        importance = self.importance.tolist()
        return {"kind": self.kind, "values": self.values.tolist(), "importance": importance, "target": self.target}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MulticlassSlalom:
        """The inverse of `to_dict`."""
        return cls(data["values"], data["importance"], data["target"])
