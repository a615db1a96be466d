"""Occlusion of windows and of sentences: what the model says without them, spread to their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Bools, Explanation, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.laws.sentences import sentence_numbers
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


def windows(n: int, width: int, count: int) -> Bools:
    """At most `count` windows (m x n, True inside) of `width` neighbours, their starts even, every token in one.

    >>> windows(5, 2, 3).astype(int).tolist()
    [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    """
    starts = np.unique(np.ceil(np.linspace(0, n - width, min(count, n - width + 1))).astype(np.int64))
    place = np.arange(n) - starts[:, None]
    return (place >= 0) & (place < width)


@explainer("occlusion-window", version=1, needs={"queries"}, stochastic=False, family="additive")
class OcclusionWindow:
    """Leave-out of windows of neighbouring tokens, or of sentences, spread equally to their tokens.

    All n - width + 1 windows where the budget allows, else evenly spaced ones that still cover every token. The
    surrogate is F(S) = F(full) - sum of the removed scores. Needs queries, a budget of at least 1 + ceil(n / width), or
    1 + the number of sentences; no randomness. A group that is the whole text is left out where the empty text is not
    legal, and scores 0.

    Formula:
        score_i = mean over the groups g that hold i of (F(full) - F(without g)) / |g|

    Choose it:
        Where single tokens are redundant (width=1 is `leave-one-out`) or where sentences are what one wants to read.

    Example:
        A bag of words with weights good 2, film 0, dull -1, width 2: without (good film) F falls by 2, 1 each; without
        (film dull) it rises by 1, -0.5 each. Scores 1, (1 - 0.5) / 2 = 0.25, -0.5.

    Args:
        width: tokens of a window, at most those of the text.
        unit: `window`, or `sentence` for one group a sentence (a text without offsets is one).

    Reference:
        Zeiler and Fergus 2014, Visualizing and Understanding Convolutional Networks, for windows of pixels.
    """

    def __init__(self, width: Count = 3, unit: str = "window") -> None:
        self.width = width
        self.unit = unit

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The full text and one query for each group."""
        if self.width < 1 or self.unit not in ("window", "sentence"):
            raise InvalidInput(
                f"occlusion-window: width={self.width}, unit={self.unit}; at least 1, window or sentence"
            )
        n = len(sample)
        if self.unit == "sentence":
            number = sentence_numbers(sample)
            least = 2 + int(number.max())
            groups = number == np.arange(least - 1)[:, None]
        else:
            width = min(self.width, n)
            least = 1 - (-n // width)
            groups = windows(n, width, max(budget, least) - 1)
        require_budget("occlusion-window", budget, least, f"the full text and groups that cover {n} tokens")
        if not classifier.empty_allowed:
            groups = groups[~groups.all(axis=1)]
        full, *without = classifier.masked_log_odds(sample, np.vstack([np.ones((1, n), np.bool_), ~groups]))
        shares = (full - np.array(without)) / groups.sum(axis=1)
        scores = shares @ groups / np.maximum(groups.sum(axis=0), 1)
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, full),
            diagnostics={"groups": len(groups)},
        )
