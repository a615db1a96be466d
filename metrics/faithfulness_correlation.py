"""Faithfulness correlation: do the scores of random groups of tokens add up to what removing the groups does?"""

from __future__ import annotations

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


@metric(
    "faithfulness-correlation",
    version=2,
    order=45,
    needs={"queries"},
    direction="higher",
    unit="correlation",
    headline="@primary",
    relevant=0.02,
    bounds=(-1, 1),
)
class FaithfulnessCorrelation:
    """Correlation of the summed scores of randomly removed tokens with the drop of the log-odds.

    The sets have a fixed share of the tokens, F is the log-odds of the explained class; one value for each score.
    Unsigned scores are compared with the absolute drop. That of the primary score also on either half of the sets. The
    same sets for every explainer, and in both protocols. Needs queries. Undefined for texts of one token, and where the
    sums or the drops are constant.

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

    def __init__(self, masks: Count = 100, share: Share = 0.2) -> None:
        self.masks = masks
        self.share = share

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All masks in one call, the same for every explainer of a sample."""
        if self.masks < 2 or not 0 < self.share < 1:
            raise InvalidInput(
                f"faithfulness-correlation: masks={self.masks}, share={self.share}; at least 2, and between 0 and 1"
            )
        if reason := undefined.too_few_points(len(sample), self.masks):
            return undefined.everywhere(explanation.scores, reason)
        keep = self._shared_masks(context, sample)
        full = np.ones((1, len(sample)), np.bool_)
        answers = classifier.targeting(explanation.target).masked_log_odds(sample, np.vstack([full, keep]))
        drops = answers[0] - answers[1:]
        results: dict[str, float | str] = {}
        for name, scores in explanation.scores.items():
            sums, against = ~keep @ scores, np.abs(drops) if name in explanation.unsigned else drops
            results[name] = undefined.constant_scores(scores) or _correlation(sums, against)
            if name == explanation.primary and not isinstance(results[name], str):
                halves = [_correlation(sums[start::2], against[start::2]) for start in (0, 1)]
                if not any(isinstance(half, str) for half in halves):
                    results |= dict(zip(half_names(name), halves, strict=True))
        return undefined.as_score(results)

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


def _correlation(sums: Floats, drops: Floats) -> float | str:
    """Pearson correlation, or why there is none."""
    return undefined.correlation(sums, drops) or pearson(sums, drops)
