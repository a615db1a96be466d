"""The mask law `top`: among the tokens that matter to the model."""

from __future__ import annotations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.masks import distinct_deletions
from slalom_bench.registry import law

_LEAST = 5
"""Tokens, at least, that are drawn among."""


@law("top", version=2)
class Top:
    """Random subsets of the tenth of the tokens (at least 5) whose removal, one by one, changes the output most.

    Subsets of 2 up to all of these tokens, no one twice, each size equally often as far as it has subsets (5 tokens
    have 26 in all); ties of the effect rank in the order of the text. A text needs 10 tokens. The effects are the
    model's own, |F(full) - F(without i)|, the same for every explainer.

    Choose it:
        To test a surrogate on the tokens that matter most to the model.

    Example:
        60 tokens: the 6 with the largest effect, and of them subsets of 2 to 6.
    """

    ranked = True

    def undefined(self, sample: Sample) -> str | None:
        """Where the tokens that matter would be most of the text."""
        return undefined.TOO_SHORT if len(sample) < 2 * _LEAST else None

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """Balanced among the subsets of one size."""
        n = len(sample)
        if effects is None or len(effects) != n:
            raise InvalidInput(f"sample {sample.id}: the law top needs the effect of each of its {n} tokens")
        first = np.argsort(-np.asarray(effects), kind="stable")[: max(_LEAST, n // 10)]
        keep = np.ones((count, n), np.bool_)
        drawn = distinct_deletions(len(first), np.arange(2, len(first) + 1), count, rng)
        keep[: len(drawn), first] = drawn
        return keep[: len(drawn)]
