"""The minimum of a SLALOM fit's ridged squared error over importances s, values v eliminated (variable projection).

Given s, v is a ridge least squares solution, so only s is searched, with v eliminated from the Newton equations too.
Two phases: `Search.gauss_newton` steps while the ridge follows the noise level that the fit estimates; `Search.newton`
then steps under the fixed ridge until none would lower the objective by more than a relative `tol`.

Gradients and Hessians here are half those of the objective throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slalom_bench.core.types import Floats
from slalom_bench.numerics.designs import Design

_LARGEST_STEP = 3.0
"""No importance changes by more than this in one step: far from the optimum, exp() makes longer steps useless."""
_ROUNDING = 1e-13
"""Damping, relative to the largest curvature, that only makes up for rounding."""
_COARSE = 2e-2
"""The relative decrease below which no Gauss-Newton step is made: the noise level, and with it the ridge, is known."""
_CHORD = 0.1
"""The Newton matrix is kept for another step (chord method) as long as the decrement falls to this share each time."""


@dataclass(frozen=True)
class Ridge:
    """Prior precisions of values (U) and importances (U) in units of the noise, and the noise variance.

    The penalty is noise * (value @ v**2 + importance @ s**2).
    """

    value: Floats
    importance: Floats
    noise: float

    def with_noise(self, noise: float) -> Ridge:
        """The same precisions under another noise variance."""
        return Ridge(self.value, self.importance, noise)


@dataclass(frozen=True)
class Point:
    """The objective at one s under one ridge, with its derivatives; matrices and vectors have a row for each output."""

    s: Floats
    ridge: Ridge
    v: Floats
    """The minimising values (K x U)."""
    predicted: Floats
    """F of every sequence (K x m)."""
    row_weights: Floats
    """The weight of each sequence over its squared total sum_j c_ij w_j (m)."""
    outer: Floats
    """w w' (U x U)."""
    gram_v: Floats
    """The Gauss-Newton matrix of v without ridge: A' diag(weights) A with A = dF/dv (U x U)."""
    cholesky_v: Floats
    """The Cholesky factor of `gram_v` with ridge."""
    mse_gradient_v: Floats
    """Gradient of the squared error in v (K x U)."""
    mse_gradient_s: Floats
    """Gradient of the squared error in s, summed over outputs (U)."""
    gradient: Floats
    """Gradient of the objective in s (U)."""
    mse: float
    penalty: float

    @property
    def objective(self) -> float:
        """Squared error plus ridge penalty."""
        return self.mse + self.penalty


class Problem:
    """The objective: weighted mean squared error plus ridge, as a function of s alone (v eliminated).

    Args:
        design: token counts (m x U).
        targets: log-odds (K x m), each output with weighted mean 0.
        weights: of the sequences, summing to 1 (m).
    """

    def __init__(self, design: Design, targets: Floats, weights: Floats) -> None:
        self.design, self.targets, self.weights = design, targets, weights

    def evaluate(self, s: Floats, ridge: Ridge) -> Point:
        """The objective and its derivatives at s; LinAlgError where double precision cannot hold them."""
        design = self.design
        w = np.exp(s - s.max())
        total = design.times(w)
        if not total.min() > 0:  # a sequence whose tokens weigh nothing beside those it lacks
            raise np.linalg.LinAlgError("importances too far apart for double precision")
        inverse = self.weights / total
        row_weights, outer = inverse / total, np.multiply.outer(w, w)
        gram_v = design.gram(row_weights)
        gram_v *= outer
        ridge_v, ridge_s = ridge.noise * ridge.value, ridge.noise * ridge.importance
        cholesky_v = _cholesky(gram_v, ridge_v + 1e-14 * gram_v.diagonal().max())
        if cholesky_v is None:
            raise np.linalg.LinAlgError("the Gram matrix of a SLALOM fit is not positive definite")
        v = np.array([_solve(cholesky_v, w * design.adjoint(inverse * y)) for y in self.targets])
        predicted = np.array([design.times(w * row) for row in v]) / total
        error = predicted - self.targets
        weighted = error * inverse
        gradient_v = np.array([w * design.adjoint(row) for row in weighted])
        gradient_s = (v * gradient_v - [w * design.adjoint(row) for row in weighted * predicted]).sum(axis=0)
        return Point(
            s=s,
            ridge=ridge,
            v=v,
            predicted=predicted,
            row_weights=row_weights,
            outer=outer,
            gram_v=gram_v,
            cholesky_v=cholesky_v,
            mse_gradient_v=gradient_v,
            mse_gradient_s=gradient_s,
            gradient=gradient_s + ridge_s * s,
            mse=float((error**2 @ self.weights).sum()),
            penalty=float((v**2 @ ridge_v).sum() + ridge_s @ s**2),
        )

    def resolution(self, point: Point, tol: float) -> float:
        """The relative decrease worth a step: `tol`, or what rounding lets the objective resolve if that is more."""
        residual = max(np.sqrt(point.mse), np.finfo(float).tiny)
        return tol + 1e3 * np.finfo(float).eps * float(np.abs(self.targets).max()) / float(residual)

    def hessian(self, point: Point, *, exact: bool) -> Floats:
        """The Hessian of the objective in s, v eliminated (Schur complement); or, not `exact`, Gauss and Newton's.

        The latter leaves out what is proportional to the errors r: sum of r_i times the second derivatives of F_i.
        """
        from scipy.linalg.lapack import dtrtrs

        error = point.predicted - self.targets
        curvature = point.predicted * (point.predicted + 2 * error if exact else point.predicted)
        matrix = self.design.gram(point.row_weights * curvature.sum(axis=0))
        matrix *= point.outer
        _diagonal(matrix)[:] += point.ridge.noise * point.ridge.importance + (point.mse_gradient_s if exact else 0.0)
        for v, predicted, residual, gradient_v in zip(
            point.v, point.predicted, error, point.mse_gradient_v, strict=True
        ):
            predicted_gram = self.design.gram(point.row_weights * predicted)
            predicted_gram *= point.outer
            hessian_vs = point.gram_v * v  # mixed second derivatives in v (rows) and s (columns)
            hessian_vs -= predicted_gram
            matrix += hessian_vs * v[:, None]
            matrix -= predicted_gram * v
            if exact:
                residual_gram = self.design.gram(point.row_weights * residual)
                residual_gram *= point.outer
                hessian_vs -= residual_gram
                matrix -= residual_gram * (v + v[:, None])
                _diagonal(hessian_vs)[:] += gradient_v
            root = dtrtrs(point.cholesky_v, hessian_vs, lower=1)[0]
            matrix -= root.T @ root
        return matrix


def _diagonal(matrix: Floats) -> Floats:
    """A view that can be written to."""
    return matrix.reshape(-1)[:: len(matrix) + 1]


def _cholesky(matrix: Floats, added: Floats | float) -> Floats | None:
    """The lower Cholesky factor with `added` on the diagonal; None if that is not positive definite."""
    from scipy.linalg.lapack import dpotrf

    regularised = matrix.copy()
    _diagonal(regularised)[:] += added
    factor, failed = dpotrf(regularised.T, lower=1, clean=0, overwrite_a=1)
    return None if failed or not np.isfinite(factor.diagonal()).all() else factor


def _solve(factor: Floats, right: Floats) -> Floats:
    from scipy.linalg.lapack import dpotrs

    solution: Floats = dpotrs(factor, right, lower=1)[0]
    return solution


def _damped_cholesky(matrix: Floats, damping: float) -> Floats:
    """The factor of matrix + damping I, with more damping where rounding left the matrix slightly indefinite."""
    for _ in range(300):
        if (factor := _cholesky(matrix, damping)) is not None:
            return factor
        damping *= 10
    raise np.linalg.LinAlgError("the curvature of a SLALOM fit is not a finite number")


def _scale(matrix: Floats) -> float:
    return max(float(np.abs(matrix.diagonal()).max()), np.finfo(float).tiny)


class Search:
    """A damped (Levenberg-Marquardt) minimisation over s.

    Args:
        problem: the objective.
        point: where to start.
        max_iter: how many evaluations may be accepted.

    `point` is the current iterate, `steps_left` what is left of `max_iter`.
    """

    def __init__(self, problem: Problem, point: Point, max_iter: int) -> None:
        self.problem, self.point, self.steps_left = problem, point, max_iter
        self.damping: float | None = None

    def try_evaluate(self, s: Floats, ridge: Ridge) -> Point | None:
        """The objective at s; None if double precision cannot hold it."""
        try:
            point = self.problem.evaluate(s, ridge)
        except np.linalg.LinAlgError:
            return None
        return point if np.isfinite(point.objective) else None

    def step(self, matrix: Floats, step: Floats, ridge: Ridge) -> bool:
        """Subtract a step from s, under another ridge perhaps, shortened until it lowers the objective; False if none.

        Damping grows with each step that is not better, and shrinks after the one that is by how well the quadratic
        model `matrix` predicted its decrease.
        """
        point, scale, growth = self.point, _scale(matrix), 2.0
        if not step.any():
            return False
        start = point.mse + point.penalty * ridge.noise / point.ridge.noise
        while True:
            step = step * min(1.0, _LARGEST_STEP / float(np.abs(step).max()))
            new = self.try_evaluate(point.s - step, ridge)
            model_decrease = max(float(2 * point.gradient @ step - step @ matrix @ step), np.finfo(float).tiny)
            ratio = 0.0 if new is None else (start - new.objective) / model_decrease
            if new is not None and ratio > 1e-4:
                break
            self.damping = max(self.damping or 0.0, 1e-9 * scale) * growth
            if not self.damping <= 1e9 * scale:
                return False
            step, growth = _solve(_damped_cholesky(matrix, self.damping), point.gradient), growth * 2
        self.point, self.steps_left = new, self.steps_left - 1
        self.damping = (self.damping or 0.0) * max(0.1, 1 - (2 * min(ratio, 1.0) - 1) ** 3)
        return True

    def gauss_newton(self, noise_level: Callable[[float], float]) -> Floats | None:
        """Damped Gauss-Newton steps, the ridge's noise falling with the error to `noise_level(mse)`.

        Ends where the Newton decrement, by the last matrix, is below `_COARSE` and the noise is about right.

        Returns:
            The curvature there (the matrix's diagonal, U); None if no better step was found or none was left.
        """
        while self.steps_left > 0:
            point = self.point
            matrix = self.problem.hessian(point, exact=False)
            scale = _scale(matrix)
            self.damping = 1e-3 * scale if self.damping is None else self.damping
            factor = _damped_cholesky(matrix, max(self.damping, _ROUNDING * scale))
            ridge = point.ridge.with_noise(min(noise_level(point.mse), point.ridge.noise))
            if not self.step(matrix, _solve(factor, point.gradient), ridge):
                break
            if (
                self.steps_left > 0
                and self._is_coarse(factor)
                and self._is_coarse(_damped_cholesky(matrix, _ROUNDING * scale))
            ):
                noise = noise_level(self.point.mse)
                if 0.5 <= noise / self.point.ridge.noise <= 2.0:
                    return matrix.diagonal().copy()
                new = self.try_evaluate(self.point.s, self.point.ridge.with_noise(noise))
                if new is None:
                    break
                self.point, self.steps_left = new, self.steps_left - 1
        return None

    def _is_coarse(self, factor: Floats) -> bool:
        """Whether the squared Newton decrement, gradient' matrix^-1 gradient, is below `_COARSE` of the objective."""
        return float(self.point.gradient @ _solve(factor, self.point.gradient)) <= _COARSE * self.point.objective

    def newton(self, tol: float) -> bool:
        """Newton steps under one ridge until the decrement is below `tol`; whether that was reached.

        Gauss and Newton's matrix helps out wherever the Hessian is not positive definite. As long as steps shrink fast
        with the matrix there is, no other is computed.
        """
        self.damping = 0.0
        while self.steps_left > 0:
            matrix = self.problem.hessian(self.point, exact=True)
            scale, damped = _scale(matrix), self.damping > 0
            factor = _cholesky(matrix, self.damping or _ROUNDING * scale)
            if factor is None:
                matrix = self.problem.hessian(self.point, exact=False)
                step = _solve(_damped_cholesky(matrix, self.damping or _ROUNDING * scale), self.point.gradient)
            else:
                step = _solve(factor, self.point.gradient)
            decrement = float(self.point.gradient @ step)
            if decrement <= self.problem.resolution(self.point, tol) * self.point.objective:
                if not damped:
                    return True
                self.damping, self.steps_left = 0.0, self.steps_left - 1  # a damped step gains too little: ask again
                continue
            if not self.step(matrix, step, self.point.ridge):
                return False
            while factor is not None and not damped and self.steps_left > 0:
                point, before = self.point, decrement
                step = _solve(factor, point.gradient)
                decrement = float(point.gradient @ step)
                if decrement <= self.problem.resolution(point, tol) * point.objective:
                    return True
                new = None if decrement > _CHORD * before else self.try_evaluate(point.s - step, point.ridge)
                if new is None or new.objective >= point.objective:
                    break
                self.point, self.steps_left = new, self.steps_left - 1
        return False
