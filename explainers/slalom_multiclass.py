"""Multi-class SLALOM (appendix C.1): all classes in one fit, with one importance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.parameters import Length
from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.slalom import short_sequences, slalom_scores
from slalom_bench.numerics import masks
from slalom_bench.numerics.features import tied_features
from slalom_bench.registry import explainer
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


def _centred(logits: Floats) -> Floats:
    """Logits less their mean over the classes."""
    return logits - logits.mean(axis=1, keepdims=True)


@explainer("slalom-multiclass", version=4, needs={"queries"}, stochastic=True, family="slalom")
class SlalomMulticlass:
    """One importance and a value per class, fitted to all centred logits at once (appendix C.1).

    Scores are those of the target against the mean of the other classes; `value-CLASS` are the classes' own values,
    which sum to 0. Needs queries, a budget of at least 1. With two classes the value is 2 v_1, the binary one.

    Formula:
        l_c(S) - mean_c l_c(S) = sum_S w_i v_ic / sum_S w_i, w = exp(s), sum_c v_ic = 0

    Choose it:
        For more than two classes, to see with one importance which class each token speaks for.

    Example:
        Two tokens of equal weight with values (1, -1, 0) and (0, 1, -1) for three classes: centred logits (0.5, 0,
        -0.5).

    Args:
        samples: `eff` (short random sequences of `length` tokens) or `fidel` (0 to 5 random deletions).
        tie: `token` (as published: positions of one token id share v and s) or `position`.
        length: of the short sequences.

    Reference:
        Leemann et al. 2025, appendix C.1 (whose count of free parameters, corrected, is |Y||V| - 1).
    """

    def __init__(self, samples: str = "eff", tie: str = "token", length: Length = 2) -> None:
        self.samples = samples
        self.tie = tie
        self.length = length

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """As many queries as the budget allows, all classes of each, and one fit."""
        from slalom_bench.numerics.fits import fit_slalom
        from slalom_bench.surrogates.multiclass_slalom import MulticlassSlalom

        require_budget("slalom-multiclass", budget, 1, "each is one sequence")
        features = tied_features(sample, self.tie)
        order_variance = 0.0
        if self.samples == "eff":
            queries = short_sequences(features, budget, self.length, rng)
            logits, order_variance = queries.means(_centred(classifier.logits(queries.sequences)))
            design, weights = queries.design, queries.weights
        elif self.samples == "fidel":
            keep, weights = masks.small_deletions(len(sample), budget, rng)
            logits, design = _centred(classifier.logits(classifier.mask(sample, keep))), features.design(keep)
        else:
            raise InvalidInput(f"samples must be eff or fidel, not {self.samples!r}")
        axes = np.linalg.qr(_centred(np.eye(logits.shape[1])))[0][:, :-1]  # centred logits have a dimension less
        fit = fit_slalom(design, logits @ axes, weights=weights)
        values = _centred(fit.value @ axes.T)
        surrogate = MulticlassSlalom(
            values[features.of_position], fit.importance[features.of_position], classifier.target
        )
        scores = slalom_scores(SlalomSurrogate(surrogate.value, surrogate.importance))
        for name, column in zip(classifier.class_names, surrogate.values.T, strict=True):
            scores[f"value-{name}"] = column
        report = {**fit.diagnostics(), "mse": fit.mse + order_variance, "features": len(features)}
        return Explanation(scores, "lin", classifier.target, frozenset({"importance"}), surrogate, report)
