"""The contract, tested: a good explainer passes every rule, and a broken one fails exactly the rule it breaks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from slalom_bench import registry
from slalom_bench.backends.random_models import random_backend
from slalom_bench.contract.checking import check
from slalom_bench.contract.fingerprint import differences, fingerprint
from slalom_bench.contract.models import planted_bert
from slalom_bench.contract.rules import RULES, auroc
from slalom_bench.core.types import Example, Explanation
from slalom_bench.errors import InvalidInput, UnknownName
from slalom_bench.explainers.attnlrp import AttnLRP
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate


class Good:
    """F(full) - F(without a token), in long texts without a block of tokens, shared: at most 33 queries."""

    needs = frozenset({"queries"})
    stochastic = False
    family = "additive"
    version = 1

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def explain(self, classifier: Any, sample: Any, budget: int, rng: np.random.Generator) -> Explanation:
        n = len(sample)
        blocks = min(n, 32)
        if budget < blocks + 1:
            raise InvalidInput(f"needs a budget of {blocks + 1}")
        block = np.arange(n) * blocks // n
        keep = np.vstack([np.ones((1, n), bool), block != np.arange(blocks)[:, None]])
        if n == 1:
            keep[1] = True
        full, *without = classifier.masked_log_odds(sample, keep)
        scores = self.factor * (full - np.array(without))[block] / np.bincount(block)[block]
        return self.finish(classifier, sample, scores, full, rng)

    def finish(self, classifier: Any, sample: Any, scores: Any, full: float, rng: np.random.Generator) -> Explanation:
        """What the broken ones below get wrong."""
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, full),
            diagnostics={"full": float(full)},
        )


class Undeclared(Good):
    needs = frozenset({"quieries"})


class Understated(Good):
    """Declares queries, uses gradients."""

    def finish(self, classifier, sample, scores, full, rng):
        classifier.gradients(classifier.embed(sample)[None])
        return super().finish(classifier, sample, scores, full, rng)


class Renames(Good):
    def __init__(self, factor: float = 1.0) -> None:
        self._factor = factor

    @property
    def factor(self) -> float:
        return self._factor


class Derives(Good):
    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self.half = factor / 2


class Converts(Good):
    def __init__(self, factor: float | None = None) -> None:
        self.factor = 1.0 if factor is None else factor


class Remembers(Good):
    def __init__(self, factor: float = 1.0, last: str = "") -> None:
        self.factor = factor
        self.last = last

    def finish(self, classifier, sample, scores, full, rng):
        self.last = sample.id
        return super().finish(classifier, sample, scores, full, rng)


class WrongTarget(Good):
    def finish(self, classifier, sample, scores, full, rng):
        return Explanation({"attribution": scores}, "attribution", 1)


class NotStorable(Good):
    def finish(self, classifier, sample, scores, full, rng):
        return Explanation({"attribution": scores}, "attribution", classifier.target, diagnostics={"masks": np.ones(2)})


class Unrepeatable(Good):
    stochastic = True

    def finish(self, classifier, sample, scores, full, rng):
        scores = scores * (1 + 0.01 * np.random.default_rng().standard_normal(len(scores)))
        return super().finish(classifier, sample, scores, full, rng)


class SecretlyStochastic(Good):
    def finish(self, classifier, sample, scores, full, rng):
        return super().finish(classifier, sample, scores + 0.01 * rng.standard_normal(len(scores)), full, rng)


class FalselyStochastic(Good):
    stochastic = True


class Spendthrift(Good):
    def explain(self, classifier, sample, budget, rng):
        return super().explain(classifier, sample, 10_000, rng)


class Swallows(Good):
    """Catches the handle's error and goes on."""

    def explain(self, classifier, sample, budget, rng):
        try:
            return super().explain(classifier, sample, 10_000, rng)
        except Exception:
            return super().finish(classifier, sample, np.zeros(len(sample)), 0.0, rng)


class Bypasses(Good):
    def finish(self, classifier, sample, scores, full, rng):
        classifier.backend.logits([sample.ids] * 20)
        return super().finish(classifier, sample, scores, full, rng)


class RefusesSilently(Good):
    def explain(self, classifier, sample, budget, rng):
        if budget < 50:
            raise InvalidInput("the budget is too small")
        return super().explain(classifier, sample, budget, rng)


class NeedsTwo(Good):
    def finish(self, classifier, sample, scores, full, rng):
        if len(sample) == 1:
            raise ZeroDivisionError("division by n - 1")
        return super().finish(classifier, sample, scores, full, rng)


class NeedsDistinct(Good):
    def finish(self, classifier, sample, scores, full, rng):
        if len(sample) > 2 and len(set(sample.ids.tolist())) == 1:
            raise np.linalg.LinAlgError("singular matrix")
        return super().finish(classifier, sample, scores, full, rng)


class DeletesEverything(Good):
    """Asks for the empty text where the model has no special tokens to read instead."""

    def finish(self, classifier, sample, scores, full, rng):
        classifier.masked_log_odds(sample, np.zeros((1, len(sample)), bool))
        return super().finish(classifier, sample, scores, full, rng)


class ShortBreath(Good):
    def finish(self, classifier, sample, scores, full, rng):
        scores = scores if len(scores) < 400 else scores[:400]
        return Explanation({"attribution": scores}, "attribution", classifier.target)


class BatchDependent(Good):
    def finish(self, classifier, sample, scores, full, rng):
        return super().finish(classifier, sample, scores * (1 + 1 / classifier.token_budget), full, rng)


class OrderDependent(Good):
    def finish(self, classifier, sample, scores, full, rng):
        seen = getattr(classifier.backend, "seen", sample.id)
        classifier.backend.seen = sample.id
        return super().finish(classifier, sample, scores * (1.0 if seen == sample.id else 1.01), full, rng)


class Hooks(Good):
    def finish(self, classifier, sample, scores, full, rng):
        classifier.backend.module.register_forward_hook(lambda *_: None)
        return super().finish(classifier, sample, scores, full, rng)


class Trains(Good):
    def finish(self, classifier, sample, scores, full, rng):
        if hasattr(classifier.backend.module, "classifier"):
            classifier.backend.module.classifier.train()
        return super().finish(classifier, sample, scores, full, rng)


class Freezes(Good):
    def finish(self, classifier, sample, scores, full, rng):
        classifier.backend.module.requires_grad_(False)
        return super().finish(classifier, sample, scores, full, rng)


class Nudges(Good):
    def finish(self, classifier, sample, scores, full, rng):
        with torch.no_grad():
            next(classifier.backend.module.parameters())[0, 0] += 1e-7
        return super().finish(classifier, sample, scores, full, rng)


class LeavesGradients(Good):
    def finish(self, classifier, sample, scores, full, rng):
        for parameter in classifier.backend.module.parameters():
            parameter.grad = torch.zeros_like(parameter)
        return super().finish(classifier, sample, scores, full, rng)


class Reseeds(Good):
    def finish(self, classifier, sample, scores, full, rng):
        torch.manual_seed(0)
        return super().finish(classifier, sample, scores, full, rng)


class DrawsGlobally(Good):
    def finish(self, classifier, sample, scores, full, rng):
        np.random.random()  # noqa: NPY002
        random.random()
        return super().finish(classifier, sample, scores, full, rng)


class ReadsGlobally(Good):
    def finish(self, classifier, sample, scores, full, rng):
        offset = np.random.get_state()[1][0] % 1000  # noqa: NPY002
        return super().finish(classifier, sample, scores + 1e-6 * offset, full, rng)


class OtherSurrogate(Good):
    def finish(self, classifier, sample, scores, full, rng):
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(2 * scores, full),
        )


class OtherImportance(Good):
    def finish(self, classifier, sample, scores, full, rng):
        return Explanation(
            {"value": scores, "importance": scores},
            "value",
            classifier.target,
            surrogate=SlalomSurrogate(scores, -scores),
        )


class Blind(Good):
    def finish(self, classifier, sample, scores, full, rng):
        return super().finish(classifier, sample, np.arange(len(scores)) + 1e-3 * scores, full, rng)


class Leaks(Good):
    family = "lrp"


class LeaksALittle(AttnLRP):
    """Relevance that the diagnostics do not speak of."""

    needs, stochastic, family, version = frozenset({"gradients", "lrp"}), False, "lrp", 1

    def explain(self, classifier, sample, budget, rng):
        found = super().explain(classifier, sample, budget, rng)
        return Explanation(dict(found.scores), found.primary, found.target, surrogate=found.surrogate)


BROKEN = {
    "declares": [Undeclared, Understated],
    "constructor": [Renames, Derives, Converts, Remembers],
    "shape": [WrongTarget, NotStorable],
    "same-seed": [Unrepeatable],
    "other-seed": [SecretlyStochastic, FalselyStochastic],
    "budget": [Spendthrift, Swallows, Bypasses, RefusesSilently],
    "short-texts": [NeedsTwo, NeedsDistinct],
    "long-text": [ShortBreath],
    "batching": [BatchDependent],
    "order": [OrderDependent],
    "model-untouched": [Hooks, Trains, Freezes, Nudges, LeavesGradients],
    "global-random": [Reseeds, DrawsGlobally, ReadsGlobally],
    "surrogate": [OtherSurrogate, OtherImportance],
    "conservation": [Leaks, LeaksALittle],
    "planted-signal": [Blind],
}


def test_every_rule_has_a_broken_explainer():
    assert BROKEN.keys() == RULES.keys()


@pytest.mark.parametrize("subject", [Good, Good(2.0)], ids=["class", "instance"])
def test_a_good_explainer_passes_every_rule(subject):
    report = check(subject)
    verdicts = {finding.rule: finding.verdict for finding in report.findings}
    assert verdicts == {**dict.fromkeys(RULES, "pass"), "conservation": "skip"}, str(report)
    assert report.passed


@pytest.mark.parametrize(
    ("rule", "broken"),
    [(rule, cls) for rule, classes in BROKEN.items() for cls in classes],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_explainer_fails_exactly_its_rule(rule, broken):
    report = check(broken)
    assert [finding.rule for finding in report.failures] == [rule], str(report)
    assert not report.passed


def test_asking_for_the_empty_text_where_there_is_none_fails():
    """The closed-form model has no special tokens; it serves the planted signal too."""
    report = check(DeletesEverything)
    assert [finding.rule for finding in report.failures] == ["short-texts", "long-text", "planted-signal"], str(report)


def test_a_method_patched_for_all_models_is_noticed():
    module = random_backend("bert").module
    before = fingerprint(module)
    attention = type(module.bert.encoder.layer[0].attention.self)
    original, softmax = attention.forward, torch.nn.functional.softmax
    try:
        attention.forward = lambda self, *args, **kwargs: original(self, *args, **kwargs)
        torch.nn.functional.softmax = lambda *args, **kwargs: softmax(*args, **kwargs)
        assert differences(before, fingerprint(module)) == ["module methods", "torch functions"]
    finally:
        attention.forward, torch.nn.functional.softmax = original, softmax
    assert differences(before, fingerprint(module)) == []


def test_check_leaves_the_callers_random_states_alone():
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    check(Reseeds, rules=["global-random"])
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])


def test_an_explainer_that_cannot_be_built_is_a_report_not_an_error():
    class Demanding(Good):
        def __init__(self, factor: float) -> None:
            self.factor = factor

    report = check(Demanding)
    assert {finding.rule for finding in report.failures} >= {"constructor", "shape"}
    assert "without arguments" in str(report)
    assert check(Demanding(1.0), rules=["constructor"]).passed


def test_what_is_not_an_explainer_is_refused_by_name():
    with pytest.raises(InvalidInput, match="explain"):
        check(3)
    with pytest.raises(UnknownName, match="zero"):
        check("zeroo")
    with pytest.raises(InvalidInput, match="same-seed"):
        check("zero", rules=["smae-seed"])


def test_auroc_by_hand():
    assert auroc(np.array([3.0, 1.0, 2.0]), np.array([True, False, False])) == 1.0
    assert auroc(np.array([1.0, 1.0, 1.0]), np.array([True, False, False])) == 0.5
    assert auroc(np.array([1.0, 2.0, 0.0]), np.array([True, False, False])) == 0.5


def test_the_planted_bert_obeys_its_planted_words():
    from slalom_bench.handle.classifier import Classifier

    classifier = Classifier(planted_bert())
    samples = {
        name: classifier.encode(Example(name, text))
        for name, text in {"for": "w20 w0 w30 w2", "against": "w20 w1 w30 w3", "none": "w20 w40 w30 w50"}.items()
    }
    odds = {name: float(classifier.log_odds([sample.ids])[0]) for name, sample in samples.items()}
    assert odds["for"] > odds["none"] + 1
    assert odds["against"] < odds["none"] - 1


SLOW = {"proxy-spex"}
"""Minutes each; with small parameters they are checked in their own test files."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in registry.explainers.names()]
)
def test_every_registered_explainer_keeps_the_contract(name):
    report = check(name)
    assert report.passed, str(report)
