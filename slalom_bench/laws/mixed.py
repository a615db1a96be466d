"""The mask law `mixed`: from single deletions to half the text, for fitting."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Floats, Ints, Sample
from slalom_bench.numerics.masks import balanced_deletions
from slalom_bench.registry import law


@law("mixed", version=2)
class Mixed:
    """From one position to half the text: the common law for fitting, which knows of all that may be asked.

    A third of the masks are random positions, how many balanced on a log scale (as many masks remove 1 to 3 tokens as
    10 to 30); a third random positions, how many balanced on the linear scale; a third spans of two positions or more,
    their length balanced on the log scale. No span comes twice, and no more than about a sixth of all there are: a test
    on spans must find some that were not asked for. Random positions take their place. A text needs 2 tokens.

    Choose it:
        To fit regressions that are to be compared at one law (`law=mixed`).

    Example:
        60 tokens, 300 masks: 100 remove 1 to 30 random positions, small numbers as often as large ones on a log scale;
        100 the same on a linear scale; 100 are spans of 2 to 30.
    """

    ranked = False

    def undefined(self, sample: Sample) -> str | None:
        """Where one removal would leave nothing."""
        return undefined.too_short(len(sample), 1)

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """Sizes at the middles of equal parts of their scale; positions balanced; then the spans."""
        n = len(sample)
        largest = n // 2
        spans = _spans(n, _log_sizes(min(count // 3, n * n // 16 if largest >= 2 else 0), 2, largest, rng), rng)
        logarithmic = (count - len(spans) + 1) // 2
        linear = np.floor(1 + largest * _middles(count - len(spans) - logarithmic, rng)).astype(np.int64)
        sizes = np.append(_log_sizes(logarithmic, 1, largest, rng), np.minimum(linear, largest))
        return np.vstack([balanced_deletions(n, sizes, rng), spans])


def _middles(count: int, rng: np.random.Generator) -> Floats:
    """The middles of `count` equal parts of (0, 1) in a random order."""
    return (rng.permutation(count) + 0.5) / max(count, 1)


def _log_sizes(count: int, least: int, largest: int, rng: np.random.Generator) -> Ints:
    """Whole numbers from `least` to `largest`, balanced on a log scale."""
    return np.floor(least * ((largest + 1.0) / least) ** _middles(count, rng)).astype(np.int64)


def _spans(n: int, lengths: Ints, rng: np.random.Generator) -> Bools:
    """Keep-masks without a run of each length that starts anywhere, each run once."""
    starts = np.floor(rng.random(len(lengths)) * (n - lengths + 1)).astype(np.int64)
    starts, lengths = np.unique(np.stack([starts, lengths]), axis=1)
    position = np.arange(n)
    return (position < starts[:, None]) | (position >= (starts + lengths)[:, None])
