"""What closing the gap does: a SLALOM whose tokens have another value when deletions before them moved them forward.

Under the removal rule `delete` every token behind a removed one is read at an earlier position. In a model with
position embeddings that moves the output as much as the missing token itself, and differently for each number of
removals, so no function of the kept set's own weights predicts it. Here token j moved by m positions gains b_j(m), and
the anchor (the read-out, the last token or [SEP]) gains b_0(k) with k removals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_bench.errors import InvalidInput
from slalom_bench.surrogates import SlalomSurrogate
from slalom_bench.types import Bools, Floats, Ints

PILOT = 300
"""Rows on which the ridge is chosen; the cost grows with their cube."""
BLOCK = 1024
"""Rows that are worked on together: memory does not grow with their number."""
EFFECT_SIZES = (1.0, 3.0, 10.0, 32.0)
"""How much more a token may do by going than by moving (ratio of standard deviations); integers keep products exact."""


def removals(removed: Bools) -> tuple[Bools, Ints]:
    """For each token, and last the anchor (m x n+1), whether it is gone and how many are removed before it."""
    gone = np.hstack([removed, np.zeros((len(removed), 1), np.bool_)])
    before = np.zeros(gone.shape, np.int64)
    np.cumsum(removed, axis=1, out=before[:, 1:])
    return gone, before


def moved(removed: Bools, largest: int) -> Ints:
    """By how many positions each token, and last the anchor, moves forward (m x n+1), cut at `largest`."""
    return np.minimum(removals(removed)[1], largest)


def places(removed: Bools, count: int) -> NDArray[np.int32]:
    """Where each row's first `count` removals are (m x count); n where there are fewer."""
    row, place = np.nonzero(removed)
    many = removed.sum(axis=1)
    order = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    out = np.full((len(removed), count), removed.shape[1], np.int32)
    first = order < count
    out[row[first], order[first]] = place[first]
    return out


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
        out = super().predict(keep) + self.offset
        for start in range(0, len(out), BLOCK):
            rows = slice(start, start + BLOCK)
            removed = ~np.asarray(keep[rows], np.bool_)
            gains = self.table[np.arange(len(self) + 1), moved(removed, self.table.shape[1] - 1)]
            gains[:, :-1][removed] = 0.0
            out[rows] += gains.sum(axis=1) - removed @ self.correction
        return out

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
        if largest and removed.sum(axis=1).max(initial=0) > largest:
            raise InvalidInput(f"{removed.sum(axis=1).max()} removals in a row of a table for at most {largest}")
        self.shape, self.singles = (n + 1, largest + 1), singles
        self.sizes = np.repeat(np.append(np.ones(n), np.ceil(2 * np.sqrt(n))), largest + 1)
        self.noise = np.maximum(removed.sum(axis=1) - float(singles), 1.0)
        self.removed = removed
        if not singles:
            self.sizes = np.append(self.sizes, np.ones(n))
        self.wide = len(removed) <= len(self.sizes)
        self._factor: Any = None

    def _features(self, rows: slice | Ints, shifts: Iterable[int]) -> NDArray[np.float32]:
        """The regressors of some rows that belong to some shifts; many rows never lie in memory at once.

        A column for each (token, shift), 1 where a kept token has that shift, less the full input's, whose shifts are
        all 0. With `singles` less those of each removal by itself too: it takes the token and all behind it from shift
        0, and puts those behind at shift 1. Else one more for each token, -1 where it is gone. Small integers: exact.
        """
        removed = self.removed[rows]
        gone, before = removals(removed)
        shift = np.minimum(before, self.shape[1] - 1)
        columns = {m: (~gone & (shift == m)).astype(np.float32) for m in shifts}
        columns[0] -= 1
        if self.singles:
            columns[0] += before + gone
            columns[1] -= before
        features = np.stack(list(columns.values()), axis=2).reshape(len(removed), -1)
        return features if self.singles else np.hstack([features, -removed.astype(np.float32)])

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
        """The transposed regressors times x: counted in double, for the normal equations may be ill-conditioned."""
        total, effects = np.zeros(self.shape), np.zeros(self.shape[0])
        cells = np.arange(self.shape[0]) * self.shape[1]
        for start in range(0, len(x), BLOCK):
            part = x[start : start + BLOCK]
            gone, before = removals(self.removed[start : start + BLOCK])
            where = cells + np.minimum(before, self.shape[1] - 1)
            total += np.bincount(where.ravel(), (~gone * part[:, None]).ravel(), total.size).reshape(self.shape)
            total[:, 0] -= part.sum()
            alone, moved_by = part @ gone, part @ before
            effects -= alone
            if self.singles:
                total[:, 0] += moved_by + alone
                total[:, 1] -= moved_by
        return self.sizes * (total.ravel() if self.singles else np.append(total, effects[:-1]))

    def _kernel(self, rows: slice) -> Floats:
        """Inner products of rows: at the shifts 0 and 1 multiplied out, at the others counted by overlap.

        The tokens at shift m stand between the m-th and the next removal, so that two rows share an interval of them.
        """
        removed, cells = self.removed[rows], self.shape[0] * self.shape[1]
        sizes = np.append(self.sizes[:cells].reshape(self.shape)[:, :2], self.sizes[cells:])
        features = self._features(rows, range(min(2, self.shape[1]))) * sizes.astype(np.float32)
        kernel: Floats = (features @ features.T).astype(np.float64)
        count, end = removed.sum(axis=1), places(removed, self.shape[1])
        for m in range(2, self.shape[1]):
            shared = np.minimum.outer(end[:, m], end[:, m])
            shared -= np.maximum.outer(end[:, m - 1], end[:, m - 1])
            shared -= 1
            kernel += np.maximum(shared, 0, out=shared)
            kernel[np.ix_(count == m, count == m)] += self.sizes[cells - 1] ** 2
        width = np.sqrt(self.noise[rows])
        return kernel / np.multiply.outer(width, width)

    def _gram(self) -> Floats:
        """By noise level: the integer products stay exact in fast single precision, the weights in double."""
        gram = np.zeros((len(self.sizes),) * 2)
        for noise in np.unique(self.noise):
            rows = np.flatnonzero(self.noise == noise)
            for start in range(0, len(rows), BLOCK):
                part = self._features(rows[start : start + BLOCK], range(self.shape[1]))
                for left in range(0, len(gram), BLOCK):
                    strip = slice(left, left + BLOCK)
                    gram[strip] += product(part.T[strip], part) / noise
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
    from scipy.linalg.lapack import dsytrd, dsytrd_lwork

    n = len(target)
    bordered = np.zeros((n + 1, n + 1), order="F")
    bordered[1:, 0], bordered[1:, 1:] = target, kernel
    # rotated so that the kernel is tridiagonal and the target has one entry: elimination then gives all that is asked
    _, diagonal, beside, _, _ = dsytrd(bordered, lower=1, lwork=int(dsytrd_lwork(n + 1, lower=1)[0]), overwrite_a=1)
    grid = np.geomspace(1e-6, 1e6, 73) * max(float(np.trace(kernel)) / n, 1e-300)
    pivots = diagonal[1:, None] + grid
    for i in range(n - 2, -1, -1):
        pivots[i] -= beside[i + 1] ** 2 / pivots[i + 1]
    prior = beside[0] ** 2 / pivots[0] / n + 1e-300
    cost = n * np.log(prior) + np.log(pivots).sum(axis=0)
    best = int(cost.argmin())
    return float(grid[best]), float(prior[best]), float(cost[best])
