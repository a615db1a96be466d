"""Symmetric relevance gain: deleting the most relevant tokens first against deleting the least relevant first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slalom_bench.core.parameters import Share
from slalom_bench.core.types import Explanation, Sample, Score
from slalom_bench.metrics._rankings import FRACTIONS, fraction_counts, rank_towards_prediction
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier


@metric(
    "srg",
    version=1,
    order=20,
    needs={"queries"},
    direction="higher",
    unit="log-odds",
    headline="@primary",
    relevant=0.05,
)
class SymmetricRelevanceGain:
    """How much more the log-odds fall when the top-ranked tokens are deleted than when the lowest-ranked are.

    With F_c the log-odds of the predicted class c, it is `deletion-log-odds` most relevant first minus the same least
    relevant first, so that what deleting any tokens does cancels; a random ranking has 0 in expectation. Tokens are
    ranked by score towards c, ties by position. Least relevant first is the same ranking from its end. Unsigned scores
    rank by their size, from the largest down, and so have a value too. The same in both protocols. Needs queries.
    Undefined for texts of one token, for constant scores, and where more than two classes are known and c is not the
    explained one.

    Formula:
        mean over fractions q of F_c(x without its lowest q) - F_c(x without its top q)

    Choose it:
        As the first metric of a ranking: it does not saturate, chance is 0, and what deleting any token does cancels.

    Example:
        A bag of words with weights good 2, film 0, dull -1, ranked so: without the lowest (dull) F = 2, without the top
        (good) F = -1: 3 at one token of three.

    Args:
        fractions: of the content tokens, each rounded up to whole tokens.

    Reference:
        Bluecher et al. 2024, Decoupling Pixel Flipping and Occlusion Strategy for Consistent XAI Benchmarks, TMLR.
    """

    def __init__(self, fractions: Sequence[Share] = FRACTIONS) -> None:
        self.fractions = tuple(fractions)

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """The queries of `deletion`, which the handle answers once for both, and as many from the ranking's end."""
        n = len(sample)
        counts = fraction_counts(self.fractions, n, classifier.empty_allowed)
        ranking, _ = rank_towards_prediction(classifier, sample, explanation, len(counts))
        if not ranking.ranks:
            return ranking.score()
        without_top = ranking.log_odds(classifier, sample, lambda ranks: ranks >= counts[:, None])
        without_lowest = ranking.log_odds(classifier, sample, lambda ranks: ranks < n - counts[:, None])
        return ranking.score((without_lowest - without_top).mean(axis=1))
