"""Recovery: how close an explanation comes to the true log-odds of a synthetic task (Tables 7, 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Count
from slalom_bench.core.surrogate import Surrogate
from slalom_bench.core.types import Explanation, Floats, Ints, Sample, Score
from slalom_bench.metrics._fitted import fitted
from slalom_bench.metrics._truth import PARAMETERS, true_surrogate, truth_kind
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.registry import metric
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier


@metric(
    "recovery",
    version=1,
    order=70,
    needs={"truth", "surrogate"},
    direction="lower",
    unit="squared log-odds",
    headline="logit",
    scale="log",
    relevant=0.05,
)
class Recovery:
    """Mean squared error against the true log-odds of a synthetic task, in logit space and in parameter space.

    The sub-sequences S are random, with from 1 to n tokens kept; importances are centred over the text's distinct
    tokens. Needs truth and surrogate. Undefined without a surrogate, for a text with a token that is no word of the
    task, for parameters that the surrogate does not have, and for a single token's importance.

    Formula:
        logit: mean over sub-sequences S of (surrogate(S) - F_true(S))^2
        weight, value, importance: mean over distinct tokens of (found - true)^2

    Choose it:
        On synthetic tasks, where the truth is known.

    Example:
        True weights 2 and -1, found 1.8 and -1: parameter error (0.04 + 0) / 2 = 0.02. Kept both: (0.8 - 1)^2 = 0.04 in
        the logit.

    Args:
        masks: how many sub-sequences; they cost no model queries.

    Reference:
        Leemann et al. 2025, Tables 7 and 8 (which may be squares of mean errors).
    """

    def __init__(self, masks: Count = 100) -> None:
        self.masks = masks

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """No query: the truth is known in closed form."""
        truth = context.task.truth
        kind = truth_kind(truth)
        surrogate = explanation.surrogate
        true = true_surrogate(truth, classifier.tokens.words(sample.ids), explanation.target)
        reason = undefined.no_surrogate(explanation) or undefined.unknown_token(true)
        if reason or surrogate is None or true is None:
            return undefined.everywhere(["logit", *PARAMETERS[kind]], reason or undefined.NO_SURROGATE)
        rng = context.rng("recovery", sample.id)
        keep = delete_counts(len(sample), rng.integers(0, len(sample), self.masks), rng)
        error = float(np.mean((surrogate.predict(keep) - true.predict(keep)) ** 2))
        return undefined.as_score({"logit": error, **_parameter_errors(surrogate, true, sample.ids)})


@metric(
    "global-recovery",
    version=1,
    order=71,
    needs={"queries", "truth", "train"},
    direction="lower",
    unit="squared log-odds",
    headline="logit",
    bounds=(0, None),
    level="model",
    default=False,
)
class GlobalRecovery:
    """Squared error of one SLALOM, fitted to the model's outputs on fresh texts, against the truth of a synthetic task.

    g is the SLALOM of `surrogate-fit`; importances are centred over the text's distinct tokens. A property of the
    model, not of the explanation: every explainer has the same scores. Needs queries, truth and train. Undefined for a
    text with a token that is no word of the task or of the fresh texts, for parameters that the truth does not have,
    and for a single token's importance.

    Formula:
        logit: (g(x) - F_true(x))^2, g: one SLALOM fitted to F on fresh texts
        value, importance: mean over distinct tokens of (found - true)^2

    Choose it:
        To ask whether a trained model has learnt a SLALOM that is known. Whether a method finds it on one text:
        `recovery`.

    Example:
        True values 2 and -1, found 1.8 and -1: (0.04 + 0) / 2 = 0.02.

    Args:
        count: how many fresh texts the SLALOM is fitted to, once per model and seed.

    Reference:
        Leemann et al. 2025, Fig. 4 (c, d), Tables 7 and 8 (which may be squares of mean errors).
    """

    def __init__(self, count: Count = 10_000) -> None:
        self.count = count

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """Once for each model and seed the queries of the fit."""
        truth = context.task.truth
        names = ("logit", *PARAMETERS[truth_kind(truth)])
        fit = fitted(classifier, context, self.count)
        true = true_surrogate(truth, classifier.tokens.words(sample.ids), 1)
        if true is None or not fit.knows(sample.ids):
            return undefined.everywhere(names, undefined.UNKNOWN_TOKEN)
        found = fit.slalom_surrogate(sample.ids)
        whole = np.ones((1, len(sample)), np.bool_)
        error = float((found.predict(whole) - true.predict(whole))[0] ** 2)
        return undefined.as_score({"logit": error, **_parameter_errors(found, true, sample.ids)})


def _parameter_errors(
    surrogate: Surrogate, true: LinearSurrogate | SlalomSurrogate, ids: Ints
) -> dict[str, float | str]:
    """Errors in the parameters that surrogate and truth have in common, per distinct token."""
    if isinstance(true, LinearSurrogate):
        if not isinstance(surrogate, LinearSurrogate):
            return {"weight": undefined.OTHER_SURROGATE}
        return {"weight": _mean_square(_per_token(surrogate.weights, ids) - _per_token(true.weights, ids))}
    if not isinstance(surrogate, SlalomSurrogate):
        return dict.fromkeys(PARAMETERS["slalom"], undefined.OTHER_SURROGATE)
    gap = _per_token(surrogate.importance, ids) - _per_token(true.importance, ids)
    return {
        "value": _mean_square(_per_token(surrogate.value, ids) - _per_token(true.value, ids)),
        "importance": undefined.one_token(len(gap)) or _mean_square(gap - gap.mean()),
    }


def _per_token(values: Floats, ids: Ints) -> Floats:
    """The mean over each distinct token's positions."""
    inverse = np.unique(ids, return_inverse=True)[1]
    return np.bincount(inverse, values) / np.bincount(inverse)


def _mean_square(errors: Floats) -> float:
    return float(np.mean(errors**2))
