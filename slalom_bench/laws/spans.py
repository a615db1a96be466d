"""The mask law `spans`: one run of neighbouring positions."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.numerics.masks import balanced_subsets, evenly
from slalom_bench.registry import law


@law("spans", version=1)
class Spans:
    """One run of neighbouring positions, a twentieth to a quarter of the text, each length equally often.

    The shortest run has 2 positions at least, so that a text needs 8 tokens. Starts are balanced within a length.
    """

    ranked = False

    def undefined(self, sample: Sample) -> str | None:
        """Where a quarter of the text is no run."""
        return undefined.TOO_SHORT if len(sample) < 8 else None

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """Lengths and starts, both balanced."""
        n = len(sample)
        lengths = evenly(np.arange(max(2, -(-n // 20)), n // 4 + 1), count, rng)
        starts = np.empty(count, np.int64)
        for length in np.unique(lengths):
            rows = lengths == length
            starts[rows] = balanced_subsets(n - int(length) + 1, int(rows.sum()), 1, rng)[:, 0]
        position = np.arange(n)
        return (position < starts[:, None]) | (position >= (starts + lengths)[:, None])
