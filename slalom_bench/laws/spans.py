"""The mask law `spans`: one run of neighbouring positions."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.numerics.masks import quotas
from slalom_bench.registry import law


@law("spans", version=2)
class Spans:
    """One run of neighbouring positions, a twentieth to a quarter of the text, each length equally often.

    The shortest run has 2 positions at least, so that a text needs 8 tokens. No run is drawn twice: a text of 8 tokens
    has 7 masks.

    Choose it:
        Where passages are cut: neighbouring tokens interact.

    Example:
        40 tokens: runs of 2 to 10, at 39 to 31 places each.
    """

    ranked = False

    def undefined(self, sample: Sample) -> str | None:
        """Where a quarter of the text is no run."""
        return undefined.TOO_SHORT if len(sample) < 8 else None

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """Lengths equally often as far as there are starts for them; starts of one length without replacement."""
        n = len(sample)
        lengths = np.arange(max(2, -(-n // 20)), n // 4 + 1)
        taken = quotas((n - lengths + 1).tolist(), count, rng)
        starts = np.concatenate(
            [rng.permutation(n - length + 1)[:many] for length, many in zip(lengths, taken, strict=True)]
        )
        ends = starts + np.repeat(lengths, taken)
        position = np.arange(n)
        return (position < starts[:, None]) | (position >= ends[:, None])
