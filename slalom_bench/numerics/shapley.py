"""Shapley values of a surrogate: exact for linear ones and for few positions, above that by quadrature for SLALOM and
by permutation sampling for any other kind.

phi_i = sum over S without i of (F(S + i) - F(S)) / (n C(n-1, |S|)); equation 66 of the SLALOM paper has the weight
inverted. Convention for the empty set: what the surrogate predicts there (the anchor's value for a SLALOM with one);
SLALOM without an anchor is 0/0 there and counts as 0: no token, no evidence, even odds, so the values sum to F(full).
"""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.surrogate import Surrogate
from slalom_bench.core.types import Bools, Floats
from slalom_bench.errors import InvalidInput
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

_MAX_ENUMERATED = 10
"""Up to this many positions all 2^n subsets are enumerated."""


def shapley_values(surrogate: Surrogate, rng: np.random.Generator | None = None, permutations: int = 128) -> Floats:
    """The Shapley value of each position in a surrogate; they sum to F(full) - F(empty).

    Args:
        surrogate: what is explained, over n positions.
        rng: for permutation sampling; linear and SLALOM surrogates and those of few positions need none.
        permutations: how many orders are sampled, each with its reverse.

    Returns:
        One value for each position (n).

    >>> shapley_values(SlalomSurrogate([2.0, 0.0], [0.0, 0.0])).tolist()
    [1.5, -0.5]
    """
    n = len(surrogate)
    if isinstance(surrogate, LinearSurrogate):
        return surrogate.weights.copy()
    if n <= _MAX_ENUMERATED:
        return _exact(surrogate)
    if type(surrogate) is SlalomSurrogate:  # kinds derived from it predict something else
        values = _slalom(surrogate)
        ends = _predict(surrogate, np.stack([np.ones(n, np.bool_), np.zeros(n, np.bool_)]))
        return values + (ends[0] - ends[1] - values.sum()) / n
    if rng is None:
        raise InvalidInput(f"a {surrogate.kind} surrogate over {n} positions is sampled: pass a generator")
    orders = rng.permuted(np.tile(np.arange(n), ((permutations + 1) // 2, 1)), axis=1)
    orders = np.concatenate([orders, orders[:, ::-1]])  # a permutation and its reverse: errors of opposite sign
    sizes = np.arange(n + 1)[:, None]
    paths = np.stack([_predict(surrogate, ranks < sizes) for ranks in orders.argsort(axis=1)])
    return np.bincount(orders.ravel(), np.diff(paths, axis=1).ravel(), minlength=n) / len(orders)


def _predict(surrogate: Surrogate, keep: Bools) -> Floats:
    """The surrogate's predictions, 0 for the empty set of a SLALOM without an anchor."""
    if not isinstance(surrogate, SlalomSurrogate) or surrogate.anchor is not None:
        return surrogate.predict(keep)
    out = np.zeros(len(keep))
    filled = keep.any(axis=1)
    out[filled] = surrogate.predict(keep[filled])
    return out


def _exact(surrogate: Surrogate) -> Floats:
    """By enumeration of all 2^n subsets."""
    n = len(surrogate)
    subsets = np.arange(2**n)
    keep = (subsets[:, None] >> np.arange(n)) & 1 == 1
    predicted = _predict(surrogate, keep)
    weight = np.array([1 / (n * comb(n - 1, size)) for size in range(n)])
    values = np.empty(n)
    for i in range(n):
        without = subsets[~keep[:, i]]
        values[i] = weight[keep[without].sum(axis=1)] @ (predicted[without | 1 << i] - predicted[without])
    return values


def _slalom(surrogate: SlalomSurrogate) -> Floats:
    """SLALOM's Shapley values as a double integral, by quadrature (off by about 1e-5 of the largest).

    The Shapley value is the mean over q in (0, 1) of E[F(S + i) - F(S)], S holding each other position with
    probability q. With 1/D = int exp(-tD) dt the expectation factorises over positions: a_j = 1 - q + q exp(-t w_j).
    """
    token, of, count = np.unique(surrogate.value + 1j * surrogate.importance, return_inverse=True, return_counts=True)
    value, importance = token.real, token.imag
    anchor_value, anchor_importance = surrogate.anchor or (0.0, -np.inf)
    top = max(importance.max(), anchor_importance)
    w, w0 = np.exp(np.maximum(importance - top, -600.0)), np.exp(anchor_importance - top)
    q, t, node_weight = _nodes(len(surrogate), float(count @ w + w0), float(max(w.min(), w0)))
    decay = np.expm1(-np.multiply.outer(t, w))[:, None]  # exp(-t w) - 1
    weighted = t[:, None, None] * (decay + 1) * (w * value)
    # the large arrays (t x q x tokens) in single precision: far finer than the grid, and twice as fast
    a = q * decay.astype(np.float32)
    a += 1
    log_a = np.log(a)
    mass = node_weight * np.exp((log_a @ count.astype(np.float32)).astype(np.float64) - (t * w0)[:, None])
    inverse = np.reciprocal(a, out=a)
    others = (inverse @ (weighted * count).astype(np.float32).transpose(0, 2, 1))[..., 0] * q[:, 0]
    others = others + (t * w0 * anchor_value)[:, None]
    both = np.stack([mass, mass * others], axis=1).astype(np.float32)
    zeroth, first = np.split(both @ inverse, 2, axis=1)
    squared = (both[:, :1] * q[:, 0]) @ np.multiply(inverse, inverse, out=log_a)
    gain = weighted * zeroth + decay * (first - weighted * squared)
    return gain.sum(axis=(0, 1))[of]


def _nodes(n: int, total: float, least: float) -> tuple[NDArray[np.float32], Floats, Floats]:
    """q = x^3 at Gauss-Legendre nodes (finer towards the empty set), t on a logarithmic grid; weights (Q), less t."""
    step = 0.65
    x, weight = _gauss(10 + n // 40)
    x, weight = (x + 1) / 2, weight / 2
    t = np.exp(np.arange(-np.log(total) - 12, -np.log(least) + 3.5, step))
    return (x**3)[:, None].astype(np.float32), t, step * weight * 3 * x**2


@cache
def _gauss(order: int) -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(order)
