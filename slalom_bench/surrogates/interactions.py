"""The surrogate of sparse interactions: a coefficient for each stored set of positions that is kept as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_bench.core.surrogate import checked_masks, checked_vector
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import surrogate


@surrogate("interactions", version=1)
class InteractionSurrogate:
    """A polynomial in the kept positions, stored sparsely: its Moebius coefficients.

    F(S) = sum over stored sets T that are part of S of c_T; the empty set's coefficient is the intercept.

    Args:
        positions: how many there are (n).
        sets: distinct sets of positions, each in ascending order.
        coefficients: one for each set.

    Reference:
        Grabisch, Marichal and Roubens 2000, Equivalent Representations of Set Functions.

    >>> InteractionSurrogate(2, [(), (0,), (0, 1)], [0.5, 1.0, 3.0]).predict([[True, False], [True, True]])
    array([1.5, 4.5])
    """

    kind = "interactions"

    def __init__(self, positions: int, sets: Sequence[Sequence[int]], coefficients: ArrayLike) -> None:
        self.positions = int(positions)
        self.sets = tuple(tuple(int(i) for i in members) for members in sets)
        self.coefficients = checked_vector("coefficients", coefficients)
        if len(self.sets) != len(self.coefficients) or len(set(self.sets)) != len(self.sets):
            raise InvalidInput(f"{len(self.coefficients)} coefficients need as many distinct sets")
        for members in self.sets:
            if list(members) != sorted(set(members)) or (members and not 0 <= members[0] <= members[-1] < positions):
                raise InvalidInput(f"the set {members} is not made of ascending positions below {positions}")

    def __len__(self) -> int:
        return self.positions

    def predict(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Log-odds (m) of keep-masks (m x n)."""
        keep = checked_masks(keep, len(self))
        out = np.zeros(len(keep))
        for size in sorted({len(members) for members in self.sets}):
            chosen = [t for t, members in enumerate(self.sets) if len(members) == size]
            whole = np.ones((len(keep), len(chosen)), np.bool_)
            for column in np.array([self.sets[t] for t in chosen], np.int64).reshape(len(chosen), size).T:
                whole &= keep[:, column]
            out += whole @ self.coefficients[chosen]
        return out

    def shapley(self) -> NDArray[np.float64]:
        """Shapley values (n): each coefficient shared equally by its positions.

        >>> InteractionSurrogate(2, [(0,), (0, 1)], [1.0, 3.0]).shapley()
        array([2.5, 1.5])
        """
        values = np.zeros(len(self))
        for members, coefficient in zip(self.sets, self.coefficients, strict=True):
            if members:
                values[list(members)] += coefficient / len(members)
        return values

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        sets = [list(members) for members in self.sets]
        return {
            "kind": self.kind,
            "positions": self.positions,
            "sets": sets,
            "coefficients": self.coefficients.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InteractionSurrogate:
        """The inverse of `to_dict`."""
        return cls(data["positions"], data["sets"], data["coefficients"])
