"""What additive explainers share: least squares, and the weight of one position out of several tied ones."""

from __future__ import annotations

import numpy as np

from slalom_bench.core.types import Floats
from slalom_bench.numerics.features import Features


def position_weights(weights: Floats, features: Features) -> Floats:
    """A linear surrogate's weight of each position, where a feature's weight is that of all its positions together.

    >>> position_weights(np.array([3.0, 1.0]), Features(np.array([5, 7]), np.array([0, 1, 0])))
    array([1.5, 1. , 1.5])
    """
    return (weights / np.bincount(features.of_position))[features.of_position]


def least_squares(design: Floats, outputs: Floats, weights: Floats | None = None) -> tuple[Floats, int]:
    """Weighted least squares without intercept by the normal equations, and the design's rank.

    Where the rows do not determine the coefficients, those of least norm: what was never varied gets 0.

    Args:
        design: regressors (m x d).
        outputs: what to predict (m).
        weights: of the rows (m); unless given, all 1.

    Returns:
        Coefficients (d) and rank.

    >>> least_squares(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, 3.0]))
    (array([2., 0.]), 1)
    """
    weighted = design if weights is None else design * weights[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ design)
    determined = values > 1e-10 * max(values[-1], np.finfo(np.float64).tiny)
    basis = vectors[:, determined]
    return basis @ ((basis.T @ (weighted.T @ outputs)) / values[determined]), int(determined.sum())
