"""The mask law `few`: two to ten random positions."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.numerics.masks import distinct_deletions
from slalom_bench.registry import law


@law("few", version=2)
class Few:
    """2 to 10 random positions, each number of them equally often; a text needs more tokens than the largest.

    Single deletions are left out: there are only n of them, and many methods ask for all. No mask is drawn twice; a
    short text gives fewer than are asked for.

    Choose it:
        For small edits, where attributions are usually read.

    Example:
        20 tokens, 90 masks: 10 of each size 2, 3, ..., 10; every position is removed about equally often.

    Args:
        smallest: the fewest positions removed.
        largest: the most.
    """

    ranked = False

    def __init__(self, smallest: Count = 2, largest: Count = 10) -> None:
        self.smallest = smallest
        self.largest = largest

    def undefined(self, sample: Sample) -> str | None:
        """Where the largest removal would leave nothing."""
        return undefined.too_short(len(sample), self.largest)

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """Positions balanced among the masks of one size."""
        return distinct_deletions(len(sample), np.arange(self.smallest, self.largest + 1), count, rng)
