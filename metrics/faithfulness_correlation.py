"""Faithfulness correlation: do the scores of random groups of tokens add up to what removing the groups does?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core import undefined
from slalom_bench.core.halves import half_names
from slalom_bench.core.parameters import Count, Share
from slalom_bench.core.types import Bools, Explanation, Floats, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.correlation import pearson
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier


class _RandomRemovals(ABC):
    """Pearson correlation, over random sets of tokens, of their summed scores with what removing them does."""

    def __init__(self, masks: Count = 100, share: Share = 0.2) -> None:
        self.masks = masks
        self.share = share

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All masks in one call, the same for every explainer of a sample and for both metrics."""
        if self.masks < 2 or not 0 < self.share < 1:
            raise InvalidInput(f"faithfulness: masks={self.masks}, share={self.share}; at least 2, and between 0 and 1")
        if reason := undefined.too_few_points(len(sample), self.masks):
            return undefined.everywhere(explanation.scores, reason)
        keep = self._shared_masks(context, sample)
        full = np.ones((1, len(sample)), np.bool_)
        answers = classifier.targeting(explanation.target).masked_log_odds(sample, np.vstack([full, keep]))
        drops = answers[0] - answers[1:]
        results: dict[str, float | str] = {}
        for name, scores in explanation.scores.items():
            compared = self.compared(scores, drops, name, explanation)
            if isinstance(compared, str):
                results[name] = compared
                continue
            sums, against = ~keep @ compared[0], compared[1]
            results[name] = undefined.constant_scores(compared[0]) or _correlation(sums, against)
            if name == explanation.primary and not isinstance(results[name], str):
                halves = [_correlation(sums[start::2], against[start::2]) for start in (0, 1)]
                if not any(isinstance(half, str) for half in halves):
                    results |= dict(zip(half_names(name), halves, strict=True))
        return undefined.as_score(results)

    @abstractmethod
    def compared(
        self, scores: Floats, drops: Floats, name: str, explanation: Explanation
    ) -> tuple[Floats, Floats] | str:
        """What is summed over a set (n) and what the sums are compared with (masks), or why nothing is."""

    def _shared_masks(self, context: Context, sample: Sample) -> Bools:
        """A sample's keep-masks (masks x n): drawn once for all explainers, kept as bits."""
        n = len(sample)
        removed = min(max(1, round(self.share * n)), n - 1)

        def draw() -> NDArray[np.uint8]:
            """The masks, packed."""
            rng = context.rng("faithfulness-correlation", sample.id)
            return np.packbits(delete_counts(n, np.full(self.masks, removed), rng), axis=1)

        bits = context.once(("faithfulness-correlation", context.seed, sample.id, n, removed, self.masks), draw)
        return np.unpackbits(bits, axis=1, count=n).view(np.bool_)


@metric(
    "faithfulness-correlation",
    version=3,
    order=45,
    needs={"queries"},
    direction="higher",
    unit="correlation",
    headline="@primary",
    relevant=0.02,
    bounds=(-1, 1),
)
class FaithfulnessCorrelation(_RandomRemovals):
    """Correlation of the summed scores of randomly removed tokens with the drop of the log-odds.

    The sets have a fixed share of the tokens, F is the log-odds of the explained class; one value for each score. That
    of the primary score also on either half of the sets. The same sets for every explainer, and in both protocols.
    Needs queries. Undefined for unsigned scores (`faithfulness-strength` has them), for texts of one token, and where
    the sums or the drops are constant.

    Formula:
        Pearson correlation over random sets S of: sum over i in S of score_i, and F(x) - F(x without S)

    Choose it:
        For methods without a surrogate too: whether sums of scores go with what sets of tokens do, up to scale.

    Example:
        Scores 2, 0, -1 sum to 2, 0 and -1 over three sets; F drops by 4, 0 and -2: proportional, so the correlation is
        1, although every sum is half of the drop.

    Args:
        masks: how many sets.
        share: of the tokens in a set, rounded to whole tokens; one at least goes and one stays.

    Reference:
        Bhatt et al. 2020, Evaluating and Aggregating Feature-based Model Explanations, IJCAI.
    """

    def compared(
        self, scores: Floats, drops: Floats, name: str, explanation: Explanation
    ) -> tuple[Floats, Floats] | str:
        """Scores against the drop."""
        return undefined.unsigned_scores(name, explanation) or (scores, drops)


@metric(
    "faithfulness-strength",
    version=1,
    order=46,
    needs={"queries"},
    direction="higher",
    unit="correlation",
    headline="@primary",
    relevant=0.02,
    bounds=(-1, 1),
)
class FaithfulnessStrength(_RandomRemovals):
    """Correlation of the summed sizes of the scores of randomly removed tokens with the size of the change.

    As `faithfulness-correlation`, by size: one quantity for every method, those included whose scores have no sign
    (which stay as they are). Two metrics, because a column in which some methods are compared with the drop and others
    with its size ranks unlike things. Undefined as there, but for unsigned scores.

    Formula:
        Pearson correlation over random sets S of: sum over i in S of |score_i|, and |F(x) - F(x without S)|

    Choose it:
        To compare attention and norms with signed methods: who knows which tokens matter, whatever their direction.

    Example:
        Scores 2, 0, -1 have sizes 2, 0 and 1 over three sets of one token; F changes by 4, 0 and -2, sizes 4, 0 and 2:
        the correlation is 1.

    Args:
        masks: how many sets.
        share: of the tokens in a set, rounded to whole tokens; one at least goes and one stays.

    Reference:
        Bhatt et al. 2020, Evaluating and Aggregating Feature-based Model Explanations, IJCAI (there with the sign).
    """

    def compared(
        self, scores: Floats, drops: Floats, name: str, explanation: Explanation
    ) -> tuple[Floats, Floats] | str:
        """Sizes against the size of the drop."""
        return scores if name in explanation.unsigned else np.abs(scores), np.abs(drops)


def _correlation(sums: Floats, drops: Floats) -> float | str:
    """Pearson correlation, or why there is none."""
    return undefined.correlation(sums, drops) or pearson(sums, drops)
