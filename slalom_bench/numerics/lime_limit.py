"""What LIME tends to with ever more samples, on a model that is a quotient of two sums over words: attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom_bench.core.types import Floats

_SHARES, _STEPS = 32, 64
"""Nodes of the two quadratures; twice as many move the limit by 2e-4 of its norm on a trained attention classifier."""


@dataclass(frozen=True)
class Part:
    """What each word adds to denominator and numerator of each head (heads x words)."""

    weight: Floats
    weighted: Floats

    def __getitem__(self, head: int) -> Part:
        return Part(self.weight[head], self.weighted[head])


def lime_limit(kept: Part, removed: Part, fixed: Part, kernel_width: float = 25.0) -> Floats:
    """The coefficients that LIME's regression tends to, word by word.

    With `s` uniform and any set of `s` words as likely as any other, a mask is one whose words go independently, each
    with probability x, for x uniform in (0, 1). Least squares then give the word j
    int w(x) E_x[F(S with j) - F(S without j)] dx, w(x) proportional to x (1 - x) times LIME's kernel: exactly without a
    kernel (and with s = 0 as likely as any other s), to order 1 / words with it. With 1/D = int exp(-u D) du the
    expectation of a quotient factorises over words. LIME's ridge is left out.

    Args:
        kept: of the words where they stand.
        removed: of what stands in their place.
        fixed: of all else (heads x 1).
        kernel_width: of LIME's kernel.

    Returns:
        One coefficient for each word; the model is the mean over heads.

    >>> one = Part(np.array([[1.0, 1.0]]), np.array([[3.0, 0.0]]))
    >>> gone = Part(np.array([[1.0, 1.0]]), np.array([[0.0, 0.0]]))
    >>> lime_limit(one, gone, Part(np.array([[2.0]]), np.array([[0.0]]))).round(6).tolist()  # 3 of 4 is lost with it
    [0.75, 0.0]
    """
    x, weight = _unit_nodes(_SHARES)
    weight = weight * x * (1 - x) * np.exp(-((100 * (1 - np.sqrt(1 - x))) ** 2) / (2 * kernel_width**2))
    y, step = _unit_nodes(_STEPS)
    heads = []
    for k in range(len(fixed.weight)):
        scale = 2 / (fixed.weight[k, 0] + (kept.weight[k] + removed.weight[k]).sum() / 2)
        u, du = scale * y / (1 - y), scale * step / (1 - y) ** 2
        change = _change(kept[k], removed[k], fixed[k], x, u)
        heads.append(np.einsum("x,u,xuj->j", weight / weight.sum(), du, change))
    return np.asarray(np.mean(heads, axis=0), np.float64)


def _change(kept: Part, removed: Part, fixed: Part, x: Floats, u: Floats) -> Floats:
    """E_x[N exp(-u D)] with each word less the same without it (shares x steps x words), other words by chance."""
    rate = u[:, None]
    stays = np.log1p(-x)[:, None, None] - rate * kept.weight
    goes = np.log(x)[:, None, None] - rate * removed.weight
    either = np.logaddexp(stays, goes)
    share = np.exp(stays - either)
    mean = share * kept.weighted + (1 - share) * removed.weighted
    others = np.exp(either.sum(axis=2, keepdims=True) - either - rate * fixed.weight)
    rest = fixed.weighted + mean.sum(axis=2, keepdims=True) - mean
    with_it, without = (np.exp(-rate * part.weight) * (rest + part.weighted) for part in (kept, removed))
    return np.asarray(others * (with_it - without), np.float64)


def _unit_nodes(order: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2
