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

_INTERPOLATION_NOISE = 0.1
"""The least noise assumed, as a share of the targets' variance, where the fit could interpolate its sequences."""
_INITIAL_NOISE = 0.03
"""The noise assumed at first, as a share of the targets' variance; what the fit then estimates is less or more."""
_LEAST_FREE_SHARE = 0.3
"""With no more than this share of degrees of freedom left, the prior variance of importances is not estimated."""
_INITIAL_VARIANCE = 2.0
"""The prior variance of importances before it is estimated."""
_LARGEST_TARGET = 1e100
"""Targets from here on have no squares in double precision."""
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
        """How the fit ended, for `Explanation.diagnostics`."""
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
    """Fit SLALOM to the log-odds of sequences by ridge-regularised least squares.

    The ridge is a Gaussian prior (values round the mean target, importances round 0) in units of the noise, the fit's
    own error per degree of freedom: it settles what noisy data leave open and vanishes where the model is a SLALOM.

    Args:
        counts: how often each of U tokens is in each of m sequences (m x U).
        targets: log-odds (m), or K outputs that share one s (m x K).
        weights: of the sequences; they sum to the number of sequences they stand for.
        anchor: whether to add a token that is present in every sequence, with the prior of the others.
        prior_value: prior variance of values; unless given, what explains the targets' variance at s = 0.
        prior_importance: that of importances; unless given, of largest marginal likelihood where the data suffice.
        tol: the relative decrease of the objective below which the fit has converged.
        max_iter: how many steps it may make.

    Returns:
        The fit, with s centred over the U tokens (not over positions).

    >>> fit = fit_slalom([[1, 0], [0, 1], [1, 1], [2, 1]] * 5, [1.0, -1.0, 0.5, 5 / 7] * 5)
    >>> [round(float(v), 4) for v in fit.value], round(float(fit.importance[0] - fit.importance[1]), 4)
    ([1.0, -1.0], 1.0986)
    """
    design = counts if isinstance(counts, Design) else Design.of_counts(counts)
    outputs, share, size = _checked(design, targets, weights, anchor)
    tokens = design.tokens
    mean = outputs @ share
    centred = outputs - mean[:, None]
    noise = _Noise.of(outputs, centred, share, tokens, size)
    if prior_value is None:
        prior_value = noise.variance / max(design.total_share_variance(share), np.finfo(float).tiny)
    precision = np.full(tokens + anchor, 1 / size)
    problem = Problem(design.anchored() if anchor else design, centred, share)
    precision_v = precision / max(prior_value, noise.floor)
    search, converged = _minimise(problem, noise, precision_v, precision, prior_importance, tol, max_iter)
    point = search.point
    s = point.s - point.s[:tokens].mean()
    value = point.v + mean[:, None]
    value = value.T if np.ndim(targets) == 2 else value[0]
    anchored = (value[-1] if np.ndim(targets) == 2 else float(value[-1]), float(s[-1])) if anchor else None
    return SlalomFit(value[:tokens], s[:tokens], anchored, point.mse, max_iter - search.steps_left, converged)


@dataclass(frozen=True)
class _Noise:
    """The noise variance of one output, as estimated from a fit's error."""

    outputs: int
    tokens: int
    variance: float
    """Of the targets, mean over outputs."""
    floor: float
    """The least noise: rounding, or more where the fit could interpolate."""
    free: float
    """The share of the sequences left after one for each parameter."""

    @classmethod
    def of(cls, outputs: Floats, centred: Floats, share: Floats, tokens: int, size: float) -> _Noise:
        """From the targets (K x m) before any fit, weighted by `share`; `size` sequences of `tokens` tokens."""
        variance = float((centred**2 @ share).mean())
        floor = 1e-16 * float((outputs**2 @ share).mean()) + 1e-30
        free = 1 - (1 + 1 / len(outputs)) * tokens / size
        if free <= 0:  # as many parameters as sequences: a small error says nothing about the noise
            floor = max(floor, _INTERPOLATION_NOISE * variance)
        return cls(len(outputs), tokens, variance, floor, free)

    def level(self, mse: float) -> float:
        """The noise of one output that goes with an error summed over outputs."""
        return max(mse / self.outputs / max(self.free, 0.1), self.floor)


def _minimise(
    problem: Problem,
    noise: _Noise,
    precision_v: Floats,
    precision: Floats,
    prior_importance: float | None,
    tol: float,
    max_iter: int,
) -> tuple[Search, bool]:
    """The search at its end, and whether it converged: noise and prior estimated first, then the fit under both.

    `precision_v` is that of the values, `precision` that of importances for a prior variance of 1.
    """
    variance = _INITIAL_VARIANCE if prior_importance is None else prior_importance
    ridge = Ridge(precision_v, precision / variance, max(_INITIAL_NOISE * noise.variance, noise.floor))
    search = Search(problem, problem.evaluate(np.zeros(len(precision)), ridge), max_iter)
    curvature = search.gauss_newton(noise.level)
    if curvature is not None and prior_importance is None and noise.free > _LEAST_FREE_SHARE:
        tokens = slice(noise.tokens)
        ridge_s = search.point.ridge.noise * precision[tokens] / variance
        variance = empirical_bayes_variance(search.point.s[tokens], ridge_s, curvature[tokens], variance)
    ridge = Ridge(precision_v, precision / variance, noise.level(search.point.mse))
    search.point = problem.evaluate(search.point.s, ridge)
    return search, search.newton(tol)


def empirical_bayes_variance(s: Floats, ridge: Floats, curvature: Floats, prior: float) -> float:
    """The prior variance of importances of largest marginal likelihood, out of `VARIANCES`.

    Importances are taken one by one (the curvature's diagonal). `curvature` less the `ridge` of the variance `prior` is
    the data's precision; unregularised, an importance would be s (1 + ridge / data) with the sampling variance
    prior * ridge / data, to which the variance sought adds.

    Args:
        s: the fitted importances (U).
        ridge: the ridge they were fitted under (U).
        curvature: the objective's second derivatives, ridge included (U).
        prior: the prior variance that `ridge` stands for.
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
    if not (outputs.size and (np.abs(outputs) < _LARGEST_TARGET).all() and np.isfinite(share).all()):
        raise InvalidInput(
            f"targets and weights of a SLALOM fit must be finite numbers, targets below {_LARGEST_TARGET:g}"
        )
    if share.min() < 0 or not share.sum() > 0:
        raise InvalidInput("weights of a SLALOM fit must not be negative, nor all of them 0")
    columns = np.ascontiguousarray(outputs.reshape(design.length, -1).T)
    return columns, share / share.sum(), float(share.sum())
