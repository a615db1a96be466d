"""Agreement between explainers on the same samples, and of one explainer with itself across seeds."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Floats


def pearson(x: Floats, y: Floats) -> float:
    """Linear correlation; `undefined.correlation` says when there is none."""
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x / np.linalg.norm(x)) @ (y / np.linalg.norm(y)), -1.0, 1.0))


def spearman(x: Floats, y: Floats) -> float:
    """Pearson correlation of average ranks."""
    return pearson(ranks(x), ranks(y))


def ranks(x: Floats) -> Floats:
    """From 1 up, ties sharing their mean; by hand, for importing scipy.stats takes longer than all ranks of a run."""
    _, which, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[which]


def top_overlap(x: Floats, y: Floats, k: int) -> float:
    """Share of the k highest positions that both have."""
    return float(((undefined.places(x) < k) & (undefined.places(y) < k)).sum() / k)
