"""SLALOM fits: minimise the true mean squared prediction error over values and importances, to convergence.

F_i = sum_j c_ij w_j v_j / sum_j c_ij w_j with w = exp(s), for token counts c (`designs`). Here is what is minimised,
the ridge above all; `search` minimises it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slalom_bench.core.types import Floats
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.designs import Design
from slalom_bench.numerics.search import Problem, Ridge, Search

INTERPOLATING = 0.1
"""The least noise assumed, as a share of the targets' variance, where the fit could interpolate its sequences."""
ANCHOR = 1e-4
"""The anchor's prior precision relative to a token's."""
START = 0.03
"""The noise assumed at first, as a share of the targets' variance; what the fit then finds is less or more."""
TELLING = 0.3
"""With no more than this share of the sequences left over after one for each parameter, the prior stays as it is."""
WIDE = 2.0
"""The prior variance of importances before the data have said what is likely."""
LARGEST = 1e100
"""Targets from here on have no squares to speak of."""
VARIANCES = np.geomspace(0.15, 100, 28)
"""The prior variances of importances that are compared: none so small that the training error would feel it."""


@dataclass(frozen=True)
class SlalomFit:
    """Fitted values (U, or U x K for K outputs), importances centred over the U tokens, and how the fit ended."""

    value: Floats
    importance: Floats
    anchor: tuple[Any, float] | None
    """(v_0, s_0) of the always-present token, s_0 on the scale of `importance`."""
    mse: float
    iterations: int
    converged: bool

    def diagnostics(self) -> dict[str, Any]:
        return {"mse": self.mse, "iterations": self.iterations, "converged": self.converged}


def fit_slalom(
    counts: ArrayLike | Design,
    targets: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    anchor: bool = False,
    prior_value: float | None = None,
    prior_importance: float | None = None,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> SlalomFit:
    """Fit SLALOM to log-odds (m, or m x K outputs that share one s) of sequences with these token counts (m x U).

    The ridge is a prior: values vary round the mean target with variance `prior_value` (unless given, what explains
    the targets' variance at s = 0), importances round 0 with `prior_importance` (unless given, the likeliest, where
    there are sequences enough to tell). It weighs against the noise, the fit's own error per degree of freedom: it
    settles what noisy data leave open and vanishes where the model is a SLALOM.

    `weights` sum to the number of sequences they stand for. `anchor` adds a token that is present in every sequence,
    with a prior a hundred times as wide. s is centred over the U tokens (not over positions).
    """
    design = counts if isinstance(counts, Design) else Design.of_counts(counts)
    outputs, share, size = _checked(design, targets, weights, anchor)
    tokens = design.tokens
    mean = outputs @ share
    centred = outputs - mean[:, None]
    spread = float((centred**2 @ share).mean())
    rounding = 1e-16 * float((outputs**2 @ share).mean()) + 1e-30
    free = 1 - (1 + 1 / len(outputs)) * tokens / size
    if free <= 0:  # as many parameters as sequences: a small error says nothing about the noise
        rounding = max(rounding, INTERPOLATING * spread)
    if prior_value is None:
        prior_value = spread / max(design.spread_of_shares(share), np.finfo(float).tiny)
    tightness = np.where(np.arange(tokens + anchor) < tokens, 1.0, ANCHOR) / size
    ridge_v = tightness / max(prior_value, rounding)
    wide = WIDE if prior_importance is None else prior_importance

    def level(mse: float) -> float:
        """The noise of one output that goes with an error summed over outputs."""
        return max(mse / len(outputs) / max(free, 0.1), rounding)

    problem = Problem(design.anchored() if anchor else design, centred, share)
    ridge = Ridge(ridge_v, tightness / wide, max(START * spread, rounding))
    search = Search(problem, problem.at(np.zeros(tokens + anchor), ridge), max_iter)
    curvature = search.approach(level)
    if curvature is not None and prior_importance is None and free > TELLING:
        ridge_s = search.at.ridge.noise * tightness[:tokens] / wide
        wide = likely_variance(search.at.s[:tokens], ridge_s, curvature[:tokens], wide)
    ridge = Ridge(ridge_v, tightness / wide, level(search.at.mse))
    search.at = problem.at(search.at.s, ridge)
    converged = search.polish(tol)
    at = search.at
    s = at.s - at.s[:tokens].mean()
    value = at.v + mean[:, None]
    value = value.T if np.ndim(targets) == 2 else value[0]
    anchored = (value[-1] if np.ndim(targets) == 2 else float(value[-1]), float(s[-1])) if anchor else None
    return SlalomFit(value[:tokens], s[:tokens], anchored, at.mse, max_iter - search.left, converged)


def likely_variance(s: Floats, ridge: Floats, curvature: Floats, prior: float) -> float:
    """The prior variance of importances under which what the data say of each is likeliest.

    Taken one by one: `curvature` less the `ridge` of the `prior` is what the data add. They would put an importance at
    s (1 + ridge / data), give or take a variance of prior * ridge / data, to which the variance sought adds.
    """
    ratio = ridge / np.maximum(curvature - ridge, 1e-12 * curvature.max())
    variance = VARIANCES[:, None] + prior * ratio
    return float(VARIANCES[(np.log(variance) + (s * (1 + ratio)) ** 2 / variance).sum(axis=1).argmin()])


def _checked(
    design: Design, targets: ArrayLike, weights: ArrayLike | None, anchor: bool
) -> tuple[Floats, Floats, float]:
    """Targets (K x m), weights summing to 1 and their sum, in float64; or an error that says what is wrong."""
    outputs = np.asarray(targets, np.float64)
    if outputs.ndim not in (1, 2) or len(outputs) != design.length:
        raise InvalidInput(f"{design.length} sequences for targets of shape {outputs.shape}; expected one row each")
    if not anchor and not design.times(np.ones(design.tokens)).all():
        raise InvalidInput("SLALOM without an anchor is undefined (0/0) for an empty sequence: drop it or fit one")
    share = np.ones(design.length) if weights is None else np.asarray(weights, np.float64)
    if not (outputs.size and (np.abs(outputs) < LARGEST).all() and np.isfinite(share).all()):
        raise InvalidInput(f"targets and weights of a SLALOM fit must be finite numbers, targets below {LARGEST:g}")
    if share.min() < 0 or not share.sum() > 0:
        raise InvalidInput("weights of a SLALOM fit must not be negative, nor all of them 0")
    columns = np.ascontiguousarray(outputs.reshape(design.length, -1).T)
    return columns, share / share.sum(), float(share.sum())
