"""Fitting what position shifts do: the table of `ShiftedSlalom` by ridge regression on random deletions.

Token j moved forward by m positions gains b_j(m), and the anchor (the read-out, the last token or [SEP]) gains b_0(k)
with k removals; see `slalom_bench.surrogates.shifted_slalom`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput
from slalom_bench.surrogates.shifted_slalom import BLOCK, with_anchor

PILOT = 300
"""Rows on which the ridge is chosen; the cost grows with their cube."""
_EFFECT_RATIOS = (1.0, 3.0, 10.0, 32.0)
"""Ratios of the prior standard deviations of a deletion effect and a shift effect that the marginal likelihood chooses
from; integers keep products exact."""


def _removed_positions(removed: Bools, count: int) -> NDArray[np.int32]:
    """The positions of each row's first `count` removals (m x count); n where there are fewer."""
    row, position = np.nonzero(removed)
    removals = removed.sum(axis=1)
    order = np.arange(len(row)) - np.repeat(np.cumsum(removals) - removals, removals)
    out = np.full((len(removed), count), removed.shape[1], np.int32)
    first = order < count
    out[row[first], order[first]] = position[first]
    return out


class ShiftTable:
    """Ridge regression of the change of log-odds on each token's deletion effect and its shift effects b.

    change(R) = -sum over removed i of effect_i + sum over kept j and the anchor of b_j(m_j), m_j removals before j.
    With `singles`, all single deletions are known and held exactly: a row's target is what they do not add up to, its
    features are reduced likewise, and only b is left to fit. Ratios of prior variances: noise as the number of removals
    (less one with `singles`), the anchor as 4 n tokens, the effects as the marginal likelihood chooses.

    Args:
        removed: the deletions, True where a position is removed (m x n).
        largest: the most removals of a row; 0 for a table without shifts.
        singles: whether all single deletions are known.
    """

    def __init__(self, removed: Bools, largest: int, *, singles: bool) -> None:
        n = removed.shape[1]
        if largest and removed.sum(axis=1).max(initial=0) > largest:
            raise InvalidInput(f"{removed.sum(axis=1).max()} removals in a row of a table for at most {largest}")
        self.shape, self.singles = (n + 1, largest + 1), singles
        self.scales = np.repeat(np.append(np.ones(n), np.ceil(2 * np.sqrt(n))), largest + 1)
        self.noise = np.maximum(removed.sum(axis=1) - float(singles), 1.0)
        self.removed = removed
        if not singles:
            self.scales = np.append(self.scales, np.ones(n))
        self.dual = len(removed) <= len(self.scales)
        self._factor: Any = None

    def _features(self, rows: slice | Ints, shifts: Iterable[int]) -> NDArray[np.float32]:
        """The regressors of some rows that belong to some shifts; many rows never lie in memory at once.

        A column for each (token, shift), 1 where a kept token has that shift, less the full input's, whose shifts are
        all 0. With `singles` less those of each removal by itself too: it takes the token and all behind it from shift
        0, and puts those behind at shift 1. Else one more for each token, -1 where it is removed.
        Small integers: exact.
        """
        removed = self.removed[rows]
        is_removed, before = with_anchor(removed)
        shift = np.minimum(before, self.shape[1] - 1)
        columns = {m: (~is_removed & (shift == m)).astype(np.float32) for m in shifts}
        columns[0] -= 1
        if self.singles:
            columns[0] += before + is_removed
            columns[1] -= before
        features = np.stack(list(columns.values()), axis=2).reshape(len(removed), -1)
        return features if self.singles else np.hstack([features, -removed.astype(np.float32)])

    def fit(self, target: Floats) -> tuple[Floats, Floats]:
        """Fit to a target, the change of log-odds in each row (m).

        The prior variances are chosen for the first target and kept for later ones.

        Returns:
            Deletion effects (n; 0 with `singles`) and b ((n+1) x (largest+1), b(0) = 0).
        """
        from scipy.linalg import cho_solve

        if self._factor is None:
            self._factor = self._factorise(target)
        deviation = np.sqrt(self.noise)
        if self.dual:
            scaled = self._adjoint(cho_solve(self._factor, target / deviation, check_finite=False) / deviation)
        else:
            scaled = cho_solve(self._factor, self._adjoint(target / self.noise), check_finite=False)
        cells = self.shape[0] * self.shape[1]
        b, effects = np.split(self.scales * scaled, [cells])
        b = b.reshape(self.shape)
        return (np.zeros(len(b) - 1) if self.singles else effects + b[:-1, 0]), b - b[:, :1]

    def _factorise(self, target: Floats) -> Any:
        """Cholesky factor of the smaller normal equations: dual (rows) or primal (table entries)."""
        from scipy.linalg import cho_factor

        pilot = (target / np.sqrt(self.noise))[:PILOT]
        full_kernel = self._kernel(slice(None)) if self.dual and self.singles else None
        candidates = []
        for scale in (1.0,) if self.singles else _EFFECT_RATIOS:
            self.scales[self.shape[0] * self.shape[1] :] = scale
            kernel = self._kernel(slice(PILOT)) if full_kernel is None else full_kernel[:PILOT, :PILOT]
            ratio, _, cost = choose_ridge(kernel, pilot)
            candidates.append((cost, ratio, scale))
        _, ridge, self.scales[self.shape[0] * self.shape[1] :] = min(candidates)
        gram = full_kernel if full_kernel is not None else self._kernel(slice(None)) if self.dual else self._gram()
        gram[np.diag_indices_from(gram)] += ridge
        return cho_factor(gram, check_finite=False, overwrite_a=True)

    def _adjoint(self, x: Floats) -> Floats:
        """The transposed regressors times x: counted in double, for the normal equations may be ill-conditioned."""
        total, effects = np.zeros(self.shape), np.zeros(self.shape[0])
        cells = np.arange(self.shape[0]) * self.shape[1]
        for start in range(0, len(x), BLOCK):
            part = x[start : start + BLOCK]
            is_removed, before = with_anchor(self.removed[start : start + BLOCK])
            index = cells + np.minimum(before, self.shape[1] - 1)
            total += np.bincount(index.ravel(), (~is_removed * part[:, None]).ravel(), total.size).reshape(self.shape)
            total[:, 0] -= part.sum()
            by_removed, by_shift = part @ is_removed, part @ before
            effects -= by_removed
            if self.singles:
                total[:, 0] += by_shift + by_removed
                total[:, 1] -= by_shift
        return self.scales * (total.ravel() if self.singles else np.append(total, effects[:-1]))

    def _kernel(self, rows: slice) -> Floats:
        """Inner products of rows: at the shifts 0 and 1 multiplied out, at the others counted by overlap.

        The tokens at shift m stand between the m-th and the next removal, so that two rows share an interval of them.
        """
        removed, cells = self.removed[rows], self.shape[0] * self.shape[1]
        scales = np.append(self.scales[:cells].reshape(self.shape)[:, :2], self.scales[cells:])
        features = self._features(rows, range(min(2, self.shape[1]))) * scales.astype(np.float32)
        kernel: Floats = (features @ features.T).astype(np.float64)
        count, end = removed.sum(axis=1), _removed_positions(removed, self.shape[1])
        for m in range(2, self.shape[1]):
            shared = np.minimum.outer(end[:, m], end[:, m])
            shared -= np.maximum.outer(end[:, m - 1], end[:, m - 1])
            shared -= 1
            kernel += np.maximum(shared, 0, out=shared)
            kernel[np.ix_(count == m, count == m)] += self.scales[cells - 1] ** 2
        deviation = np.sqrt(self.noise[rows])
        return kernel / np.multiply.outer(deviation, deviation)

    def _gram(self) -> Floats:
        """The Gram matrix, by noise level: integer products are exact in fast single precision, weights in double."""
        gram = np.zeros((len(self.scales),) * 2)
        for noise in np.unique(self.noise):
            rows = np.flatnonzero(self.noise == noise)
            for start in range(0, len(rows), BLOCK):
                part = self._features(rows[start : start + BLOCK], range(self.shape[1]))
                for left in range(0, len(gram), BLOCK):
                    strip = slice(left, left + BLOCK)
                    gram[strip] += _matmul(part.T[strip], part) / noise
        gram *= self.scales
        gram *= self.scales[:, None]
        return gram


def _matmul(left: NDArray, right: NDArray) -> NDArray:
    """A large matrix product on all cores: by torch, whose threads are there anyway."""
    import torch

    return (torch.from_numpy(left) @ torch.from_numpy(right)).numpy()


def choose_ridge(kernel: Floats, target: Floats) -> tuple[float, float, float]:
    """The ridge of largest marginal likelihood for target ~ N(0, prior (kernel + ridge I)).

    Args:
        kernel: inner products of the rows (m x m).
        target: what is regressed (m).

    Returns:
        The ridge, out of a grid; the prior variance that goes with it; and the cost, minus twice the log likelihood up
        to a constant, which compares kernels.
    """
    from scipy.linalg.lapack import dsytrd, dsytrd_lwork

    n = len(target)
    bordered = np.zeros((n + 1, n + 1), order="F")
    bordered[1:, 0], bordered[1:, 1:] = target, kernel
    # rotated so that the kernel is tridiagonal and the target has one entry: elimination then gives all that is asked
    _, diagonal, off_diagonal, _, _ = dsytrd(
        bordered, lower=1, lwork=int(dsytrd_lwork(n + 1, lower=1)[0]), overwrite_a=1
    )
    grid = np.geomspace(1e-6, 1e6, 73) * max(float(np.trace(kernel)) / n, 1e-300)
    pivots = diagonal[1:, None] + grid
    for i in range(n - 2, -1, -1):
        pivots[i] -= off_diagonal[i + 1] ** 2 / pivots[i + 1]
    prior = off_diagonal[0] ** 2 / pivots[0] / n + 1e-300
    cost = n * np.log(prior) + np.log(pivots).sum(axis=0)
    best = int(cost.argmin())
    return float(grid[best]), float(prior[best]), float(cost[best])
