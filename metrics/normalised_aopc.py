"""Normalised insertion and deletion: where a method lies between the worst and the best order of a text's tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.metrics._rankings import rank_towards_prediction
from slalom_bench.numerics.orders import extreme_orders
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_ROUNDING = 1e-6
"""What a share of the range may be off by rounding."""


class _NormalisedCurve:
    """An area over a curve in log-odds, as a share of the range that orders of the text's tokens span."""

    deletes: bool

    def __init__(self, steps: Count = 10, width: Count = 8) -> None:
        self.steps = steps
        self.width = width

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """A curve for each score of the explanation; once for each text the search of the bounds."""
        if self.steps < 1 or self.width < 1:
            raise InvalidInput(f"normalised curves: steps={self.steps}, width={self.width}; both must be at least 1")
        counts = np.arange(1, min(self.steps, len(sample) - 1) + 1)
        ranking, full = rank_towards_prediction(classifier, sample, explanation, len(counts))
        if not ranking.ranks:
            return ranking.score()
        kept = ranking.log_odds(classifier, sample, lambda ranks: self.keep(ranks, counts))
        rule = classifier.removal
        key = (
            *("normalised-curve", classifier.identity(), type(rule).__qualname__, repr(vars(rule))),
            *(sample.ids.tobytes(), ranking.towards, self.deletes, self.steps, self.width),
        )
        lower, upper = context.once(key, lambda: self.bounds(classifier, sample, ranking.towards), asking=classifier)
        if reason := undefined.no_range(lower, upper):
            return Score({}, {**dict.fromkeys(ranking.ranks, reason), **ranking.reasons})
        shares = ((full - kept).mean(axis=1) - lower) / (upper - lower)
        score = ranking.score(np.clip(shares, 0.0, 1.0))
        if explanation.primary not in ranking.ranks:
            return score
        beyond = np.abs(shares - np.clip(shares, 0.0, 1.0))[list(ranking.ranks).index(explanation.primary)]
        outside = beyond > _ROUNDING
        return Score({**score.values, "beyond": float(beyond * outside), "outside": float(outside)}, score.undefined)

    def keep(self, ranks: Ints, counts: Ints) -> Bools:
        """Keep-masks (counts x n) with so many of the top tokens alone, or deleted."""
        return ranks >= counts[:, None] if self.deletes else ranks < counts[:, None]

    def bounds(self, classifier: Classifier, sample: Sample, towards: int) -> tuple[float, float]:
        """The lowest and the highest area that the search finds: of the model and the text, whatever the explainer."""
        n = len(sample)
        steps = min(self.steps, n - 1)

        def lost(chosen: Bools) -> Floats:
            """F(x) - F(what is kept) of chosen positions."""
            kept = ~chosen if self.deletes else chosen
            return full - classifier.log_odds(classifier.mask(sample, kept), towards)

        full = classifier.log_odds([sample.ids], towards)[0]
        found = extreme_orders(lost, n, steps, max(n // 4, 1) if self.deletes else min(2 * steps, n), self.width)
        return found.lowest.total / steps, found.highest.total / steps


@metric(
    "deletion-normalised",
    version=2,
    order=35,
    needs={"queries"},
    direction="higher",
    unit="share of the range",
    headline="@primary",
    relevant=0.02,
    bounds=(0, 1),
    default=False,
)
class DeletionNormalised(_NormalisedCurve):
    """Deletion in log-odds relative to the best (1) and worst (0) order of this text's tokens that a search finds.

    F_c is the log-odds of the predicted class c, and tokens are ranked by score towards c, ties by position; one value
    for each score. upper and lower are the highest and lowest A that `slalom_bench.numerics.orders.extreme_orders`
    finds, a beam search from three sources (single deletions, least squares on random ones, what comes beside the best
    so far), once for each model and text, whatever the explainers. No search proves a bound. A ranking that is measured
    joins it: above the highest A found it has 1, below the lowest 0. How far the primary score's share lay outside of
    the range is `beyond`, and `outside` is 1 where it did, so that a board shows how good the bounds are. Unsigned
    scores rank from the largest down. The same in both protocols. Needs queries: the bounds of a text of 256 tokens
    cost 3,000 to 6,000, as much as several methods of a usual budget, so that a run computes it only where it is asked
    for. Of 24 rankings measured (two minis, two texts, six methods) one was outside, by 3 % of the range.
    Undefined for texts of one token, for constant scores, where more than two classes are known and c is not the
    explained one, and where the bounds are equal.

    Formula:
        (A - lower) / (upper - lower), A = mean over k = 1..K of F_c(x) - F_c(x without its top k), K = min(steps, n -
          1)

    Choose it:
        To put texts and models on one scale, where the cost of a search for each text is no matter.

    Example:
        A method's order has A = 2, the best that the search finds 2.5, the worst -0.5: (2 + 0.5) / 3 = 0.83.

    Args:
        steps: the most tokens that are deleted.
        width: of the last beam.

    Reference:
        Edin et al. 2025, Normalized AOPC: Fixing Misleading Faithfulness Metrics for Feature Attributions
        Explainability, ACL (there in probability and over all tokens).
    """

    deletes = True


@metric(
    "insertion-normalised",
    version=2,
    order=36,
    needs={"queries"},
    direction="lower",
    unit="share of the range",
    headline="@primary",
    relevant=0.02,
    bounds=(0, 1),
    default=False,
)
class InsertionNormalised(_NormalisedCurve):
    """Insertion in log-odds relative to the best (0) and worst (1) order of this text's tokens that a search finds.

    As `deletion-normalised`; its queries are of few tokens, and cost a tenth of the time.

    Formula:
        (A - lower) / (upper - lower), A = mean over k = 1..K of F_c(x) - F_c(the top k of x alone), K = min(steps, n -
          1)

    Choose it:
        As `deletion-normalised`, for what is kept.

    Example:
        A method's order has A = 0.2, the best that the search finds -1, the worst 1: (0.2 + 1) / 2 = 0.6.

    Args:
        steps: the most tokens that are kept.
        width: of the last beam.

    Reference:
        Edin et al. 2025, Normalized AOPC: Fixing Misleading Faithfulness Metrics for Feature Attributions
        Explainability, ACL (there in probability and over all tokens).
    """

    deletes = False
