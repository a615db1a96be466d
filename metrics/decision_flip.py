"""Decision flip and sufficient share: how many top tokens change the decision when deleted, or carry it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Explanation, Sample, Score
from slalom_bench.metrics._rankings import rank_towards_prediction
from slalom_bench.numerics.orders import count_grid
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier


@metric(
    "decision-flip",
    version=1,
    order=40,
    needs={"queries"},
    direction="lower",
    unit="share of tokens",
    headline="@primary",
    relevant=0.01,
    bounds=(0, 1),
)
class DecisionFlip:
    """Share of the tokens that must be deleted, in the order of the scores, until the predicted class changes.

    With c the predicted class, tokens are ranked by score towards c, ties by position; one value for each score.
    Unsigned scores rank from the largest down. The class need not stay changed, so no bisection: every count of a grid
    is asked, which is 1, ..., n - 1 for texts of up to 65 tokens and 64 counts even on a log scale above (a share found
    there is the first of the grid, up to a factor (n - 1)^(1/63), 9 % at 256 tokens, above the true one). One token is
    always left. A text whose class never changes counts as 1; the value `never` is 1 for it and 0 for others, by the
    primary score. The same in both protocols. Needs queries. Undefined for texts of one token, for constant scores, and
    where more than two classes are known and c is not the explained one.

    Formula:
        min of k / n over counts k such that argmax F(x without its top k) is not c, the predicted class

    Choose it:
        For a number that people understand: how much must go before the answer changes.

    Example:
        A bag of words with weights good 2, film 0, dull -1 has F = 1, positive. Without the top token (good) F = -1:
        the class changes at k = 1 of 3, 0.33.

    Args:
        points: the most counts of the grid.

    Reference:
        Serrano and Smith 2019, Is Attention Interpretable?, ACL; Chrysostomou and Aletras 2021, Improving
        the Faithfulness of Attention-based Explanations with Task-specific Information for Text Classification, ACL.
    """

    def __init__(self, points: Count = 64) -> None:
        self.points = points

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All counts of all scores in one call."""
        n = len(sample)
        counts = count_grid(n - 1, self.points)
        ranking, _ = rank_towards_prediction(classifier, sample, explanation, len(counts))
        if not ranking.ranks:
            return ranking.score()
        logits = ranking.logits(classifier, sample, lambda ranks: ranks >= counts[:, None])
        flipped = logits.argmax(axis=2) != ranking.towards
        flips = flipped.any(axis=1)
        shares = np.where(flips, counts[flipped.argmax(axis=1)] / n, 1.0)
        score = ranking.score(shares)
        if explanation.primary not in ranking.ranks:
            reason = ranking.reasons[explanation.primary]
            return Score(score.values, {**score.undefined, "never": reason})
        never = not flips[list(ranking.ranks).index(explanation.primary)]
        return Score({**score.values, "never": float(never)}, score.undefined)


@metric(
    "sufficient-share",
    version=1,
    order=41,
    needs={"queries"},
    direction="lower",
    unit="share of tokens",
    headline="@primary",
    relevant=0.01,
    bounds=(0, 1),
)
class SufficientShare:
    """Smallest share of the tokens that alone, top-ranked first, give the predicted class and keep it from there on.

    The counts are those of a grid. The first count that gives c is not enough: where the model leans to c, one token of
    any kind would do. The whole text gives c, so that the share is 1 at most. Ranking, grid and undefined cases as for
    `decision-flip`.

    Formula:
        min of k / n over counts k such that argmax F(the top j of x alone) is c for every count j from k on

    Choose it:
        Beside `decision-flip`: how little is enough, instead of how much must go.

    Example:
        A bag of words with weights good 2, film 0, dull -1: good alone gives 2, good film 2, all 1, each positive: k =
        1 of 3, 0.33.

    Args:
        points: the most counts of the grid.

    Reference:
        The decision form of ERASER's sufficiency (DeYoung et al. 2020, ACL, section 4); smallest sufficient sets as in
        Carter et al. 2019, What Made You Do This? Understanding Black-Box Decisions with Sufficient Input Subsets,
        AISTATS.
    """

    def __init__(self, points: Count = 64) -> None:
        self.points = points

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All counts of all scores in one call."""
        n = len(sample)
        counts = count_grid(n - 1, self.points)
        ranking, _ = rank_towards_prediction(classifier, sample, explanation, len(counts))
        if not ranking.ranks:
            return ranking.score()
        logits = ranking.logits(classifier, sample, lambda ranks: ranks < counts[:, None])
        given = logits.argmax(axis=2) == ranking.towards
        kept_from = np.cumprod(given[:, ::-1], axis=1).sum(axis=1)
        return ranking.score(np.append(counts, n)[len(counts) - kept_from] / n)
