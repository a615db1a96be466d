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

_RIDGES = tuple(10.0**power for power in range(-2, 5))
_HELD_OUT = 0.2
_STEPS = 300
"""Steps of the iterative solver. Each lowers the objective, so that stopping early breaks no promise."""


@dataclass(frozen=True)
class Additive:
    """Weights (U) and their deviations by position (U x P; P = 0 for the linear model).

    F = intercept + sum_i (weight[t_i] + deviation[t_i, i]).
    """

    intercept: float
    weight: Floats
    deviation: Floats
    ridge: float = np.inf

    def predict(self, texts: Sequence[Ints]) -> Floats:
        """Log-odds of texts whose tokens are numbered 0..U-1; positions from P on have no deviation."""
        counts, at_position = design_matrices(texts, *self.deviation.shape)
        return self.intercept + counts @ self.weight + at_position @ self.deviation.ravel()


def design_matrices(texts: Sequence[Ints], size: int, length: int) -> tuple[Any, Any]:
    """Sparse token counts (m x U) and token-at-position indicators (m x UP).

    Args:
        texts: m texts of tokens numbered 0..U-1.
        size: the number U of tokens.
        length: the number P of positions; what stands further back has no indicator.
    """
    from scipy.sparse import csr_array

    lengths = [len(text) for text in texts]
    row = np.repeat(np.arange(len(texts)), lengths)
    token = np.concatenate([*texts, np.empty(0, np.int64)])
    position = np.concatenate([*(np.arange(n) for n in lengths), np.empty(0, np.int64)])
    inside = position < length
    counts = csr_array((np.ones(len(row)), (row, token)), shape=(len(texts), size))
    column = token[inside] * length + position[inside]
    return counts, csr_array((np.ones(len(column)), (row[inside], column)), shape=(len(texts), size * length))


def fit_linear(texts: Sequence[Ints], targets: Floats, size: int) -> Additive:
    """The linear model: least squares with intercept on token counts; of several solutions the one of least norm.

    >>> fit_linear([np.array([0]), np.array([0, 0]), np.array([1])], np.array([1.0, 3.0, 0.0]), 2).weight.round(6)
    array([2., 1.])
    """
    counts, _ = design_matrices(texts, size, 0)
    coefficients = np.asarray(np.linalg.lstsq(_with_intercept(counts), targets, rcond=None)[0], np.float64)
    return Additive(float(coefficients[0]), coefficients[1:], np.empty((size, 0)))


def fit_gam(texts: Sequence[Ints], targets: Floats, size: int, rng: np.random.Generator) -> Additive:
    """The GAM at that ridge which predicts a held-out fifth best, fitted to everything.

    Args:
        texts: texts of tokens numbered 0..U-1, at least 10.
        targets: their log-odds.
        size: the number U of tokens.
        rng: chooses what is held out.
    """
    if len(texts) < 10:
        raise InvalidInput(f"a GAM needs at least 10 texts to hold some out, not {len(texts)}")
    length = max(len(text) for text in texts)
    order = rng.permutation(len(texts))
    held_out, rest = np.split(order, [int(_HELD_OUT * len(texts))])
    trials = fit_ridges([texts[i] for i in rest], targets[rest], size, length, _RIDGES)
    validation = [texts[i] for i in held_out]
    errors = [np.mean((trial.predict(validation) - targets[held_out]) ** 2) for trial in trials]
    return fit_ridges(texts, targets, size, length, [_RIDGES[int(np.argmin(errors))]])[0]


def fit_ridges(
    texts: Sequence[Ints], targets: Floats, size: int, length: int, ridges: Sequence[float]
) -> list[Additive]:
    """One GAM for each ridge: deviations by LSQR with the linear part projected out, then the linear part."""
    from scipy.sparse.linalg import LinearOperator, lsqr

    counts, at_position = design_matrices(texts, size, length)
    linear = _with_intercept(counts)
    left, scale, _ = np.linalg.svd(linear, full_matrices=False)
    basis = left[:, scale > 1e-10 * scale[0]]

    def without_linear(x: Floats) -> Floats:
        """Projected onto the orthogonal complement of the linear model."""
        return x - basis @ (basis.T @ x)

    operator = LinearOperator(
        at_position.shape,
        dtype=np.float64,
        matvec=lambda d: without_linear(at_position @ d),
        rmatvec=lambda r: at_position.T @ without_linear(r),
    )
    residual = without_linear(targets)
    fits = []
    for ridge in ridges:
        deviation = lsqr(operator, residual, damp=np.sqrt(ridge), atol=1e-9, btol=1e-9, iter_lim=_STEPS)[0]
        coefficients = np.linalg.lstsq(linear, targets - at_position @ deviation, rcond=None)[0]
        fits.append(Additive(float(coefficients[0]), coefficients[1:], deviation.reshape(size, length), ridge))
    return fits


def _with_intercept(counts: Any) -> Floats:
    return np.hstack([np.ones((counts.shape[0], 1)), counts.toarray()])
