"""Additive models of token and position: the linear one, and a GAM that contains it and never fits worse.

F = intercept + sum_i (w[t_i] + d[t_i, i]): the linear weights w are free, only the deviations d by position carry a
ridge. At d = 0 the objective is the linear model's error, so the minimum cannot exceed it, whatever the ridge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slalom_bench.core.types import Floats, Ints
from slalom_bench.errors import InvalidInput

RIDGES = tuple(10.0**power for power in range(-2, 5))
HELD_OUT = 0.2
STEPS = 300
"""Steps of the iterative solver. Each lowers the objective, so that stopping early breaks no promise."""


@dataclass(frozen=True)
class Additive:
    """Weights (U) and their deviations by position (U x P; P = 0 for the linear model)."""

    intercept: float
    weight: Floats
    deviation: Floats
    ridge: float = np.inf

    def predict(self, texts: Sequence[Ints]) -> Floats:
        """Log-odds of texts whose tokens are numbered 0..U-1; positions from P on have no deviation."""
        counts, places = features(texts, *self.deviation.shape)
        return self.intercept + counts @ self.weight + places @ self.deviation.ravel()


def features(texts: Sequence[Ints], size: int, length: int) -> tuple[Any, Any]:
    """Sparse token counts (m x U) and token-at-position indicators (m x UP)."""
    from scipy.sparse import csr_array

    lengths = [len(text) for text in texts]
    row = np.repeat(np.arange(len(texts)), lengths)
    token = np.concatenate([*texts, np.empty(0, np.int64)])
    place = np.concatenate([*(np.arange(n) for n in lengths), np.empty(0, np.int64)])
    seen = place < length
    counts = csr_array((np.ones(len(row)), (row, token)), shape=(len(texts), size))
    column = token[seen] * length + place[seen]
    return counts, csr_array((np.ones(len(column)), (row[seen], column)), shape=(len(texts), size * length))


def fit_linear(texts: Sequence[Ints], targets: Floats, size: int) -> Additive:
    """Least squares with intercept on token counts; of several solutions the one of least norm."""
    counts, _ = features(texts, size, 0)
    coefficients = np.asarray(np.linalg.lstsq(with_intercept(counts), targets, rcond=None)[0], np.float64)
    return Additive(float(coefficients[0]), coefficients[1:], np.empty((size, 0)))


def fit_gam(texts: Sequence[Ints], targets: Floats, size: int, rng: np.random.Generator) -> Additive:
    """The GAM at that ridge which predicts a held-out fifth best, fitted to everything."""
    if len(texts) < 10:
        raise InvalidInput(f"a GAM needs at least 10 texts to hold some out, not {len(texts)}")
    length = max(len(text) for text in texts)
    order = rng.permutation(len(texts))
    held, rest = np.split(order, [int(HELD_OUT * len(texts))])
    trials = fit_ridges([texts[i] for i in rest], targets[rest], size, length, RIDGES)
    kept = [texts[i] for i in held]
    errors = [np.mean((trial.predict(kept) - targets[held]) ** 2) for trial in trials]
    return fit_ridges(texts, targets, size, length, [RIDGES[int(np.argmin(errors))]])[0]


def fit_ridges(
    texts: Sequence[Ints], targets: Floats, size: int, length: int, ridges: Sequence[float]
) -> list[Additive]:
    """One GAM for each ridge: deviations by LSQR with the linear part projected out, then the linear part."""
    from scipy.sparse.linalg import LinearOperator, lsqr

    counts, places = features(texts, size, length)
    linear = with_intercept(counts)
    left, scale, _ = np.linalg.svd(linear, full_matrices=False)
    basis = left[:, scale > 1e-10 * scale[0]]

    def without_linear(x: Floats) -> Floats:
        return x - basis @ (basis.T @ x)

    operator = LinearOperator(
        places.shape,
        dtype=np.float64,
        matvec=lambda d: without_linear(places @ d),
        rmatvec=lambda r: places.T @ without_linear(r),
    )
    left_over = without_linear(targets)
    fits = []
    for ridge in ridges:
        deviation = lsqr(operator, left_over, damp=np.sqrt(ridge), atol=1e-9, btol=1e-9, iter_lim=STEPS)[0]
        coefficients = np.linalg.lstsq(linear, targets - places @ deviation, rcond=None)[0]
        fits.append(Additive(float(coefficients[0]), coefficients[1:], deviation.reshape(size, length), ridge))
    return fits


def with_intercept(counts: Any) -> Floats:
    return np.hstack([np.ones((counts.shape[0], 1)), counts.toarray()])
