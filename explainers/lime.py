"""LIME for text (Ribeiro et al. 2016) on token ids: the lime package's kernel and solver, our masks and batching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import additive, perturb
from slalom_bench.registry import explainer
from slalom_bench.surrogates import LinearSurrogate
from slalom_bench.types import Bools, Explanation, Floats, Sample

if TYPE_CHECKING:
    from slalom_bench.classifier import Classifier


def lime_masks(features: int, rows: int, empty_allowed: bool, rng: np.random.Generator) -> Bools:
    """LimeTextExplainer's samples: the first row whole, then 1..d features removed, how many and which uniform."""
    largest = features if empty_allowed else features - 1
    counts = rng.integers(min(1, largest), largest + 1, size=rows)
    counts[0] = 0
    return perturb.delete_counts(features, counts, rng)


def lime_fit(present: Bools, outputs: Floats, kernel_width: float = 25.0) -> tuple[Floats, float, float]:
    """Coefficients, intercept and weighted R^2 of lime's ridge (alpha 1) under its kernel on cosine distances."""
    from lime.lime_base import LimeBase

    # the cosine distance between a 0/1 row and the row of ones, times 100
    distances = 100.0 * (1.0 - np.sqrt(present.mean(axis=1)))
    base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / kernel_width**2)), random_state=0)
    intercept, pairs, fit, _ = base.explain_instance_with_data(
        present.astype(np.float64), outputs[:, None], distances, 0, present.shape[1], feature_selection="none"
    )
    weights = np.empty(present.shape[1])
    weights[[feature for feature, _ in pairs]] = [weight for _, weight in pairs]
    return weights, float(intercept), float(fit)


@explainer("lime", version=1, needs={"queries"}, stochastic=True, family="additive")
class Lime:
    """LIME: a locally weighted ridge on the presence of positions (or, with tie="token", of distinct tokens).

    Tied positions leave together: each has the token's coefficient as its score, and an equal share of it in the
    surrogate.
    """

    def __init__(self, tie: str = "position", kernel_width: float = 25.0) -> None:
        self.tie = tie
        self.kernel_width = kernel_width

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        additive.require_budget("lime", budget, 2, "the full input and one perturbation")
        feature = additive.features(sample, self.tie)
        present = lime_masks(int(feature.max()) + 1, budget, classifier.empty_allowed, rng)
        outputs = classifier.masked_log_odds(sample, present[:, feature])
        weights, intercept, fit = lime_fit(present, outputs, self.kernel_width)
        return Explanation(
            {"attribution": weights[feature]}, "attribution", classifier.target,
            surrogate=LinearSurrogate(additive.shares(weights, feature), intercept),
            diagnostics={"r2": fit, "features": len(weights)},
        )
