"""The ridge of a regression by marginal likelihood."""

from __future__ import annotations

import numpy as np

from slalom_bench.core.types import Floats

PILOT = 300
"""Rows on which ridges are chosen; the cost grows with their cube."""


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
