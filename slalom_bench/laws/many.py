"""The mask law `many`: a tenth to a half of the text, at random."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.numerics.masks import distinct_deletions
from slalom_bench.registry import law

_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)


@law("many", version=2)
class Many:
    """10, 20, 30, 40 or 50 % of the positions, at random, each share equally often; a text needs 10 tokens.

    No mask is drawn twice; a short text gives fewer than are asked for.

    Choose it:
        For large removals, where surrogates extrapolate.

    Example:
        20 tokens, 50 masks: 10 each that remove 2, 4, 6, 8 and 10 of them.
    """

    ranked = False

    def undefined(self, sample: Sample) -> str | None:
        """Where the smallest share is less than one token."""
        return undefined.TOO_SHORT if len(sample) * _SHARES[0] < 1 else None

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """Shares rounded to whole positions, which are balanced among the masks of one size."""
        sizes = np.round(np.multiply(_SHARES, len(sample))).astype(np.int64)
        return distinct_deletions(len(sample), np.unique(sizes), count, rng)
