"""Fitting `MaskProcess`: variances of largest marginal likelihood, then the posterior mean.

It is fitted twice: additively at first, for each token's effect, and then with the parts that are built on effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slalom_bench.core.types import Bools, Floats
from slalom_bench.surrogates.mask_process import MaskKernel, MaskProcess
from slalom_bench.surrogates.slalom import SlalomSurrogate

PILOT = 256
"""Rows on which variances are chosen; the cost grows with their cube."""
STORED = 1000
"""Masks, at most, that predictions are made of; the cost of a fit grows with its square and with the rows."""
_STEPS = (10, 20)
"""Updates of the variances in the first and in the second fit."""
_POWER = 0.75
"""The power of an update: 1/2 never loses likelihood, 1 is faster."""
_FLOOR = 1e-7
"""The least noise of a removal of all, as a share of the changes' variance: rounding."""
_JITTER = 1e-6


def fit_process(
    removed: Bools,
    outputs: Floats,
    full: float,
    hints: Floats,
    carriers: Floats | None,
    slalom: SlalomSurrogate | None,
) -> MaskProcess:
    """The process of removals (m x n) and what the model says without them (m); the order of the rows is random.

    Args:
        removed: True where a position is removed, one at least in each row.
        outputs: log-odds (m).
        full: those of the full text.
        hints: columns that effects may be in proportion to (n x h); h = 0 where there are none.
        carriers: u of each token and last the anchor (n+1 x r) where tokens move; r = 0 where they do not, None where
            they move and nothing is known: the effects then carry.
        slalom: a SLALOM fitted to the rows, or None.
    """
    n, change = removed.shape[1], outputs - full
    nothing = np.zeros((n + 1, 0))
    kernel = MaskKernel(np.zeros(n), hints, nothing if carriers is None else carriers, slalom, {})
    size = float(np.sqrt(np.mean(change**2))) if len(change) else 0.0
    if not size:
        return MaskProcess(full, kernel, np.zeros((1, n), np.bool_), [0.0], 0.0, 1.0)
    first = ["gone", *(["hint"] if hints.size else []), *(["shift"] if kernel.carriers.size else [])]
    kernel, noise = choose_variances(kernel, first, removed, change / size, _STEPS[0])
    looked = posterior(kernel, noise, removed, change / size)
    effects = size * additive_effects(looked)
    if carriers is None:
        kernel = replace(kernel, carriers=np.append(effects, 0.0)[:, None])
    kernel = replace(kernel, effects=effects)
    moves = ["shift"] if kernel.carriers.size else []
    second = [p for p in first if p != "shift"] + moves + ["curve", *(["slalom"] if slalom else []), "rest"]
    kernel, noise = choose_variances(kernel, second, removed, change / size, _STEPS[1])
    found = posterior(kernel, noise, removed, change / size)
    scaled = replace(kernel, variances={part: size**2 * v for part, v in kernel.variances.items()})
    return MaskProcess(full, scaled, found.masks, found.weights / size, size**2 * noise, found.spread)


def additive_effects(process: MaskProcess) -> Floats:
    """What the parts gone and hint say that changes without each token (n)."""
    kernel, one = process.kernel, np.eye(len(process), dtype=np.bool_)
    parts = {part: v for part, v in kernel.variances.items() if part in ("gone", "hint")}
    own = replace(kernel, variances=parts)
    return np.asarray(own.stacked(one) @ (own.stacked(process.masks).T @ process.weights))


def choose_variances(
    kernel: MaskKernel, parts: Sequence[str], removed: Bools, target: Floats, steps: int
) -> tuple[MaskKernel, float]:
    """The kernel with the variances of largest marginal likelihood on the first rows, and the noise where all is gone.

    The update v <- v (a'Ka / tr(C^-1 K))^power, a = C^-1 y, C = sum of all v K: at its fixed points the likelihood's
    derivative is zero.
    """
    from scipy.linalg.lapack import dpotrf, dpotri

    rows, y = removed[:PILOT], target[:PILOT]
    m = len(rows)
    share = rows.mean(axis=1)
    ones = replace(kernel, variances=dict.fromkeys(parts, 1.0))
    kernels = []
    for part in parts:
        columns = None if part == "rest" else ones.features(part, rows)
        kernels.append(ones.rest(rows, rows) if columns is None else columns @ columns.T)
    size = np.array([max(float(np.trace(k)) / m, 1e-300) for k in kernels])
    flat = np.stack([k.ravel() / s for k, s in zip(kernels, size, strict=True)])
    variances, noise = np.full(len(parts), 1 / len(parts)), 0.1 / len(parts)
    for _ in range(steps):
        whole = (variances @ flat).reshape(m, m)
        whole[np.diag_indices(m)] += noise * share
        lower, failed = dpotrf(whole, lower=1)
        if failed:
            break
        half = np.tril(dpotri(lower, lower=1)[0])
        inverse = half + np.tril(half, -1).T
        a = inverse @ y
        fit = flat @ np.stack([np.outer(a, a).ravel(), inverse.ravel()], axis=1) + 1e-12
        variances = variances * (fit[:, 0] / fit[:, 1]) ** _POWER
        noise = max(noise * float(share @ a**2 / max(share @ np.diag(inverse), 1e-300)) ** _POWER, _FLOOR)
    return replace(ones, variances=dict(zip(parts, (variances / size).tolist(), strict=True))), noise


def posterior(kernel: MaskKernel, noise: float, removed: Bools, target: Floats) -> MaskProcess:
    """The posterior mean given all rows: exact up to `STORED` of them, above that on the span of the first ones.

    `spread` is what the errors of rows left out one by one are, in units of their predicted deviation, times
    sqrt(1 + n / m): the effects that the kernel is built on were fitted to these rows too.
    """
    from scipy.linalg import cho_solve, cholesky, solve_triangular

    variance = noise * removed.mean(axis=1)
    some = removed[:STORED]
    among = kernel.between(some, some)
    on = np.diag_indices(len(some))
    exact = among.copy()
    exact[on] += variance[:STORED]
    lower = cholesky(exact, lower=True, check_finite=False)
    weights = cho_solve((lower, True), target[:STORED], check_finite=False)
    inverse = np.sum(solve_triangular(lower, np.eye(len(some)), lower=True, check_finite=False) ** 2, axis=0)
    spread = float(np.sqrt(np.mean(weights**2 / inverse) * (1 + removed.shape[1] / len(removed))))
    if len(removed) > STORED:
        among[on] += _JITTER * float(np.trace(among)) / len(some)
        lower = cholesky(among, lower=True, check_finite=False)
        white = solve_triangular(lower, kernel.between(some, removed), lower=True, check_finite=False)
        white /= np.sqrt(variance)
        inner = white @ white.T
        inner[on] += 1
        half = cho_solve((cholesky(inner, lower=True), True), white @ (target / np.sqrt(variance)), check_finite=False)
        weights = solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
    return MaskProcess(0.0, kernel, some, weights, noise, spread)
