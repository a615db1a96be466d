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
    """Standard normal scores: what a ranking is worth by chance. No query and no surrogate.

    score_i ~ N(0, 1). Needs nothing; fidelity is undefined.
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """Draws from the generator; the model is not asked."""
        return Explanation({"attribution": rng.standard_normal(len(sample))}, "attribution", classifier.target)


@explainer("zero", version=1, needs={"queries"}, stochastic=False, family="baseline")
class Zero:
    """No token matters: predicts that nothing changes, the fidelity that any surrogate has to beat. One query.

    score_i = 0 and F(S) = F(full). Needs queries. Constant scores rank nothing: metrics of rankings are undefined.
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One query: the full input, for the level of the surrogate."""
        (full,) = classifier.log_odds([sample.ids])
        scores = np.zeros(len(sample))
        return Explanation(
            {"attribution": scores}, "attribution", classifier.target, surrogate=LinearSurrogate.from_full(scores, full)
        )
