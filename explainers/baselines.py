"""The sanity floor: scores that know nothing of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.types import Explanation, Sample
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


@explainer("random", version=1, needs=(), stochastic=True, family="baseline")
class Random:
    """Standard normal scores: what a ranking is worth by chance. No query and no surrogate."""

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        return Explanation({"attribution": rng.standard_normal(len(sample))}, "attribution", classifier.target)


@explainer("zero", version=1, needs={"queries"}, stochastic=False, family="baseline")
class Zero:
    """No token matters: predicts that nothing changes, the fidelity that any surrogate has to beat. One query."""

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        (full,) = classifier.log_odds([sample.ids])
        scores = np.zeros(len(sample))
        return Explanation(
            {"attribution": scores}, "attribution", classifier.target, surrogate=LinearSurrogate.from_full(scores, full)
        )
