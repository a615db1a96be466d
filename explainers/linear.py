"""Additive explanations read off deletions: one at a time, or by least squares on SLALOM-fidel's samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.numerics import additive, masks
from slalom_bench.numerics.features import tied_features
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


@explainer("leave-one-out", version=1, needs={"queries"}, stochastic=False, family="additive")
class LeaveOneOut:
    """F(full) - F(without i) for every position i; n + 1 queries.

    Needs queries, a budget of at least n + 1; no randomness. The surrogate is F(S) = F(full) - sum of the removed
    scores. Where a sample's only token may not be removed, its effect cannot be seen and its score is 0.

    Formula:
        score_i = F(full) - F(without i)

    Choose it:
        For the exact effect of every single token. It sees nothing where one token can stand in for another: then
        `occlusion-window`, or a regression.

    Example:
        A bag of words with weights good 2, film 0, dull -1: F(full) = 1; without good F = -1, without film 1, without
        dull 2. Scores 2, 0, -1.

    Reference:
        Li, Monroe and Jurafsky 2016, Understanding Neural Networks through Representation Erasure.
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The full input and every single deletion, in one call."""
        n = len(sample)
        require_budget("leave-one-out", budget, n + 1, f"the full input and one for each of {n} tokens")
        keep = np.vstack([np.ones((1, n), np.bool_), ~np.eye(n, dtype=np.bool_)])
        if n == 1 and not classifier.empty_allowed:
            keep[1] = True
        full, *without = classifier.masked_log_odds(sample, keep)
        scores = full - np.array(without)
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, full),
        )


@explainer("linear-deletion", version=3, needs={"queries"}, stochastic=True, family="additive")
class LinearDeletion:
    """Least squares of F on deletion indicators, with the masks of slalom-fidel: the in-distribution additive baseline.

    Needs queries, a budget of at least 2. Positions that the masks never told apart share their effect (least norm).

    Formula:
        min over w, w_0 of the weighted mean of (F(S) - w_0 - sum over i in S of w_i)^2
        over the masks S of `slalom_bench.numerics.masks.small_deletions`

    Choose it:
        As the additive baseline that any other surrogate has to beat, and for a black box where small edits are the
        question.

    Example:
        A bag of words with weights good 2, film 0, dull -1 is a line in the masks: least squares finds the weights 2,
        0, -1 and w_0 = 0.

    Args:
        tie: `position`, or `token` for one coefficient for all positions of a token id.
        largest: the most positions deleted at once.
        law: a registered mask law to be fitted to in the place of its own, so that methods can be compared at one law.

    Reference:
        The additive counterpart of Leemann et al. 2025, Algorithm 2; absent from the paper's Fig. 6.
    """

    def __init__(self, tie: str = "position", largest: Count = 5, law: str = "") -> None:
        self.tie = tie
        self.largest = largest
        self.law = law

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """As many deletions as the budget allows, and one least squares fit."""
        require_budget("linear-deletion", budget, 2, "a slope and an intercept")
        if self.law:
            keep, shares = fitting_masks(self.law, registry.laws.build(self.law), sample, budget, rng)
        else:
            keep, shares = masks.small_deletions(len(sample), budget, rng, self.largest)
        outputs = classifier.masked_log_odds(sample, keep)
        feature = tied_features(sample, self.tie).of_position
        kept = keep.astype(np.float64)
        if self.tie != "position":
            kept = kept @ np.eye(feature.max() + 1)[feature]
        shares /= shares.sum()
        centre, mean = shares @ kept, float(shares @ outputs)
        weights, rank = additive.least_squares(kept - centre, outputs - mean, shares)
        residuals = outputs - mean - (kept - centre) @ weights
        scores = weights[feature]
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate(scores, mean - float(centre @ weights)),
            diagnostics={
                "mse": float(shares @ residuals**2),
                "rank": rank,
                "features": len(weights),
                "law": self.law or f"0 to {self.largest} random deletions",
            },
        )
