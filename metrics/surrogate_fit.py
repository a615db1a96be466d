"""Surrogate fit: can a linear model, a GAM or a SLALOM describe the model on new texts (Table 6)?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Explanation, Sample, Score
from slalom_bench.metrics._fitted import fitted
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier


@metric(
    "surrogate-fit",
    version=1,
    order=80,
    needs={"queries", "truth", "train"},
    direction="lower",
    unit="squared log-odds",
    headline="slalom",
    level="model",
    bounds=(0, None),
)
class SurrogateFitError:
    """Squared error, on this text, of a linear model, a GAM and a SLALOM fitted to the model's outputs elsewhere.

    The values are `linear`, `gam` and `slalom`. A property of the model, not of the explanation: every explainer has
    the same scores. Needs queries, truth and train. Undefined for a text with a token that the fresh texts do not have.

    Formula:
        (g(x) - F(x))^2, g: a linear model, a GAM or a SLALOM fitted to F on fresh texts

    Choose it:
        To ask of a model, not of a method, which family of surrogates can follow it at all.

    Example:
        The text "perfect perfect": the linear fit says 2 x 1.5 = 3, the model 2.2: 0.64. A SLALOM fit says 1.5,
        whatever the number: 0.49.

    Args:
        count: how many fresh texts the surrogates are fitted to, once per model and seed.

    Reference:
        Leemann et al. 2025, Table 6 (whose GAM is an under-fitted Lasso; this one contains the linear model).
    """

    def __init__(self, count: Count = 10_000) -> None:
        self.count = count

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """One query, and once for each model and seed the queries of the fits."""
        from slalom_bench.numerics.surrogate_fit import FAMILIES

        fit = fitted(classifier, context, self.count)
        if not fit.knows(sample.ids):
            return undefined.everywhere(FAMILIES, undefined.UNKNOWN_TOKEN)
        output = classifier.log_odds([sample.ids], target=1)
        return Score({name: float((value - output)[0] ** 2) for name, value in fit.predict([sample.ids]).items()})
