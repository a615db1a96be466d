"""Fitting what SLALOM leaves over: deletion effects and position shifts of `ShiftedSlalom`, by ridge regression.

change(R) = (-sum over removed i of effect_i + sum over kept j and the anchor of u_j . (p_q - p_j)) / (1 - c |R| / n)

with q the position that j is read at, u_j its given carriers, and effects, places p and curvature c to be fitted. All
is linear but c, which is taken from a grid; variances are those of largest marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom_bench.core.types import Bools, Floats
from slalom_bench.surrogates.shifted_slalom import removed_shares, shift_features

PILOT = 300
"""Rows on which ridges are chosen; the cost grows with their cube."""
_RATIOS = (0.1, 0.3, 1.0, 3.0)
"""Ratios of the prior standard deviations of what a move and what a removal does, each of a whole row."""
_CURVATURES = (0.0, 0.3, 0.6, 0.8)
_LEAST_RIDGE = 1e-3
"""The least ridge, as a share of the features' mean square, where the fit could interpolate its rows."""
_POWERS = np.arange(0.0, 2.01, 0.25)
"""How the variance of what is left may grow with the number of removals."""


@dataclass(frozen=True)
class Correction:
    """What is fitted: effects (n), places (n+1 x r), curvature, and (variance, power) of the error at k removals.

    `errors` are those of rows left out one by one, observed less predicted (m).
    """

    effects: Floats
    places: Floats
    curvature: float
    spread: tuple[float, float]
    errors: Floats


def fit_correction(removed: Bools, change: Floats, carriers: Floats) -> Correction:
    """Fit effects and places to the change of log-odds in each row (m), 0 where nothing is removed.

    The noise of a row is taken as proportional to its number of removals. `spread` is fitted to the errors of rows left
    out one by one.

    Args:
        removed: True where a position is removed (m x n), a removal at least in each row.
        change: F(without R) - F(full), or what another model leaves of it (m).
        carriers: u of each position and last the anchor (n+1 x r); r = 0 where nothing moves.
    """
    n, r = removed.shape[1], carriers.shape[1]
    if not len(removed) or not change.any():
        return Correction(np.zeros(n), np.zeros((n + 1, r)), 0.0, (0.0, 0.0), np.zeros(len(change)))
    count = removed.sum(axis=1).astype(np.float64)
    deviation = np.sqrt(count)
    gone = removed / deviation[:, None]
    moved = shift_features(removed, carriers) / deviation[:, None]
    level = np.sqrt(np.sum(gone**2) / max(np.sum(moved**2), 1e-300)) if r else 0.0
    target = change / deviation

    def tried(curvature: float, ratio: float) -> tuple[float, float, float]:
        """Cost on the first rows, and what it is the cost of."""
        scale = 1 / (1 - curvature * removed_shares(removed[:PILOT]))
        kernel = gone[:PILOT] @ gone[:PILOT].T + (ratio * level) ** 2 * (moved[:PILOT] @ moved[:PILOT].T)
        return choose_ridge(kernel * np.multiply.outer(scale, scale), target[:PILOT])[2], curvature, ratio

    _, _, ratio = min(tried(_CURVATURES[1], ratio) for ratio in (_RATIOS if r else (0.0,)))
    _, curvature, _ = min(tried(curvature, ratio) for curvature in _CURVATURES)
    scale = 1 / (1 - curvature * removed_shares(removed))
    features = np.hstack([-gone, ratio * level * moved]) * scale[:, None]
    weights, errors = _ridge(features, target)
    places = ratio * level * weights[n:].reshape(r, n + 1).T
    errors *= deviation
    return Correction(weights[:n], places, curvature, _spread(errors, count), errors)


def _ridge(features: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Coefficients under the ridge of largest marginal likelihood, and the errors of rows left out one by one."""
    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    rows, columns = features.shape
    pilot = features[: 3 * PILOT]
    ridge = choose_ridge(pilot @ pilot.T, target[: 3 * PILOT])[0]
    if columns >= len(pilot):
        ridge = max(ridge, _LEAST_RIDGE * float(np.sum(pilot**2)) / len(pilot))
    if rows <= columns:
        kernel = features @ features.T
        kernel[np.diag_indices(rows)] += ridge
        factor = cho_factor(kernel, check_finite=False)
        dual = cho_solve(factor, target, check_finite=False)
        inverse = cho_solve(factor, np.eye(rows), check_finite=False)
        return features.T @ dual, dual / np.diag(inverse)
    gram = features.T @ features
    gram[np.diag_indices(columns)] += ridge
    lower = np.linalg.cholesky(gram)
    half = solve_triangular(lower, features.T, lower=True, check_finite=False)
    weights = solve_triangular(lower, half @ target, lower=True, trans="T", check_finite=False)
    return weights, (target - features @ weights) / (1 - np.sum(half**2, axis=0))


def _spread(errors: Floats, count: Floats) -> tuple[float, float]:
    """(variance, power) of largest normal likelihood: an error at k removals has variance * k^power."""
    variances = np.array([np.mean(errors**2 / count**power) for power in _POWERS])
    costs = np.log(np.maximum(variances, 1e-300)) + _POWERS * np.mean(np.log(count))
    best = int(np.argmin(costs))
    return float(variances[best]), float(_POWERS[best])


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
