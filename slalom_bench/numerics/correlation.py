"""Correlations of two score vectors: linear, of ranks, and the overlap of their highest positions."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Floats


def pearson(x: Floats, y: Floats) -> float:
    """Linear correlation; `undefined.correlation` says when there is none.

    >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])), 6)
    1.0
    """
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x / np.linalg.norm(x)) @ (y / np.linalg.norm(y)), -1.0, 1.0))


def pearson_rows(x: Floats, y: Floats) -> Floats:
    """Linear correlation of each row of x with that of y.

    >>> pearson_rows(np.array([[1.0, 2.0, 3.0]]), np.array([[6.0, 4.0, 2.0]])).round(6)
    array([-1.])
    """
    x, y = (z - z.mean(axis=1, keepdims=True) for z in (x, y))
    products, lengths = (x * y).sum(axis=1), np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return np.clip(products / lengths, -1.0, 1.0)


def spearman(x: Floats, y: Floats) -> float:
    """Pearson correlation of average ranks.

    >>> round(spearman(np.array([1.0, 2.0, 9.0]), np.array([-1.0, -2.0, -3.0])), 6)
    -1.0
    """
    return pearson(ranks(x), ranks(y))


def kendall(x: Floats, y: Floats) -> float:
    """Kendall's tau-b: concordant less discordant pairs, over the geometric mean of those that either does not tie.

    >>> round(kendall(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), 6)
    0.333333
    """
    a, b = (np.sign(values[:, None] - values) for values in (x, y))
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def ranks(x: Floats) -> Floats:
    """Rising ranks from 1, ties sharing their mean; by hand, for importing scipy.stats takes longer than a run's ranks.

    >>> ranks(np.array([3.0, 1.0, 3.0]))
    array([2.5, 1. , 2.5])
    """
    _, which, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[which]


def top_overlap(x: Floats, y: Floats, k: int) -> float:
    """Share of the k highest positions that both have."""
    return float(((undefined.descending_ranks(x) < k) & (undefined.descending_ranks(y) < k)).sum() / k)
