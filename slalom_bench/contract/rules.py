"""The rules of the contract: each takes a candidate and returns the measured fact, or raises."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from slalom_bench.contract import conservation as conservation
from slalom_bench.contract import invariance as invariance
from slalom_bench.contract import models as models
from slalom_bench.contract.candidate import Candidate, told
from slalom_bench.contract.harness import (
    BUDGET,
    LENGTH,
    NotApplicable,
    Violation,
    explained,
    handle,
    run,
    same_bits,
    supported,
    text,
)
from slalom_bench.core.seeds import generator
from slalom_bench.core.surrogate import Surrogate
from slalom_bench.core.types import Example, Explanation, Floats, Sample
from slalom_bench.errors import BudgetExceeded, InvalidInput, Unsupported
from slalom_bench.numerics.correlation import ranks
from slalom_bench.running.records import explanation_from_dict, surrogate_from_dict
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

SMALL_BUDGETS = (1, 2, 5, 20, 100, BUDGET)
LONG = 510
LONG_BUDGET = 1100
TEXTS = 10
CLEARLY = 0.75
"""AUROC of planted tokens: four standard errors above chance (0.5) for ten texts with 3 planted of 12 tokens."""
CAPABILITIES = frozenset({"queries", "gradients", "attentions", "lrp", "values", "deeplift"})


# ---- what it says of itself ----


def declares(candidate: Candidate) -> str:
    """Needs, stochastic, family and version are declared, with values the engine knows."""
    wrong = []
    if candidate.needs is None or not candidate.needs <= CAPABILITIES:
        given = "nothing" if candidate.needs is None else sorted(candidate.needs)
        wrong.append(f"needs: a subset of {sorted(CAPABILITIES)}, not {given}")
    if not isinstance(candidate.stochastic, bool):
        wrong.append(f"stochastic: True or False, not {candidate.stochastic!r}")
    if not isinstance(candidate.family, str) or not candidate.family:
        wrong.append(f"family: a word such as additive, not {candidate.family!r}")
    if not isinstance(candidate.version, int) or candidate.version < 1:
        wrong.append(f"version: 1 or more, not {candidate.version!r}")
    if wrong:
        raise Violation("; ".join(wrong) + " (use @explainer or class attributes)")
    limited = handle()
    limited.backend.capabilities = candidate.needs or frozenset()
    try:
        run(candidate, limited, text())
    except Unsupported as error:
        raise Violation(f"uses more of the model than it declares to need: {error}") from error
    kind = "stochastic" if candidate.stochastic else "deterministic"
    needs = ", ".join(sorted(candidate.needs or ())) or "nothing"
    return f"version {candidate.version}, {kind}, family {candidate.family}, needs {needs}"


def constructor(candidate: Candidate) -> str:
    """The constructor only stores its parameters, all of them have defaults, and explaining leaves them alone."""
    if candidate.instance is None:
        raise Violation(f"cannot be built without arguments ({candidate.problem})")
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(candidate.factory).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    stored = dict(vars(candidate.instance)) if hasattr(candidate.instance, "__dict__") else {}
    if missing := [name for name in parameters if name not in stored]:
        raise Violation(f"parameter {missing[0]!r} is not stored as an attribute of that name")
    if extra := sorted(stored.keys() - parameters.keys()):
        raise Violation(f"the constructor makes an attribute {extra[0]!r} that is no parameter")
    for name, parameter in parameters.items():
        if candidate.is_default and stored[name] is not parameter.default and stored[name] != parameter.default:
            raise Violation(f"parameter {name!r}: the default {parameter.default!r} is stored as {stored[name]!r}")
    before = repr(stored)
    explained(candidate)
    if repr(vars(candidate.instance) if stored else {}) != before:
        raise Violation("explaining changed the explainer's own attributes")
    return f"stores {', '.join(parameters)}" if parameters else "takes no parameters"


# ---- what it returns ----


def shape(candidate: Candidate) -> str:
    """One finite number per content token and score, towards the class that was asked for; JSON keeps it exactly."""
    for make, target in ((models.three_classes, 2), (models.random_bert, 0), (models.random_bert, 1)):
        explanation, _, sample = run(candidate, handle(make).targeting(target), text())
        if len(explanation) != len(sample):
            raise Violation(f"{len(explanation)} scores for {len(sample)} content tokens")
        if explanation.target != target:
            raise Violation(f"asked for class {target}, the explanation says class {explanation.target}")
    stored = explanation_from_dict(json.loads(json.dumps(explanation.to_dict(), allow_nan=False)))
    if not same_bits(explanation, stored):
        raise Violation("the explanation changes when stored as JSON")
    return f"{len(explanation)} finite numbers for {len(sample)} tokens in each of: {', '.join(explanation.scores)}"


def budget(candidate: Candidate) -> str:
    """Never more queries than the budget, all of them through the handle; too small a budget is an InvalidInput."""
    used, refused = {}, []
    for limit in SMALL_BUDGETS:
        classifier = handle()
        seen = count_backend(classifier.backend)
        try:
            _, cost, _ = run(candidate, classifier, text(), budget=limit)
        except BudgetExceeded as error:
            raise Violation(f"budget {limit}: {error}") from error
        except InvalidInput as error:
            if not any(c.isdigit() for c in str(error)):
                raise Violation(f"budget {limit} is refused without naming the minimum: {error}") from error
            refused.append(limit)
            continue
        if cost.queries > limit:
            raise Violation(f"{cost.queries} queries for a budget of {limit}")
        if seen[0] > cost.forwards:
            raise Violation(f"{seen[0]} sequences reached the model, the handle counted {cost.forwards}")
        used[limit] = cost.queries
    if BUDGET not in used:
        raise Violation(f"a budget of {BUDGET} is refused for {LENGTH} tokens")
    counts = ", ".join(f"{queries} of {limit}" for limit, queries in used.items())
    return f"queries used: {counts}" + (f"; refused {', '.join(map(str, refused))} by name" if refused else "")


def count_backend(backend: Any) -> list[int]:
    """Counts the sequences that really reach a model, whoever sends them."""
    seen = [0]

    def counted(method: Callable[..., Any], rows: Callable[[Any], int]) -> Callable[..., Any]:
        """A function that counts the sequences it is called with."""

        def call(argument: Any) -> Any:
            seen[0] += rows(argument)
            return method(argument)

        return call

    backend.logits = counted(backend.logits, len)
    backend.logits_from_embeddings = counted(backend.logits_from_embeddings, len)
    backend.attended_logits = counted(backend.attended_logits, len)
    return seen


def short(candidate: Candidate) -> str:
    """One token, two tokens, equal tokens: with special tokens round them, and without any."""
    examples = {"one token": text(1), "two tokens": text(2), "six equal tokens": Example("equal", " ".join(["w3"] * 6))}
    names = []
    for make, classifier in supported(candidate, models.random_bert, models.planted_transformer):
        for label, example in examples.items():
            try:
                explanation, _, sample = run(candidate, handle(make), example)
            except Exception as error:
                raise Violation(f"{label} on {classifier.name}: {told(error, candidate.factory)}") from error
            if len(explanation) != len(sample):
                raise Violation(f"{label} on {classifier.name}: {len(explanation)} scores for {len(sample)} tokens")
        names.append(classifier.name)
    return f"{', '.join(examples)}: explained on {' and '.join(names)}"


def long(candidate: Candidate) -> str:
    """As many tokens as the published experiments have at most."""
    _, classifier = next(supported(candidate, models.planted_transformer, models.random_bert))
    explanation, cost, sample = run(candidate, classifier, text(LONG, "long"), budget=LONG_BUDGET)
    if len(explanation) != len(sample):
        raise Violation(f"{len(explanation)} scores for {len(sample)} tokens")
    return f"{LONG} tokens on {classifier.name}: {cost.queries} queries, {cost.seconds:.1f} s"


# ---- whether it makes sense ----


def surrogate(candidate: Candidate) -> str:
    """A surrogate predicts one finite number a mask, survives storing, and is made of the scores it comes with."""
    explanation, _, sample = run(candidate, handle(), text())
    found = explanation.surrogate
    if found is None:
        raise NotApplicable("explains without a surrogate")
    if not isinstance(found, Surrogate):
        raise Violation(f"{type(found).__name__} has not all of: kind, __len__, predict, to_dict")
    keep = generator(0, "surrogate").random((20, len(sample))) < 0.7
    keep[:, 0] = True
    predicted = np.asarray(found.predict(keep))
    if predicted.shape != (len(keep),) or not np.isfinite(predicted).all():
        raise Violation(f"predicts an array of shape {predicted.shape} for {len(keep)} masks, or numbers not finite")
    stored = surrogate_from_dict(json.loads(json.dumps(found.to_dict())))
    if not np.array_equal(stored.predict(keep), predicted):
        raise Violation("predicts otherwise after storing and loading")
    return f"{found.kind}: {made_of(explanation, found, sample)}"


def made_of(explanation: Explanation, found: Surrogate, sample: Sample) -> str:
    """Which scores SLALOM's and the linear surrogate consist of; any other kind answers for itself."""

    def close(a: Floats, b: Floats) -> bool:
        """Whether two vectors agree up to rounding."""
        return bool(np.allclose(a, b, rtol=1e-9, atol=1e-12))

    scores = explanation.scores
    if type(found) is SlalomSurrogate:
        for name, values in {"value": found.value, "importance": found.importance}.items():
            if name not in scores or not close(scores[name], values):
                raise Violation(f"its {name} is not the score named {name!r}")
        return "value and importance are the scores of these names"
    if isinstance(found, LinearSurrogate):
        tied = sample.ids[:, None] == sample.ids[None, :]
        for name, values in scores.items():
            if close(values, found.weights):
                return f"weights are the score {name!r}"
            if close(values, tied @ found.weights):
                return f"weights are shares of the token's score {name!r}"
        raise Violation(f"its weights are none of the scores {', '.join(scores)}")
    return "predicts finite numbers"


def planted(candidate: Candidate) -> str:
    """On a model where 3 of 12 tokens carry all signal, |score| ranks them far better than chance."""
    if candidate.family == "baseline":
        raise NotApplicable("declared a baseline: it knows nothing of the model")
    make, classifier = next(supported(candidate, models.planted_transformer, models.planted_bert))
    found = []
    for number in range(TEXTS):
        example, carries = models.planted_example(number)
        explanation, _, _ = run(candidate, handle(make), example)
        found.append(auroc(np.abs(explanation.scores[explanation.primary]), carries))
    mean = float(np.mean(found))
    fact = f"AUROC {mean:.2f} of the planted tokens on {classifier.name} (chance 0.50, at least {CLEARLY})"
    if mean < CLEARLY:
        raise Violation(fact)
    return fact


def auroc(scores: Floats, truth: np.ndarray) -> float:
    """The probability that a true entry outranks a false one, ties counting half."""
    positive = int(truth.sum())
    return float((ranks(scores)[truth].sum() - positive * (positive + 1) / 2) / (positive * (len(truth) - positive)))


RULES: dict[str, Callable[[Candidate], str]] = {
    "declares": declares,
    "constructor": constructor,
    "shape": shape,
    "same-seed": invariance.same_seed,
    "other-seed": invariance.other_seed,
    "budget": budget,
    "short-texts": short,
    "long-text": long,
    "batching": invariance.batching,
    "order": invariance.order,
    "model-untouched": invariance.untouched,
    "global-random": invariance.global_random,
    "surrogate": surrogate,
    "conservation": conservation.conservation,
    "planted-signal": planted,
}
