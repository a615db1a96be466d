"""Surrogates: what an explanation predicts the model to say when only some positions are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_bench.errors import InvalidInput, UnknownName

IN_RANGE = 600.0
"""Importances less far apart than this have weights that double precision holds together."""


@runtime_checkable
class Surrogate(Protocol):
    """Predicts log-odds from keep-masks (m x n, True = kept). `kind` names the class in stored files."""

    kind: str

    def __len__(self) -> int: ...
    def predict(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]: ...
    def to_dict(self) -> dict[str, Any]: ...


def _vector(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be a non-empty vector of finite numbers")
    array.setflags(write=False)
    return array


def _masks(keep: NDArray[np.bool_], n: int) -> NDArray[np.bool_]:
    keep = np.asarray(keep, dtype=np.bool_)
    if keep.ndim != 2 or keep.shape[1] != n:
        raise InvalidInput(f"keep-masks of shape {keep.shape}; expected (m, {n})")
    return keep


class LinearSurrogate:
    """F(S) = intercept + sum of the kept weights."""

    kind = "linear"

    def __init__(self, weights: ArrayLike, intercept: float) -> None:
        self.weights = _vector("weights", weights)
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
        return self.intercept + _masks(keep, len(self)) @ self.weights

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "weights": self.weights.tolist(), "intercept": self.intercept}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LinearSurrogate:
        return cls(data["weights"], data["intercept"])


class SlalomSurrogate:
    """F(S) = sum_S w_i v_i / sum_S w_i with w = exp(importance), and optionally an always-kept anchor (v_0, s_0)."""

    kind = "slalom"

    def __init__(self, value: ArrayLike, importance: ArrayLike, anchor: tuple[float, float] | None = None) -> None:
        self.value = _vector("value", value)
        self.importance = _vector("importance", importance)
        if self.value.shape != self.importance.shape:
            raise InvalidInput("value and importance must have one length")
        self.anchor = None if anchor is None else (float(anchor[0]), float(anchor[1]))
        if self.anchor is not None and not np.isfinite(self.anchor).all():
            raise InvalidInput("the anchor must be finite")

    def __len__(self) -> int:
        return len(self.value)

    def predict(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        keep = _masks(keep, len(self))
        if self.anchor is None and not keep.any(axis=1).all():
            raise InvalidInput("SLALOM without an anchor is undefined (0/0) where no token is kept")
        value, importance = self.value, self.importance
        if self.anchor is not None:
            value, importance = np.append(value, self.anchor[0]), np.append(importance, self.anchor[1])
            keep = np.hstack([keep, np.ones((len(keep), 1), np.bool_)])
        if np.ptp(importance) < IN_RANGE:
            weights = np.exp(importance - importance.max())
            above, below = (keep.astype(np.float64) @ np.stack([weights * value, weights], axis=1)).T
            return above / below
        # a row's own maximum keeps exp() in range however far apart the importances are
        shifted = np.where(keep, importance, -np.inf)
        weights = np.exp(shifted - shifted.max(axis=1, keepdims=True))
        return (weights @ value) / weights.sum(axis=1)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "value": self.value.tolist(),
            "importance": self.importance.tolist(),
            "anchor": None if self.anchor is None else list(self.anchor),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SlalomSurrogate:
        anchor = data.get("anchor")
        return cls(data["value"], data["importance"], None if anchor is None else (anchor[0], anchor[1]))


def surrogate_from_dict(data: Mapping[str, Any]) -> Surrogate:
    """The inverse of `to_dict`, for the built-in kinds and those that other packages register."""
    from slalom_bench import registry
    from slalom_bench.numerics.multiclass import MulticlassSlalom
    from slalom_bench.numerics.shifts import ShiftedSlalom

    kinds = (LinearSurrogate, SlalomSurrogate, ShiftedSlalom, MulticlassSlalom)
    built_in: dict[str, Any] = {cls.kind: cls for cls in kinds}
    kind = data.get("kind")
    if kind in built_in:
        return built_in[kind].from_dict(data)
    known = registry.names("surrogate")
    if kind not in known:
        raise UnknownName("surrogate", str(kind), [*built_in, *known])
    return registry.get("surrogate", str(kind)).factory.from_dict(data)
