"""Multi-class SLALOM (appendix C.1): all classes in one fit, with one importance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.slalom import features, need, short_sequences, slalom_scores
from slalom_bench.numerics import masks
from slalom_bench.registry import explainer
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


def centred(logits: Floats) -> Floats:
    """Less their mean over the classes."""
    return logits - logits.mean(axis=1, keepdims=True)


@explainer("slalom-multiclass", version=4, needs={"queries"}, stochastic=True, family="slalom")
class SlalomMulticlass:
    """One importance and a value per class, fitted to all centred logits at once (appendix C.1).

    `samples`: eff (short random sequences of `length` tokens) or fidel (0 to 5 random deletions). Scores are those of
    the target against the mean of the other classes; `value-CLASS` are the classes' own values, which sum to 0.
    """

    def __init__(self, samples: str = "eff", tie: str = "token", length: int = 2) -> None:
        self.samples = samples
        self.tie = tie
        self.length = length

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        from slalom_bench.numerics.fits import fit_slalom
        from slalom_bench.surrogates.multiclass_slalom import MulticlassSlalom

        need(budget, 1, "each is one sequence")
        parts = features(sample, self.tie)
        within = 0.0
        if self.samples == "eff":
            asked = short_sequences(parts, budget, self.length, rng)
            logits, within = asked.means(centred(classifier.logits(asked.sequences)))
            design, weights = asked.design, asked.weights
        elif self.samples == "fidel":
            keep, weights = masks.small_deletions(len(sample), budget, rng)
            logits, design = centred(classifier.logits(classifier.mask(sample, keep))), parts.design(keep)
        else:
            raise InvalidInput(f"samples must be eff or fidel, not {self.samples!r}")
        axes = np.linalg.qr(centred(np.eye(logits.shape[1])))[0][:, :-1]  # centred logits have a dimension less
        fit = fit_slalom(design, logits @ axes, weights=weights)
        values = centred(fit.value @ axes.T)
        surrogate = MulticlassSlalom(values[parts.of], fit.importance[parts.of], classifier.target)
        scores = slalom_scores(SlalomSurrogate(surrogate.value, surrogate.importance))
        for name, column in zip(classifier.class_names, surrogate.values.T, strict=True):
            scores[f"value-{name}"] = column
        report = {**fit.diagnostics(), "mse": fit.mse + within, "features": len(parts)}
        return Explanation(scores, "lin", classifier.target, frozenset({"importance"}), surrogate, report)
