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

    Needs nothing; fidelity is undefined.

    Formula:
        score_i ~ N(0, 1)

    Choose it:
        As the floor of every ranking metric, never as an explanation.

    Example:
        Of four tokens each comes first with chance 1/4, whatever the text says; `srg` is 0 in expectation.

    Reference:
        None: chance. What sanity checks compare with (Adebayo et al. 2018).
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """Draws from the generator; the model is not asked."""
        return Explanation({"attribution": rng.standard_normal(len(sample))}, "attribution", classifier.target)


@explainer("zero", version=1, needs={"queries"}, stochastic=False, family="baseline")
class Zero:
    """No token matters: predicts that nothing changes, the fidelity that any surrogate has to beat. One query.

    Needs queries. Constant scores rank nothing: metrics of rankings are undefined.

    Formula:
        score_i = 0, F(S) = F(full)

    Choose it:
        As the floor of every fidelity metric, never as an explanation.

    Example:
        Removing tokens moves F by -2 and by 2; predicted is 0 both times. Error (4 + 4) / 2 = 4, over the mean square
        of the change 4: 1.

    Reference:
        None: the prediction of no change, by which the `fidelity-*` metrics are normalised.
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One query: the full input, for the level of the surrogate."""
        (full,) = classifier.log_odds([sample.ids])
        scores = np.zeros(len(sample))
        return Explanation(
            {"attribution": scores}, "attribution", classifier.target, surrogate=LinearSurrogate.from_full(scores, full)
        )
