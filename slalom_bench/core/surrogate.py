"""What a surrogate is: a prediction of the model's log-odds when only some positions are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_bench.errors import InvalidInput


@runtime_checkable
class Surrogate(Protocol):
    """A surrogate: one file, registered with `slalom_bench.surrogate` under its `kind`."""

    kind: str
    """The registered name; stored explanations are read back by it."""

    def __len__(self) -> int:
        """The number n of positions."""
        ...

    def predict(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Predict log-odds (m) from keep-masks (m x n, True = kept)."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, `kind` among it, that `from_dict` reads back to the same predictions."""
        ...

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Surrogate:
        """The inverse of `to_dict`."""
        ...


def checked_vector(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """A read-only vector of finite numbers, at least one.

    >>> checked_vector("value", [1, 2])
    array([1., 2.])
    """
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be a non-empty vector of finite numbers")
    array.setflags(write=False)
    return array


def checked_masks(keep: NDArray[np.bool_], n: int) -> NDArray[np.bool_]:
    """Keep-masks (m x n) for n positions."""
    keep = np.asarray(keep, dtype=np.bool_)
    if keep.ndim != 2 or keep.shape[1] != n:
        raise InvalidInput(f"keep-masks of shape {keep.shape}; expected (m, {n})")
    return keep
