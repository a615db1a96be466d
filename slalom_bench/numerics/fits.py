"""SLALOM fits: minimise the true mean squared prediction error over values and importances, to convergence.

F_i = sum_j c_ij w_j v_j / sum_j c_ij w_j with w = exp(s), for a matrix of token counts c (rows: sequences). Given s, v
is a ridge least squares solution, so only s is searched (variable projection): with v eliminated from
the Newton equations, s makes damped steps until none would lower the objective by more than a relative `tol`.

A row of c is either short (SLALOM-eff) or the whole sample but for a few deletions (SLALOM-fidel). Both are a constant
row plus a sparse one, so the normal equations cost a few operations per sequence, not U^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_bench.errors import InvalidInput
from slalom_bench.types import Floats

DENSE = 20_000_000
"""More pairs of tokens in one sequence than this, over all sequences, and dense algebra is cheaper."""
LARGEST_STEP = 3.0
"""No importance changes by more than this in one step: far from the optimum, exp() makes longer steps useless."""

INTERPOLATING = 0.1
"""The least noise assumed, as a share of the targets' variance, where the fit could interpolate its sequences."""
ANCHOR = 1e-4
"""The anchor's prior precision relative to a token's."""
ROUNDING = 1e-13
"""Damping, relative to the largest curvature, that only makes up for rounding."""
COARSE = 2e-2
"""The tolerance while the noise level, and with it the ridge, is still being found."""
START = 0.1
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


class Design:
    """Counts as `base + sparse`, with the products that the normal equations need."""

    def __init__(self, counts: Floats) -> None:
        from scipy.sparse import csr_array

        most = counts.max(axis=0)
        self.base = most if np.count_nonzero(counts != most) < np.count_nonzero(counts) else np.zeros_like(most)
        self.sparse = csr_array(counts - self.base)
        self.transposed = self.sparse.T.tocsr()
        self.size = counts.shape[1]
        degree = np.diff(self.sparse.indptr)
        self.pairs = self._pairs(degree) if int((degree.astype(np.int64) ** 2).sum()) <= DENSE else None
        self.counts = counts

    def _pairs(self, degree: NDArray[np.integer]) -> Any:
        """The operator (U^2 x m) that turns row weights g into the sparse part's Gram matrix R' diag(g) R."""
        from scipy.sparse import coo_array

        m, u = self.sparse.shape
        start, column, data = self.sparse.indptr[:-1], self.sparse.indices.astype(np.int64), self.sparse.data
        row = np.repeat(np.arange(m), degree)
        left = np.repeat(np.arange(len(column)), degree[row])
        first = np.cumsum(degree[row]) - degree[row]
        right = np.arange(len(left)) - first[left] + start[row[left]]
        entries = data[left] * data[right], (column[left] * u + column[right], row[left])
        return coo_array(entries, shape=(u * u, m)).tocsr()

    def times(self, x: Floats) -> Floats:
        """counts @ x."""
        return self.sparse @ x + self.base @ x

    def adjoint(self, x: Floats) -> Floats:
        """counts' @ x."""
        return self.transposed @ x + np.multiply.outer(self.base, x.sum(axis=0))

    def grams(self, weights: Floats) -> Floats:
        """counts' diag(g) counts for each column g of `weights` (m x q), as (q, U, U)."""
        q = weights.shape[1]
        if self.pairs is None:
            return np.stack([self.counts.T @ (g[:, None] * self.counts) for g in weights.T])
        out = np.ascontiguousarray((self.pairs @ weights).T).reshape(q, self.size, self.size)
        if self.base.any():
            cross = (self.transposed @ weights).T[:, :, None] * self.base
            out += cross + cross.transpose(0, 2, 1)
            out += weights.sum(axis=0)[:, None, None] * np.multiply.outer(self.base, self.base)
        return out


class Problem:
    """The objective: weighted mean squared error plus ridge, as a function of s alone (v eliminated)."""

    def __init__(self, design: Design, targets: Floats, weights: Floats, ridge_v: Floats, ridge_s: Floats) -> None:
        self.design, self.targets, self.weights = design, targets, weights
        self.ridge_v, self.ridge_s = ridge_v, ridge_s

    def at(self, s: Floats) -> Point:
        w = np.exp(s - s.max())
        total = self.design.times(w)
        share = self.weights / total**2
        gram = self.design.grams(share[:, None])[0] * np.multiply.outer(w, w)
        gram[np.diag_indices_from(gram)] += self.ridge_v + 1e-14 * gram.diagonal().max()
        pull = w[:, None] * self.design.adjoint((self.weights / total)[:, None] * self.targets)
        factor = _factor(gram)
        if factor is None:
            raise np.linalg.LinAlgError("the Gram matrix of a SLALOM fit is not positive definite")
        v = _solved(factor, pull)
        predicted = self.design.times(w[:, None] * v) / total[:, None]
        mse = float(self.weights @ ((predicted - self.targets) ** 2).sum(axis=1))
        ridge = float(self.ridge_v @ (v**2).sum(axis=1) + self.ridge_s @ s**2)
        return Point(s, v, w, total, predicted, factor, mse, mse + ridge)

    def resolution(self, at: Point, tol: float) -> float:
        """The relative decrease worth a step: `tol`, or what rounding lets the objective resolve if that is more."""
        residual = max(np.sqrt(at.mse), np.finfo(float).tiny)
        return tol + 1e3 * np.finfo(float).eps * float(np.abs(self.targets).max()) / float(residual)

    def newton(self, at: Point, *, exact: bool) -> tuple[Floats, Floats]:
        """Half the gradient and half the Hessian of the objective in s, v eliminated; or Gauss and Newton's matrix.

        The latter leaves out what is proportional to the errors r: sum of r_i times the second derivatives of F_i.
        """
        from scipy.linalg.lapack import dtrtrs

        error, outputs = at.predicted - self.targets, at.v.shape[1]
        weighted = error * (self.weights / at.total)[:, None]
        pulled = at.w[:, None] * self.design.adjoint(np.hstack([weighted, weighted * at.predicted]))
        slope, lean = pulled[:, :outputs], at.v * pulled[:, :outputs] - pulled[:, outputs:]
        gradient = lean.sum(axis=1) + self.ridge_s * at.s
        scalars = np.stack([np.ones(len(error)), (at.predicted**2).sum(axis=1)], axis=1)
        columns = [scalars, at.predicted]
        if exact:
            scalars[:, 1] += 2 * (error * at.predicted).sum(axis=1)
            columns.append(error)
        share = (self.weights / at.total**2)[:, None]
        plain, matrix, *mixed = self.design.grams(share * np.hstack(columns)) * np.multiply.outer(at.w, at.w)
        matrix[np.diag_indices_from(matrix)] += self.ridge_s + (lean.sum(axis=1) if exact else 0.0)
        for k, v in enumerate(at.v.T):
            half = plain * v - mixed[k]
            matrix += half * v[:, None] - mixed[k] * v
            if exact:
                bent = mixed[outputs + k]
                matrix -= bent * v + bent * v[:, None]
                half -= bent
                half[np.diag_indices_from(half)] += slope[:, k]
            root = dtrtrs(at.factor, half, trans=1)[0]
            matrix -= root.T @ root
        return gradient, matrix


@dataclass(frozen=True)
class Point:
    """Everything known at one s."""

    s: Floats
    v: Floats
    w: Floats
    total: Floats
    predicted: Floats
    factor: Any
    mse: float
    objective: float


@dataclass(frozen=True)
class Minimum:
    """Where the steps ended, how many there were, whether that is enough; curvature in s and damping of the last."""

    at: Point
    iterations: int
    converged: bool
    curvature: Floats
    damping: float


def minimise(problem: Problem, at: Point, tol: float, max_iter: int, damping: float | None = None) -> Minimum:
    """Damped Newton steps on s; converged once the undamped step promises less than `tol` times the objective.

    Gauss and Newton's matrix, damped from the start, leads from far away (`tol` of at least COARSE) and wherever the
    Hessian is not positive definite; near the optimum the Hessian doubles the digits with each step, so that a promise
    of a tenth of tol's root, once kept, leaves none larger than about tol.
    """
    fine = tol < COARSE
    damping = 0.0 if fine else damping
    for iteration in range(max_iter):
        gradient, matrix = problem.newton(at, exact=fine)
        curvature = np.diag(matrix).copy()
        scale, newton = max(float(curvature.max()), np.finfo(float).tiny), fine
        step = _step(matrix, ROUNDING * scale, gradient)
        if step is None:
            gradient, matrix = problem.newton(at, exact=False)
            step, newton = _damped(matrix, ROUNDING * scale, gradient), False
        promise = float(gradient @ step)
        if promise <= problem.resolution(at, tol) * at.objective:
            return Minimum(at, iteration, True, curvature, damping or 0.0)
        damping, grow = (1e-3 * scale if damping is None else damping), 2.0
        if damping:
            step = _damped(matrix, damping, gradient)
        while True:
            step = step * min(1.0, LARGEST_STEP / float(np.abs(step).max()))
            new = problem.at(at.s - step)
            ratio = (at.objective - new.objective) / float(2 * gradient @ step - step @ matrix @ step)
            if ratio > 1e-4:
                break
            if damping > 1e9 * scale:
                return Minimum(at, iteration, False, curvature, damping)
            damping, grow = max(damping, 1e-9 * scale) * grow, grow * 2
            step = _damped(matrix, damping, gradient)
        kept = newton and not damping and abs(ratio - 1) < 0.1 and promise <= 0.1 * np.sqrt(tol) * at.objective
        at, damping = new, damping * max(0.1, 1 - (2 * ratio - 1) ** 3)
        if kept:
            return Minimum(at, iteration + 1, True, curvature, damping)
    return Minimum(at, max_iter, False, curvature, damping or 0.0)


def _factor(matrix: Floats) -> Floats | None:
    """The upper Cholesky factor; None if the matrix is not positive definite."""
    from scipy.linalg.lapack import dpotrf

    factor, failed = dpotrf(matrix)
    return None if failed else factor


def _solved(factor: Floats, right: Floats) -> Floats:
    from scipy.linalg.lapack import dpotrs

    solution: Floats = dpotrs(factor, right)[0]
    return solution


def _step(matrix: Floats, damping: float, right: Floats) -> Floats | None:
    """(matrix + damping I)^-1 right; None if that is not positive definite."""
    damped = matrix.copy()
    damped[np.diag_indices_from(damped)] += damping
    factor = _factor(damped)
    return None if factor is None else _solved(factor, right)


def _damped(matrix: Floats, damping: float, right: Floats) -> Floats:
    """`_step`, with more damping where rounding left the matrix slightly indefinite."""
    while (solution := _step(matrix, damping, right)) is None:
        damping *= 10
    return solution


def fit_slalom(
    counts: ArrayLike,
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
    counts, outputs, share, size = _checked(counts, targets, weights, anchor)
    tokens = counts.shape[1]
    mean = share @ outputs
    spread = float(share @ ((outputs - mean) ** 2).sum(axis=1))
    rounding = 1e-16 * float(share @ (outputs**2).sum(axis=1)) + 1e-30
    free = 1 - 2 * tokens / size
    if free <= 0:  # as many parameters as sequences: a small error says nothing about the noise
        rounding = max(rounding, INTERPOLATING * spread)
    design = Design(np.hstack([counts, np.ones((len(counts), 1))]) if anchor else counts)
    if prior_value is None:
        prior_value = spread / outputs.shape[1] / max(_spread_of_shares(counts, share), np.finfo(float).tiny)
    tightness = np.where(np.arange(tokens + anchor) < tokens, 1.0, ANCHOR)
    penalty_v = tightness / (size * max(prior_value, rounding))
    s = np.zeros(tokens + anchor)
    noise, wide, iterations, damping = max(START * spread, rounding), prior_importance or WIDE, 0, None
    at, tuned, settled = None, prior_importance is not None or free <= TELLING, False
    while True:
        if at is None:
            ridge_s = noise * tightness / (size * wide)
            problem = Problem(design, outputs - mean, share, noise * penalty_v, ridge_s)
            at = problem.at(s)
        if settled:
            found = minimise(problem, at, tol, max_iter - iterations)
        else:
            found = minimise(problem, at, max(tol, COARSE), 1, damping)
        at, s, iterations, damping = found.at, found.at.s, iterations + found.iterations, found.damping
        if settled or iterations >= max_iter or not (found.iterations or found.converged):
            break
        level, likely = max(at.mse / max(free, 0.1), rounding), wide
        if settled := found.converged and level >= 0.5 * noise:
            if not tuned:
                likely, tuned = likely_variance(s[:tokens], ridge_s[:tokens], found.curvature[:tokens], wide), True
            settled = 0.5 < likely / wide < 2.0
        if settled or level < 0.5 * noise or likely != wide:
            noise, wide, at = level, likely, None
    s = s - s[:tokens].mean()
    value = found.at.v + mean if np.ndim(targets) == 2 else found.at.v[:, 0] + mean[0]
    anchored = (value[-1] if np.ndim(targets) == 2 else float(value[-1]), float(s[-1])) if anchor else None
    return SlalomFit(value[:tokens], s[:tokens], anchored, found.at.mse, iterations, found.converged)


def likely_variance(s: Floats, ridge: Floats, curvature: Floats, prior: float) -> float:
    """The prior variance of importances under which what the data say of each is likeliest.

    Taken one by one: `curvature` less the `ridge` of the `prior` is what the data add. They would put an importance at
    s (1 + ridge / data), give or take a variance of prior * ridge / data, to which the variance sought adds.
    """
    ratio = ridge / np.maximum(curvature - ridge, 1e-12 * curvature.max())
    variance = VARIANCES[:, None] + prior * ratio
    return float(VARIANCES[(np.log(variance) + (s * (1 + ratio)) ** 2 / variance).sum(axis=1).argmin()])


def _spread_of_shares(counts: Floats, share: Floats) -> float:
    """Summed over tokens, the variance of their share of a sequence: var(F) / var(v) for equal importances."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return float(share @ (shares**2).sum(axis=1) - ((share @ shares) ** 2).sum())


def _checked(
    counts: ArrayLike, targets: ArrayLike, weights: ArrayLike | None, anchor: bool
) -> tuple[Floats, Floats, Floats, float]:
    """Counts, targets (m x K), weights summing to 1 and their sum, in float64; or an error that says what is wrong."""
    counts, outputs = np.asarray(counts, np.float64), np.asarray(targets, np.float64)
    if counts.ndim != 2 or not counts.size or outputs.ndim not in (1, 2) or len(outputs) != len(counts):
        raise InvalidInput(f"counts of shape {counts.shape} for targets {outputs.shape}; expected (m, U) with m >= 1")
    if not anchor and not counts.any(axis=1).all():
        raise InvalidInput("SLALOM without an anchor is undefined (0/0) for an empty sequence: drop it or fit one")
    share = np.ones(len(counts)) if weights is None else np.asarray(weights, np.float64)
    if not (np.isfinite(counts).all() and np.isfinite(outputs).all() and np.isfinite(share).all()):
        raise InvalidInput("counts, targets and weights of a SLALOM fit must be finite numbers")
    return counts, outputs.reshape(len(counts), -1), share / share.sum(), float(share.sum())
