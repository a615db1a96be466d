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
        self.sizes = np.repeat(np.append(np.ones(n), np.ceil(2 * np.sqrt(n))), largest + 1).astype(np.float32)
        self.noise = np.maximum(removed.sum(axis=1) - 1.0, 1.0)
        none = self._indicators(np.zeros((1, n), np.bool_))
        one = self._indicators(np.eye(n, dtype=np.bool_)) - none
        self.features = self._indicators(removed) - none - removed.astype(np.float32) @ one
        self.wide = len(removed) <= self.features.shape[1]
        self._factor: Any = None

    def _indicators(self, removed: Bools) -> NDArray[np.float32]:
        """A column for each (token, shift), 1 where a kept token has that shift. Small integers: exact in float32."""
        present = np.hstack([~removed, np.ones((len(removed), 1), np.bool_)])
        out = np.zeros((len(removed), *self.shape), np.float32)
        np.put_along_axis(out, moved(removed, self.shape[1] - 1)[:, :, None], present[:, :, None], axis=2)
        return out.reshape(len(removed), -1)

    def fit(self, target: Floats) -> Floats:
        """b as (n+1) x (largest+1) with b(0) = 0. The ridge is chosen for the first target and kept for later ones."""
        from scipy.linalg import cho_solve

        if self._factor is None:
            self._factor = self._factorise(target)
        if self.wide:
            width = np.sqrt(self.noise)
            b = self._adjoint(cho_solve(self._factor, target / width, check_finite=False) / width)
        else:
            b = cho_solve(self._factor, self._adjoint(target / self.noise), check_finite=False)
        table = (self.sizes * b).reshape(self.shape)
        return table - table[:, :1]

    def _factorise(self, target: Floats) -> Any:
        """Cholesky factor of the smaller normal equations: dual (rows) or primal (table entries)."""
        from scipy.linalg import cho_factor

        ridge, _ = choose_ridge(self._kernel(slice(PILOT)), (target / np.sqrt(self.noise))[:PILOT])
        gram = self._kernel(slice(None)) if self.wide else self._gram()
        gram[np.diag_indices_from(gram)] += ridge
        return cho_factor(gram, check_finite=False, overwrite_a=True)

    def _adjoint(self, x: Floats) -> Floats:
        product = (self.features.T @ x.astype(np.float32)).astype(np.float64)
        return self.sizes.astype(np.float64) * product

    def _kernel(self, rows: slice) -> Floats:
        features, width = self.features[rows], np.sqrt(self.noise[rows])
        return (features * self.sizes**2 @ features.T) / np.multiply.outer(width, width)

    def _gram(self) -> Floats:
        """By noise level: the integer products stay exact in fast single precision, the weights in double."""
        gram = np.zeros((self.features.shape[1],) * 2)
        for noise in np.unique(self.noise):
            part = self.features[self.noise == noise]
            gram += (part.T @ part) / noise
        return gram * np.multiply.outer(self.sizes, self.sizes)


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
