"""The minimum of a SLALOM fit's ridged squared error over importances s, values v eliminated (variable projection).

Given s, v is a ridge least squares solution, so only s is searched, with v eliminated from the Newton equations too.
Two parts: `approach` makes Gauss-Newton steps while the ridge follows the noise that the fit finds; `polish` makes
Newton steps under the ridge that is then fixed, until none would lower the objective by more than a relative `tol`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slalom_bench.core.types import Floats
from slalom_bench.numerics.designs import Design

LARGEST_STEP = 3.0
"""No importance changes by more than this in one step: far from the optimum, exp() makes longer steps useless."""
ROUNDING = 1e-13
"""Damping, relative to the largest curvature, that only makes up for rounding."""
COARSE = 2e-2
"""The relative decrease below which no Gauss-Newton step is made: the noise level, and with it the ridge, is known."""
CHORD = 0.1
"""A Newton matrix is kept for another step as long as each promises no more than this share of the one before."""


@dataclass(frozen=True)
class Ridge:
    """Precisions of values and importances for a noise of 1, and the noise that multiplies them."""

    value: Floats
    importance: Floats
    noise: float

    def at(self, noise: float) -> Ridge:
        return Ridge(self.value, self.importance, noise)


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
    """Half the derivative of the squared error by v, a row for each output."""
    lean: Floats
    """The same by s, summed over outputs."""
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
        if not total.min() > 0:  # a sequence whose tokens weigh nothing beside those it lacks
            raise np.linalg.LinAlgError("importances too far apart for double precision")
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
    return None if failed or not np.isfinite(factor.diagonal()).all() else factor


def _solved(factor: Floats, right: Floats) -> Floats:
    from scipy.linalg.lapack import dpotrs

    solution: Floats = dpotrs(factor, right, lower=1)[0]
    return solution


def _damped(matrix: Floats, damping: float) -> Floats:
    """The factor of matrix + damping I, with more damping where rounding left the matrix slightly indefinite."""
    for _ in range(300):
        if (factor := _factor(matrix, damping)) is not None:
            return factor
        damping *= 10
    raise np.linalg.LinAlgError("the curvature of a SLALOM fit is not a finite number")


def _scale(matrix: Floats) -> float:
    return max(float(np.abs(matrix.diagonal()).max()), np.finfo(float).tiny)


class Search:
    """The steps on s, and how many there have been."""

    def __init__(self, problem: Problem, at: Point, max_iter: int) -> None:
        self.problem, self.at, self.left = problem, at, max_iter
        self.damping: float | None = None

    def try_at(self, s: Floats, ridge: Ridge) -> Point | None:
        """The point there; None if double precision cannot hold it."""
        try:
            point = self.problem.at(s, ridge)
        except np.linalg.LinAlgError:
            return None
        return point if np.isfinite(point.objective) else None

    def step(self, matrix: Floats, step: Floats, ridge: Ridge) -> bool:
        """Go there, under another ridge perhaps, or less far if that is no better; False if nowhere is.

        Damping grows with each step that is not better and shrinks after the one that is, as it kept its promise.
        """
        at, scale, grow = self.at, _scale(matrix), 2.0
        if not step.any():
            return False
        start = at.mse + at.penalty * ridge.noise / at.ridge.noise
        while True:
            step = step * min(1.0, LARGEST_STEP / float(np.abs(step).max()))
            new = self.try_at(at.s - step, ridge)
            promised = max(float(2 * at.gradient @ step - step @ matrix @ step), np.finfo(float).tiny)
            ratio = 0.0 if new is None else (start - new.objective) / promised
            if new is not None and ratio > 1e-4:
                break
            self.damping = max(self.damping or 0.0, 1e-9 * scale) * grow
            if not self.damping <= 1e9 * scale:
                return False
            step, grow = _solved(_damped(matrix, self.damping), at.gradient), grow * 2
        self.at, self.left = new, self.left - 1
        self.damping = (self.damping or 0.0) * max(0.1, 1 - (2 * min(ratio, 1.0) - 1) ** 3)
        return True

    def approach(self, level: Callable[[float], float]) -> Floats | None:
        """Damped Gauss-Newton steps, the noise falling with the error to what `level` makes of it.

        Ends where a step would promise less than COARSE, by the last matrix, and the noise is about right: the
        curvature (U) there. None if no better step was found or none was left.
        """
        while self.left > 0:
            at = self.at
            matrix = self.problem.newton(at, exact=False)
            scale = _scale(matrix)
            self.damping = 1e-3 * scale if self.damping is None else self.damping
            factor = _damped(matrix, max(self.damping, ROUNDING * scale))
            if not self.step(matrix, _solved(factor, at.gradient), at.ridge.at(min(level(at.mse), at.ridge.noise))):
                break
            if self.left > 0 and self._settled(factor) and self._settled(_damped(matrix, ROUNDING * scale)):
                found = level(self.at.mse)
                if 0.5 <= found / self.at.ridge.noise <= 2.0:
                    return matrix.diagonal().copy()
                again = self.try_at(self.at.s, self.at.ridge.at(found))
                if again is None:
                    break
                self.at, self.left = again, self.left - 1
        return None

    def _settled(self, factor: Floats) -> bool:
        return float(self.at.gradient @ _solved(factor, self.at.gradient)) <= COARSE * self.at.objective

    def polish(self, tol: float) -> bool:
        """Newton steps under one ridge until the next promises less than `tol`; whether that was reached.

        Gauss and Newton's matrix helps out wherever the Hessian is not positive definite. As long as steps shrink fast
        with the matrix there is, no other is computed.
        """
        self.damping = 0.0
        while self.left > 0:
            matrix = self.problem.newton(self.at, exact=True)
            scale, damped = _scale(matrix), self.damping > 0
            factor = _factor(matrix, self.damping or ROUNDING * scale)
            if factor is None:
                matrix = self.problem.newton(self.at, exact=False)
                step = _solved(_damped(matrix, self.damping or ROUNDING * scale), self.at.gradient)
            else:
                step = _solved(factor, self.at.gradient)
            promise = float(self.at.gradient @ step)
            if promise <= self.problem.resolution(self.at, tol) * self.at.objective:
                if not damped:
                    return True
                self.damping, self.left = 0.0, self.left - 1  # a damped step promises too little: ask again
                continue
            if not self.step(matrix, step, self.at.ridge):
                return False
            while factor is not None and not damped and self.left > 0:
                at, before = self.at, promise
                step = _solved(factor, at.gradient)
                promise = float(at.gradient @ step)
                if promise <= self.problem.resolution(at, tol) * at.objective:
                    return True
                new = None if promise > CHORD * before else self.try_at(at.s - step, at.ridge)
                if new is None or new.objective >= at.objective:
                    break
                self.at, self.left = new, self.left - 1
        return False
