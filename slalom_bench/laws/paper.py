"""The mask law `paper`: one to ten random positions, nested, as in Fig. 6 of Leemann et al."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.registry import law


@law("paper", version=1)
class Paper:
    """1 to 10 random positions, nested: the i-th mask of every k removes the first k entries of the i-th permutation.

    The masks come by rising k, as many for each (the paper has 100); what does not divide by the last k is not drawn.

    Choose it:
        To compare with Fig. 6 of the paper.

    Example:
        The permutation 4 1 3 2 ... gives the masks without 4; without 4 and 1; without 4, 1 and 3; and so on.

    Args:
        largest: the last k.

    Reference:
        Leemann et al. 2025, section 6.3 and Fig. 6.
    """

    ranked = False

    def __init__(self, largest: Count = 10) -> None:
        self.largest = largest

    def undefined(self, sample: Sample) -> str | None:
        """Where the largest removal would leave nothing."""
        return undefined.too_short(len(sample), self.largest)

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """`count // largest` permutations."""
        ranks = rng.random((count // self.largest, len(sample))).argsort(axis=1).argsort(axis=1)
        return np.concatenate([ranks >= k for k in range(1, self.largest + 1)])
