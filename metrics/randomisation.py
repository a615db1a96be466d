"""Parameter randomisation: does an explanation change when the model forgets what it has learnt?"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Explanation, Floats, Sample, Score
from slalom_bench.handle.backend import RandomisableBackend
from slalom_bench.numerics.correlation import spearman
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_MEANS = ("similarity", "signed", "all")


@metric(
    "randomisation",
    version=1,
    order=90,
    needs={"queries"},
    direction="lower",
    unit="rank correlation",
    headline="similarity",
    relevant=0.02,
    curve="parts randomised, from the top",
    default=False,
    bounds=(0, 1),
)
class Randomisation:
    """Similarity of an explanation with that of the same model after its parameters were drawn anew, from the top down.

    k1, k2, ...: |Spearman correlation| of the primary scores before and after, with the top 1, 2, ... parts randomised
    (the head, each layer from the last, the embeddings); `similarity`: their mean; `all`: the last of them, nothing
    learnt being left; `signed`: the mean of the correlations with their sign. Unsigned scores are compared by absolute
    value. The sign is left out of the headline because a random head turns the log-odds round as often as not: scores
    that turn with them keep their ranking. The explainer explains again with its own budget and seed.

    Lower is better, and two unrelated rankings of n tokens have about 0.8 / sqrt(n). A method that does not look at the
    parameters scores 1: `random` does, because the same seed draws the same scores, and that is the point. It is a
    sanity check: a low value is necessary for faithfulness and says nothing more. Needs queries and one explanation a
    part, so that a run computes it only where it is asked for by name. Undefined where explanations were computed
    elsewhere, for models that cannot be randomised (`RandomisableBackend`), and for constant scores (`zero`) before or
    after.

    Formula:
        similarity = mean over k of |Spearman correlation of the scores before and after the top k parts are randomised|

    Choose it:
        As a sanity check of a method: one that keeps its scores when the weights are gone explains the text, not the
        model.

    Example:
        With the head randomised the correlation is -0.8, with everything randomised 0.1: (0.8 + 0.1) / 2 = 0.45.

    Reference:
        Adebayo et al. 2018, Sanity Checks for Saliency Maps, NeurIPS, section 3 (cascading randomisation; here each
        tensor is drawn from the normal law of its own mean and standard deviation).
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """One explanation for each part of the model; all explainers and texts meet the same random parameters."""
        if context.explain is None:
            return undefined.everywhere(_MEANS, undefined.NO_EXPLAINER)
        if not isinstance(classifier.backend, RandomisableBackend):
            return undefined.everywhere(_MEANS, undefined.NOT_RANDOMISABLE)
        before = _primary(explanation)
        if reason := undefined.correlation(before, np.arange(float(len(before)))):
            return undefined.everywhere(_MEANS, reason)
        seed = int(context.rng("randomisation").integers(2**31))
        results: dict[str, float | str] = {}
        for part, backend in enumerate(classifier.backend.cascade(seed), start=1):
            after = _primary(context.explain(classifier.on(backend), sample))
            results[f"k{part}"] = undefined.constant_scores(after) or spearman(before, after)
        return undefined.as_score({**_magnitudes(results), **_means(list(results.values()))})


def _primary(explanation: Explanation) -> Floats:
    scores = explanation.scores[explanation.primary]
    return np.abs(scores) if explanation.primary in explanation.unsigned else scores


def _magnitudes(found: dict[str, float | str]) -> dict[str, float | str]:
    return {name: value if isinstance(value, str) else abs(value) for name, value in found.items()}


def _means(found: list[float | str]) -> dict[str, float | str]:
    """The means over all parts; undefined where one of them is."""
    last = found[-1]
    numbers = [value for value in found if not isinstance(value, str)]
    reasons = [value for value in found if isinstance(value, str)]
    means: dict[str, float | str] = (
        dict.fromkeys(("similarity", "signed"), reasons[0])
        if reasons
        else {"similarity": fmean(map(abs, numbers)), "signed": fmean(numbers)}
    )
    return {**means, "all": last if isinstance(last, str) else abs(last)}
