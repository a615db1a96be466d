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
"""Rows of the regression that are in memory together where there are more of them than columns."""
EFFECT_SIZES = (1.0, 3.0, 10.0, 32.0)
"""How much more a token may do by going than by moving (ratio of standard deviations); integers keep products exact."""


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
    """Ridge regression of log-odds, relative to the full input, on what each token does gone (effect) and moved (b).

    With `singles`, all single deletions are known and held exactly: a row's target is what they do not add up to, its
    features are reduced likewise, and only b is left to fit. Ratios of variances: noise as the number of removals
    (less one with `singles`), the anchor as 4 n tokens, the effects as the marginal likelihood says.
    """

    def __init__(self, removed: Bools, largest: int, *, singles: bool) -> None:
        n = removed.shape[1]
        self.shape, self.singles = (n + 1, largest + 1), singles
        self.sizes = np.repeat(np.append(np.ones(n), np.ceil(2 * np.sqrt(n))), largest + 1)
        self.noise = np.maximum(removed.sum(axis=1) - float(singles), 1.0)
        self.removed = removed
        self._none = self._indicators(np.zeros((1, n), np.bool_))
        if singles:
            self._single = self._indicators(np.eye(n, dtype=np.bool_)) - self._none
        else:
            self.sizes = np.append(self.sizes, np.ones(n))
        self.wide = len(removed) <= len(self.sizes)
        self._held: NDArray[np.float32] | None = None
        if self.wide:
            self._held = self._features(slice(None))
        self._factor: Any = None

    def _features(self, rows: slice | Ints) -> NDArray[np.float32]:
        """The regressors of some rows; many rows never lie in memory at once."""
        if self._held is not None:
            return self._held[rows]
        removed = self.removed[rows]
        features = self._indicators(removed) - self._none
        gone = removed.astype(np.float32)
        return features - product(gone, self._single) if self.singles else np.hstack([features, -gone])

    def _indicators(self, removed: Bools) -> NDArray[np.float32]:
        """A column for each (token, shift), 1 where a kept token has that shift. Small integers: exact in float32."""
        present = np.hstack([~removed, np.ones((len(removed), 1), np.bool_)])
        out = np.zeros((len(removed), *self.shape), np.float32)
        np.put_along_axis(out, moved(removed, self.shape[1] - 1)[:, :, None], present[:, :, None], axis=2)
        return out.reshape(len(removed), -1)

    def fit(self, target: Floats) -> tuple[Floats, Floats]:
        """Effects (n; 0 with `singles`) and b ((n+1) x (largest+1), b(0) = 0).

        The variances are chosen for the first target and kept for later ones.
        """
        from scipy.linalg import cho_solve

        if self._factor is None:
            self._factor = self._factorise(target)
        width = np.sqrt(self.noise)
        if self.wide:
            scaled = self._adjoint(cho_solve(self._factor, target / width, check_finite=False) / width)
        else:
            scaled = cho_solve(self._factor, self._adjoint(target / self.noise), check_finite=False)
        cells = self.shape[0] * self.shape[1]
        b, effects = np.split(self.sizes * scaled, [cells])
        b = b.reshape(self.shape)
        return (np.zeros(len(b) - 1) if self.singles else effects + b[:-1, 0]), b - b[:, :1]

    def _factorise(self, target: Floats) -> Any:
        """Cholesky factor of the smaller normal equations: dual (rows) or primal (table entries)."""
        from scipy.linalg import cho_factor

        pilot = (target / np.sqrt(self.noise))[:PILOT]
        whole = self._kernel(slice(None)) if self.wide and self.singles else None
        found = []
        for size in (1.0,) if self.singles else EFFECT_SIZES:
            self.sizes[self.shape[0] * self.shape[1] :] = size
            kernel = self._kernel(slice(PILOT)) if whole is None else whole[:PILOT, :PILOT]
            ratio, _, cost = choose_ridge(kernel, pilot)
            found.append((cost, ratio, size))
        _, ridge, self.sizes[self.shape[0] * self.shape[1] :] = min(found)
        gram = whole if whole is not None else self._kernel(slice(None)) if self.wide else self._gram()
        gram[np.diag_indices_from(gram)] += ridge
        return cho_factor(gram, check_finite=False, overwrite_a=True)

    def _adjoint(self, x: Floats) -> Floats:
        # in double: the normal equations may be ill-conditioned, and would amplify the rounding of singles
        total = np.zeros(len(self.sizes))
        for start in range(0, len(x), BLOCK):
            rows = slice(start, start + BLOCK)
            total += product(x[rows], self._features(rows).astype(np.float64))
        return self.sizes * total

    def _kernel(self, rows: slice) -> Floats:
        features, width = self._features(rows), np.sqrt(self.noise[rows])
        return product(features * (self.sizes**2).astype(np.float32), features.T) / np.multiply.outer(width, width)

    def _gram(self) -> Floats:
        """By noise level: the integer products stay exact in fast single precision, the weights in double."""
        gram = np.zeros((len(self.sizes),) * 2)
        for noise in np.unique(self.noise):
            rows = np.flatnonzero(self.noise == noise)
            for start in range(0, len(rows), BLOCK):
                part = self._features(rows[start : start + BLOCK])
                gram += product(part.T, part) / noise
        gram *= self.sizes
        gram *= self.sizes[:, None]
        return gram


def product(left: NDArray, right: NDArray) -> NDArray:
    """A large matrix product on all cores: by torch, whose threads are there anyway."""
    import torch

    return (torch.from_numpy(left) @ torch.from_numpy(right)).numpy()


def choose_ridge(kernel: Floats, target: Floats) -> tuple[float, float, float]:
    """The ratio of largest marginal likelihood for target ~ N(0, prior (kernel + ratio I)), that prior, and the cost.

    The cost is minus twice the log likelihood, up to a constant: it compares kernels.
    """
    from scipy.linalg import eigh

    values, vectors = eigh(kernel, check_finite=False)
    values, rotated = np.maximum(values, 0.0), vectors.T @ target
    grid = np.geomspace(1e-6, 1e6, 73) * max(float(values.mean()), 1e-300)
    spread = values + grid[:, None]
    prior = (rotated**2 / spread).mean(axis=1) + 1e-300
    cost = len(target) * np.log(prior) + np.log(spread).sum(axis=1)
    best = int(cost.argmin())
    return float(grid[best]), float(prior[best]), float(cost[best])
