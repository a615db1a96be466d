"""Recovery: how close an explanation comes to the true log-odds of a synthetic task (Tables 7, 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Count
from slalom_bench.core.surrogate import Surrogate
from slalom_bench.core.types import Explanation, Floats, Ints, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.registry import metric
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_PARAMETERS = {"linear": ("weight",), "slalom": ("value", "importance")}


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

    `logit`: mean of (surrogate(S) - F_true(S))^2 over random sub-sequences S of the text, with from 1 to n tokens kept.
    `weight`, or `value` and `importance`: mean squared difference of parameters over the text's distinct tokens,
    importances centred over them. Needs truth and surrogate. Undefined without a surrogate, for a text with a token
    that is no word of the task, for parameters that the surrogate does not have, and for a single token's importance.

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
        kind = truth.get("kind")
        if kind not in _PARAMETERS:
            raise InvalidInput(f"recovery knows the truths {', '.join(_PARAMETERS)}, not {kind!r}")
        surrogate = explanation.surrogate
        true = _true_surrogate(truth, classifier.tokens.words(sample.ids), explanation.target)
        reason = undefined.no_surrogate(explanation) or undefined.unknown_token(true)
        if reason or surrogate is None or true is None:
            return undefined.everywhere(["logit", *_PARAMETERS[kind]], reason or undefined.NO_SURROGATE)
        rng = context.rng("recovery", sample.id)
        keep = delete_counts(len(sample), rng.integers(0, len(sample), self.masks), rng)
        error = float(np.mean((surrogate.predict(keep) - true.predict(keep)) ** 2))
        return undefined.as_score({"logit": error, **_parameter_errors(surrogate, true, sample.ids)})


def _true_surrogate(
    truth: Mapping[str, Any], words: list[str], target: int
) -> LinearSurrogate | SlalomSurrogate | None:
    """The true log-odds of one text as a surrogate over its positions; None where a token is no word of the task."""
    words = [word.strip() for word in words]
    tables = [truth[name] for name in _PARAMETERS[truth["kind"]]]
    if any(word not in table for table in tables for word in words):
        return None
    sign = 1.0 if target == 1 else -1.0
    effects = [sign * tables[0][word] for word in words]
    if truth["kind"] == "linear":
        return LinearSurrogate(effects, 0.0)
    return SlalomSurrogate(effects, [tables[1][word] for word in words])


def _parameter_errors(
    surrogate: Surrogate, true: LinearSurrogate | SlalomSurrogate, ids: Ints
) -> dict[str, float | str]:
    """Errors in the parameters that surrogate and truth have in common, per distinct token."""
    if isinstance(true, LinearSurrogate):
        if not isinstance(surrogate, LinearSurrogate):
            return {"weight": undefined.OTHER_SURROGATE}
        return {"weight": _mean_square(_per_token(surrogate.weights, ids) - _per_token(true.weights, ids))}
    if not isinstance(surrogate, SlalomSurrogate):
        return dict.fromkeys(_PARAMETERS["slalom"], undefined.OTHER_SURROGATE)
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
