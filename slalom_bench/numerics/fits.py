"""SLALOM fits: minimise the true mean squared prediction error over values and importances, to convergence.

F_i = sum_j c_ij w_j v_j / sum_j c_ij w_j with w = exp(s), for token counts c (see `designs`). Given s, v is a ridge
least squares solution, so only s is searched (variable projection), with v eliminated from the Newton equations. Two
parts: `approach` makes Gauss-Newton steps while the ridge follows the noise that the fit finds; `polish` makes Newton
steps under the ridge that is then fixed, until none would lower the objective by more than a relative `tol`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.designs import Design
from slalom_bench.types import Floats

LARGEST_STEP = 3.0
"""No importance changes by more than this in one step: far from the optimum, exp() makes longer steps useless."""
INTERPOLATING = 0.1
"""The least noise assumed, as a share of the targets' variance, where the fit could interpolate its sequences."""
ANCHOR = 1e-4
"""The anchor's prior precision relative to a token's."""
ROUNDING = 1e-13
"""Damping, relative to the largest curvature, that only makes up for rounding."""
COARSE = 2e-2
"""The relative decrease below which no Gauss-Newton step is made: the noise level, and with it the ridge, is known."""
CHORD = 0.1
"""A Newton matrix is kept for another step as long as each promises no more than this share of the one before."""
START = 0.03
"""The noise assumed at first, as a share of the targets' variance; what the fit then finds is less or more."""
TELLING = 0.3
"""With no more than this share of the sequences left over after one for each parameter, the prior stays as it is."""
WIDE = 2.0
"""The prior variance of importances before the data have said what is likely."""
VARIANCES = np.geomspace(0.3, 100, 26)
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


@dataclass(frozen=True)
class Ridge:
    """Precisions of values and importances for a noise of 1, and the noise that multiplies them."""

    value: Floats
    importance: Floats
    noise: float


@dataclass(frozen=True)
class Point:
    """Everything known at one s under one ridge. `v` and `predicted` have a row for each output."""

    s: Floats
    ridge: Ridge
    v: Floats
    predicted: Floats
    share: Floats
    """Weight over squared total of each sequence."""
    outer: Floats
    """w w'."""
    plain: Floats
    """The values' part of the Gauss-Newton matrix, without ridge."""
    factor: Floats
    """Its Cholesky factor, with ridge."""
    slope: Floats
    lean: Floats
    gradient: Floats
    """Half the derivative of the objective by s."""
    mse: float
    penalty: float

    @property
    def objective(self) -> float:
        return self.mse + self.penalty


class Problem:
    """The objective: weighted mean squared error plus ridge, as a function of s alone (v eliminated)."""

    def __init__(self, design: Design, targets: Floats, weights: Floats) -> None:
        """`targets` (K x m) have mean 0, `weights` (m) sum to 1."""
        self.design, self.targets, self.weights = design, targets, weights

    def at(self, s: Floats, ridge: Ridge) -> Point:
        design = self.design
        w = np.exp(s - s.max())
        total = design.times(w)
        inverse = self.weights / total
        share, outer = inverse / total, np.multiply.outer(w, w)
        plain = design.gram(share)
        plain *= outer
        ridge_v, ridge_s = ridge.noise * ridge.value, ridge.noise * ridge.importance
        factor = _factor(plain, ridge_v + 1e-14 * plain.diagonal().max())
        if factor is None:
            raise np.linalg.LinAlgError("the Gram matrix of a SLALOM fit is not positive definite")
        v = np.array([_solved(factor, w * design.adjoint(inverse * y)) for y in self.targets])
        predicted = np.array([design.times(w * row) for row in v]) / total
        error = predicted - self.targets
        weighted = error * inverse
        slope = np.array([w * design.adjoint(row) for row in weighted])
        lean = (v * slope - [w * design.adjoint(row) for row in weighted * predicted]).sum(axis=0)
        mse = float((error**2 @ self.weights).sum())
        penalty = float((v**2 @ ridge_v).sum() + ridge_s @ s**2)
        gradient = lean + ridge_s * s
        return Point(s, ridge, v, predicted, share, outer, plain, factor, slope, lean, gradient, mse, penalty)

    def resolution(self, at: Point, tol: float) -> float:
        """The relative decrease worth a step: `tol`, or what rounding lets the objective resolve if that is more."""
        residual = max(np.sqrt(at.mse), np.finfo(float).tiny)
        return tol + 1e3 * np.finfo(float).eps * float(np.abs(self.targets).max()) / float(residual)

    def newton(self, at: Point, *, exact: bool) -> Floats:
        """Half the Hessian of the objective in s, v eliminated; or Gauss and Newton's matrix.

        The latter leaves out what is proportional to the errors r: sum of r_i times the second derivatives of F_i.
        """
        from scipy.linalg.lapack import dtrtrs

        error = at.predicted - self.targets
        bend = at.predicted * (at.predicted + 2 * error if exact else at.predicted)
        matrix = self.design.gram(at.share * bend.sum(axis=0))
        matrix *= at.outer
        _diagonal(matrix)[:] += at.ridge.noise * at.ridge.importance + (at.lean if exact else 0.0)
        for v, predicted, residual, slope in zip(at.v, at.predicted, error, at.slope, strict=True):
            mixed = self.design.gram(at.share * predicted)
            mixed *= at.outer
            half = at.plain * v
            half -= mixed
            matrix += half * v[:, None]
            matrix -= mixed * v
            if exact:
                bent = self.design.gram(at.share * residual)
                bent *= at.outer
                half -= bent
                matrix -= bent * (v + v[:, None])
                _diagonal(half)[:] += slope
            root = dtrtrs(at.factor, half, lower=1)[0]
            matrix -= root.T @ root
        return matrix


def _diagonal(matrix: Floats) -> Floats:
    """A view that can be written to."""
    return matrix.reshape(-1)[:: len(matrix) + 1]


def _factor(matrix: Floats, more: Floats | float) -> Floats | None:
    """The lower Cholesky factor with `more` on the diagonal; None if that is not positive definite."""
    from scipy.linalg.lapack import dpotrf

    whole = matrix.copy()
    _diagonal(whole)[:] += more
    factor, failed = dpotrf(whole.T, lower=1, clean=0, overwrite_a=1)
    return None if failed else factor


def _solved(factor: Floats, right: Floats) -> Floats:
    from scipy.linalg.lapack import dpotrs

    solution: Floats = dpotrs(factor, right, lower=1)[0]
    return solution


def _damped(matrix: Floats, damping: float, right: Floats) -> Floats:
    """(matrix + damping I)^-1 right, with more damping where rounding left the matrix slightly indefinite."""
    while (factor := _factor(matrix, damping)) is None:
        damping *= 10
    return _solved(factor, right)


def _scale(matrix: Floats) -> float:
    return max(float(matrix.diagonal().max()), np.finfo(float).tiny)


class Search:
    """The steps on s, and how many there have been."""

    def __init__(self, problem: Problem, at: Point, max_iter: int) -> None:
        self.problem, self.at, self.left = problem, at, max_iter
        self.damping: float | None = None

    def step(self, matrix: Floats, step: Floats, ridge: Ridge) -> float:
        """Go there, under another ridge perhaps, or less far if that is no better; how well the step kept its promise.

        0 if no step is better. Damping grows with each that is not and shrinks after each that is.
        """
        at, scale, grow = self.at, _scale(matrix), 2.0
        start = at.mse + at.penalty * ridge.noise / at.ridge.noise
        while True:
            step = step * min(1.0, LARGEST_STEP / float(np.abs(step).max()))
            new = self.problem.at(at.s - step, ridge)
            ratio = (start - new.objective) / float(2 * at.gradient @ step - step @ matrix @ step)
            if ratio > 1e-4:
                break
            self.damping = max(self.damping or 0.0, 1e-9 * scale) * grow
            if self.damping > 1e9 * scale:
                return 0.0
            step, grow = _damped(matrix, self.damping, at.gradient), grow * 2
        self.at, self.left = new, self.left - 1
        self.damping = (self.damping or 0.0) * max(0.1, 1 - (2 * min(ratio, 1.0) - 1) ** 3)
        return ratio

    def approach(self, level: Any) -> Floats | None:
        """Damped Gauss-Newton steps, the noise falling with the error to what `level` makes of it.

        Ends where a step promises less than COARSE and the noise is about right: the curvature there (U). None if no
        better step was found or none was left.
        """
        while self.left:
            at = self.at
            matrix = self.problem.newton(at, exact=False)
            scale = _scale(matrix)
            self.damping = 1e-3 * scale if self.damping is None else self.damping
            found = level(at.mse)
            ridge = Ridge(at.ridge.value, at.ridge.importance, min(found, at.ridge.noise))
            step = _damped(matrix, max(self.damping, ROUNDING * scale), at.gradient)
            if float(at.gradient @ step) <= COARSE * at.objective:
                free = _damped(matrix, ROUNDING * scale, at.gradient)
                if float(at.gradient @ free) <= COARSE * at.objective:
                    if 0.5 <= found / at.ridge.noise <= 2.0:
                        return matrix.diagonal().copy()
                    self.at = self.problem.at(at.s, Ridge(at.ridge.value, at.ridge.importance, found))
                    self.left -= 1
                    continue
            if not self.step(matrix, step, ridge):
                break
        return None

    def polish(self, tol: float) -> bool:
        """Newton steps under one ridge until the next promises less than `tol`; whether that was reached.

        Gauss and Newton's matrix helps out wherever the Hessian is not positive definite. As long as steps shrink fast
        with the matrix there is, no other is computed.
        """
        self.damping = 0.0
        while self.left:
            matrix = self.problem.newton(self.at, exact=True)
            scale = _scale(matrix)
            factor = _factor(matrix, self.damping or ROUNDING * scale)
            if factor is None:
                matrix = self.problem.newton(self.at, exact=False)
                step = _damped(matrix, self.damping or ROUNDING * scale, self.at.gradient)
            else:
                step = _solved(factor, self.at.gradient)
            promise = float(self.at.gradient @ step)
            if promise <= self.problem.resolution(self.at, tol) * self.at.objective:
                return True
            if not self.step(matrix, step, self.at.ridge):
                return False
            while factor is not None and self.left:
                at, before = self.at, promise
                step = _solved(factor, at.gradient)
                promise = float(at.gradient @ step)
                if promise <= self.problem.resolution(at, tol) * at.objective:
                    return True
                if promise > CHORD * before:
                    break
                new = self.problem.at(at.s - step, at.ridge)
                if new.objective >= at.objective:
                    break
                self.at, self.left = new, self.left - 1
        return False


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
    spread = float((centred**2 @ share).sum())
    rounding = 1e-16 * float((outputs**2 @ share).sum()) + 1e-30
    free = 1 - 2 * tokens / size
    if free <= 0:  # as many parameters as sequences: a small error says nothing about the noise
        rounding = max(rounding, INTERPOLATING * spread)
    if prior_value is None:
        prior_value = spread / len(outputs) / max(design.spread_of_shares(share), np.finfo(float).tiny)
    tightness = np.where(np.arange(tokens + anchor) < tokens, 1.0, ANCHOR) / size
    ridge_v, wide = tightness / max(prior_value, rounding), prior_importance or WIDE

    def level(mse: float) -> float:
        return max(mse / max(free, 0.1), rounding)

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
    if not (np.isfinite(outputs).all() and np.isfinite(share).all()):
        raise InvalidInput("targets and weights of a SLALOM fit must be finite numbers")
    columns = np.ascontiguousarray(outputs.reshape(design.length, -1).T)
    return columns, share / share.sum(), float(share.sum())
