"""What closing the gap does: a SLALOM whose tokens have another value when deletions before them moved them forward.

Under the removal rule `delete` every token behind a removed one is read at an earlier position. In a model with
position embeddings that moves the output as much as the missing token itself, and differently for each number of
removals, so no function of the kept set's own weights predicts it. Here token j moved by m positions gains b_j(m), and
the anchor (the read-out, the last token or [SEP]) gains b_0(k) with k removals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.types import Bools, Floats, Ints
from slalom_bench.errors import InvalidInput
from slalom_bench.surrogates.shifted_slalom import BLOCK, removals

PILOT = 300
"""Rows on which the ridge is chosen; the cost grows with their cube."""
EFFECT_SIZES = (1.0, 3.0, 10.0, 32.0)
"""How much more a token may do by going than by moving (ratio of standard deviations); integers keep products exact."""


def places(removed: Bools, count: int) -> NDArray[np.int32]:
    """Where each row's first `count` removals are (m x count); n where there are fewer."""
    row, place = np.nonzero(removed)
    many = removed.sum(axis=1)
    order = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    out = np.full((len(removed), count), removed.shape[1], np.int32)
    first = order < count
    out[row[first], order[first]] = place[first]
    return out


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
