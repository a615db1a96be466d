"""What additive explainers share: features by position or by token, least squares, the smallest useful budget."""

from __future__ import annotations

import numpy as np

from slalom_bench.core.types import Floats, Ints, Sample
from slalom_bench.errors import InvalidInput

TIES = ("position", "token")


def features(sample: Sample, tie: str) -> Ints:
    """The feature of each position, numbered from 0: the position itself, or one for all positions of a token id."""
    if tie == "position":
        return np.arange(len(sample))
    if tie == "token":
        return np.unique(sample.ids, return_inverse=True)[1].astype(np.int64)
    raise InvalidInput(f"unknown tie {tie!r}; one of {', '.join(TIES)}")


def shares(weights: Floats, feature: Ints) -> Floats:
    """The effect of each position alone, where a feature's effect is that of removing all its positions together."""
    return (weights / np.bincount(feature))[feature]


def least_squares(design: Floats, outputs: Floats, weights: Floats | None = None) -> tuple[Floats, int]:
    """Weighted least squares without intercept by the normal equations, and the design's rank.

    Where the rows do not determine the coefficients, those of least norm: what was never varied gets 0.
    """
    weighted = design if weights is None else design * weights[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ design)
    seen = values > 1e-10 * max(values[-1], np.finfo(np.float64).tiny)
    basis = vectors[:, seen]
    return basis @ ((basis.T @ (weighted.T @ outputs)) / values[seen]), int(seen.sum())


def require_budget(explainer: str, budget: int, minimum: int, why: str) -> None:
    if budget < minimum:
        raise InvalidInput(f"{explainer} needs a budget of at least {minimum} queries ({why}), not {budget}")
