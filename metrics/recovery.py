"""Recovery: how close an explanation comes to the law that a synthetic task's labels were drawn from (Tables 7, 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core import undefined
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

PARAMETERS = {"linear": ("weight",), "slalom": ("value", "importance")}


@metric(
    "recovery",
    version=1,
    order=70,
    needs={"truth", "surrogate"},
    direction="lower",
    unit="squared log-odds",
    headline="logit",
)
class Recovery:
    """Mean squared error against the true law, in logit space and in parameter space.

    `logit`: surrogate against true log-odds over random sub-sequences of the text, with from 1 to n tokens kept.
    `weight`, or `value` and `importance`: over the text's distinct tokens, importances centred over them.
    """

    def __init__(self, masks: int = 100) -> None:
        """`masks`: how many sub-sequences; they cost no model queries."""
        self.masks = masks

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        truth = context.task.truth
        kind = truth.get("kind")
        if kind not in PARAMETERS:
            raise InvalidInput(f"recovery knows the truths {', '.join(PARAMETERS)}, not {kind!r}")
        surrogate = explanation.surrogate
        law = true_law(truth, classifier.tokens.words(sample.ids), explanation.target)
        reason = undefined.no_surrogate(explanation) or undefined.unknown_token(law)
        if reason or surrogate is None or law is None:
            return undefined.everywhere(["logit", *PARAMETERS[kind]], reason or undefined.NO_SURROGATE)
        rng = context.rng("recovery", sample.id)
        keep = delete_counts(len(sample), rng.integers(0, len(sample), self.masks), rng)
        error = float(np.mean((surrogate.predict(keep) - law.predict(keep)) ** 2))
        return undefined.as_score({"logit": error, **parameter_errors(surrogate, law, sample.ids)})


def true_law(truth: Mapping[str, Any], words: list[str], target: int) -> LinearSurrogate | SlalomSurrogate | None:
    """The law of one text as a surrogate over its positions; None where a token is no word of the law."""
    words = [word.strip() for word in words]
    tables = [truth[name] for name in PARAMETERS[truth["kind"]]]
    if any(word not in table for table in tables for word in words):
        return None
    sign = 1.0 if target == 1 else -1.0
    effects = [sign * tables[0][word] for word in words]
    if truth["kind"] == "linear":
        return LinearSurrogate(effects, 0.0)
    return SlalomSurrogate(effects, [tables[1][word] for word in words])


def parameter_errors(surrogate: Surrogate, law: LinearSurrogate | SlalomSurrogate, ids: Ints) -> dict[str, float | str]:
    """Errors in the parameters that surrogate and law have in common, per distinct token."""
    if isinstance(law, LinearSurrogate):
        if not isinstance(surrogate, LinearSurrogate):
            return {"weight": undefined.OTHER_SURROGATE}
        return {"weight": squared(per_token(surrogate.weights, ids) - per_token(law.weights, ids))}
    if not isinstance(surrogate, SlalomSurrogate):
        return dict.fromkeys(PARAMETERS["slalom"], undefined.OTHER_SURROGATE)
    gap = per_token(surrogate.importance, ids) - per_token(law.importance, ids)
    return {
        "value": squared(per_token(surrogate.value, ids) - per_token(law.value, ids)),
        "importance": undefined.one_token(len(gap)) or squared(gap - gap.mean()),
    }


def per_token(values: Floats, ids: Ints) -> Floats:
    """The mean over each distinct token's positions."""
    inverse = np.unique(ids, return_inverse=True)[1]
    return np.bincount(inverse, values) / np.bincount(inverse)


def squared(errors: Floats) -> float:
    return float(np.mean(errors**2))
