"""The mask law `mixed`: from single deletions to half the text, for fitting."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.numerics.masks import balanced_deletions
from slalom_bench.registry import law


@law("mixed", version=1)
class Mixed:
    """From one position to half the text, at random, sizes balanced on a log scale: the common law for fitting.

    As many masks remove 1 to 3 tokens as 10 to 30: a surrogate fitted to them knows of all that it may be asked. A text
    needs 2 tokens.
    """

    ranked = False

    def undefined(self, sample: Sample) -> str | None:
        """Where one removal would leave nothing."""
        return undefined.too_short(len(sample), 1)

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """Sizes at the middles of `count` equal parts of the log scale, in a random order; positions balanced."""
        parts = (rng.permutation(count) + 0.5) / count
        sizes = np.floor((len(sample) // 2 + 1.0) ** parts).astype(np.int64)
        return balanced_deletions(len(sample), sizes, rng)
