"""What closing the gap does: a SLALOM whose tokens have another value when deletions before them moved them forward.

Under the removal rule `delete` every token behind a removed one is read at an earlier position. In a model with
position embeddings that moves the output as much as the missing token itself, and differently for each number of
removals, so no function of the kept set's own weights predicts it. Here token j moved by m positions gains b_j(m), and
the anchor (the read-out, the last token or [SEP]) gains b_0(k) with k removals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_bench.errors import InvalidInput
from slalom_bench.surrogates import SlalomSurrogate
from slalom_bench.types import Bools, Floats, Ints

PILOT = 300
"""Rows on which the ridge is chosen; the cost grows with their cube."""
BLOCK = 1024


def moved(removed: Bools, largest: int) -> Ints:
    """By how many positions each token, and last the anchor, moves forward (m x n+1), cut at `largest`."""
    before: Ints = np.cumsum(removed, axis=1) - removed
    return np.minimum(np.hstack([before, removed.sum(axis=1, keepdims=True)]), largest)


class ShiftedSlalom(SlalomSurrogate):
    """Anchored SLALOM plus a shift table, exact at the full input and at every single deletion.

    F(S) = SLALOM(S) + offset - sum of the removed `correction` + sum over kept tokens and the anchor of table[j, m_j].
    """

    kind = "slalom-shift"

    def __init__(
        self, value: ArrayLike, importance: ArrayLike, anchor: tuple[float, float], correction: ArrayLike,
        table: ArrayLike, offset: float,
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
        slalom = super().predict(keep)
        removed = ~np.asarray(keep, np.bool_)
        gains = self.table[np.arange(len(self) + 1), moved(removed, self.table.shape[1] - 1)]
        gains[:, :-1][removed] = 0.0
        return slalom + self.offset - removed @ self.correction + gains.sum(axis=1)

    def to_dict(self) -> dict[str, Any]:
        more = {"correction": self.correction.tolist(), "table": self.table.tolist(), "offset": self.offset}
        return {**super().to_dict(), **more}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ShiftedSlalom:
        anchor = (data["anchor"][0], data["anchor"][1])
        return cls(data["value"], data["importance"], anchor, data["correction"], data["table"], data["offset"])


class ShiftTable:
    """Ridge regression for b, with the full input and the single deletions held exactly.

    A row's target is what its single deletions do not add up to, and its features are reduced likewise. A row with k
    removals has noise of variance proportional to k - 1. A priori the anchor varies like 4 n tokens.
    """

    def __init__(self, removed: Bools, largest: int) -> None:
        n = removed.shape[1]
        self.shape = (n + 1, largest + 1)
        self.sizes = np.append(np.ones(n), np.ceil(2 * np.sqrt(n)))
        self.width = np.sqrt(np.maximum(removed.sum(axis=1) - 1.0, 1.0))
        none = self._indicators(np.zeros((1, n), np.bool_))
        one = self._indicators(np.eye(n, dtype=np.bool_)) - none
        self._factor: Any = None
        self.features = self._indicators(removed) - none - removed.astype(np.float32) @ one

    def _indicators(self, removed: Bools) -> NDArray[np.float32]:
        """A column for each (token, shift), 1 where a kept token has that shift. Small integers: exact in float32."""
        present = np.hstack([~removed, np.full((len(removed), 1), True)]) * self.sizes
        out = np.zeros((len(removed), *self.shape), np.float32)
        np.put_along_axis(out, moved(removed, self.shape[1] - 1)[:, :, None], present[:, :, None], axis=2)
        return out.reshape(len(removed), -1)

    def fit(self, target: Floats) -> Floats:
        """b as (n+1) x (largest+1) with b(0) = 0. The ridge is chosen for the first target and kept for later ones."""
        from scipy.linalg import cho_solve

        y, features = target / self.width, self.features
        if self._factor is None:
            self._factor = self._factorise(choose_ridge(self._kernel(slice(PILOT)), y[:PILOT])[0])
        if self._wide:
            b = features.T @ (cho_solve(self._factor, y, check_finite=False) / self.width)
        else:
            b = cho_solve(self._factor, features.T @ (y / self.width), check_finite=False)
        table = b.reshape(self.shape) * self.sizes[:, None]
        return table - table[:, :1]

    @property
    def _wide(self) -> bool:
        """More features than rows: then the dual system is the smaller one."""
        return self.features.shape[0] <= self.features.shape[1]

    def _factorise(self, ridge: float) -> Any:
        from scipy.linalg import cho_factor

        if self._wide:
            gram = self._kernel(slice(None))
        else:
            gram = np.zeros((self.features.shape[1],) * 2)
            for i in range(0, len(self.features), BLOCK):
                part = self.features[i : i + BLOCK] / self.width[i : i + BLOCK, None]
                gram += part.T @ part
        gram[np.diag_indices_from(gram)] += ridge
        return cho_factor(gram, check_finite=False, overwrite_a=True)

    def _kernel(self, rows: slice) -> Floats:
        features, width = self.features[rows], self.width[rows]
        return (features @ features.T) / np.multiply.outer(width, width)


def choose_ridge(kernel: Floats, target: Floats) -> tuple[float, float]:
    """The ratio of largest marginal likelihood for target ~ N(0, prior (kernel + ratio I)), and that prior."""
    from scipy.linalg import eigh

    values, vectors = eigh(kernel, check_finite=False)
    values, rotated = np.maximum(values, 0.0), vectors.T @ target
    grid = np.geomspace(1e-6, 1e6, 73) * max(float(values.mean()), 1e-300)
    spread = values + grid[:, None]
    prior = (rotated**2 / spread).mean(axis=1) + 1e-300
    best = int((len(target) * np.log(prior) + np.log(spread).sum(axis=1)).argmin())
    return float(grid[best]), float(prior[best])
