"""Gradient explainers against gradients derived by hand: a bag of words, and a transformer that is a SLALOM."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, Example, Explanation, Sample, TaskData
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.explainers.gradients import GradAvg, GradL1, GradL2, GradXInput, IntegratedGradients
from slalom_bench.handle.classifier import Classifier
from slalom_bench.models.loading import load_model

WEIGHTS = {"good": 1.5, "bad": -2.0, "the": 0.0, "fine": 0.25}
TEXT = "the good good bad fine the bad good"
VALUE = {"a": 1.0, "b": -2.0, "c": 6.0, "d": 0.5}
IMPORTANCE = {"a": 0.3, "b": 1.0, "c": -0.5, "d": 0.0}


def explain(explainer, classifier: Classifier, sample: Sample, budget: int = 100) -> tuple[Explanation, np.ndarray]:
    with classifier.work(budget):
        result = explainer.explain(classifier, sample, budget, np.random.default_rng(0))
    return result, result.scores["attribution"]


@pytest.mark.parametrize("specials", [False, True])
@pytest.mark.parametrize("explainer", [GradXInput(), IntegratedGradients()])
def test_an_additive_model_gets_its_coefficients(explainer, specials):
    classifier = Classifier(bag_of_words(WEIGHTS, bias=0.7, specials=specials))
    sample = classifier.encode(Example("a", TEXT))
    result, scores = explain(explainer, classifier, sample)
    np.testing.assert_allclose(scores, [WEIGHTS[w] for w in TEXT.split()], atol=1e-5)
    keep = np.random.default_rng(0).random((20, len(sample))) < 0.5
    keep[:, 0] = True
    np.testing.assert_allclose(result.surrogate.predict(keep), classifier.masked_log_odds(sample, keep), atol=1e-5)


def test_hand_derived_gradient_of_a_slalom():
    """dF/ds_i = alpha_i (v_i - F), dF/dv_i = alpha_i; the third component passes straight through at position 0."""
    classifier = Classifier(slalom_transformer(VALUE, IMPORTANCE))
    words = ["c", "a", "b", "b", "d"]
    s, v = (np.array([table[w] for w in words]) for table in (IMPORTANCE, VALUE))
    alpha = np.exp(s) / np.exp(s).sum()
    f = alpha @ v
    gradient = np.stack([alpha * (v - f), alpha, np.eye(5)[0]], axis=1)
    sample = classifier.encode(Example("a", " ".join(words)))
    expected = {
        GradAvg: gradient.mean(axis=1),
        GradL1: np.abs(gradient).sum(axis=1),
        GradL2: np.sqrt((gradient**2).sum(axis=1)),
        GradXInput: s * gradient[:, 0] + v * gradient[:, 1],
    }
    for kind, truth in expected.items():
        result, scores = explain(kind(), classifier, sample, budget=1)
        np.testing.assert_allclose(scores, truth, atol=1e-5)
        assert not result.diagnostics.get("cancelled")
        unsigned = kind in (GradL1, GradL2)
        assert (result.surrogate is None) == unsigned == bool(result.unsigned)
        if not unsigned:
            assert result.surrogate.predict(np.ones((1, 5), np.bool_)) == pytest.approx([f], abs=1e-5)


def test_integrated_gradients_by_hand():
    # with equal importances F(a x) = a mean(v): the path is straight and every attribution is v_i / n
    classifier = Classifier(slalom_transformer(VALUE, dict.fromkeys(VALUE, 0.0)))
    result, scores = explain(IntegratedGradients(steps=5), classifier, classifier.encode(Example("a", "a b c d")))
    np.testing.assert_allclose(scores, np.array(list(VALUE.values())) / 4, atol=1e-5)
    assert result.diagnostics["completeness_gap"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("baseline", ["zero", "pad", "mask"])
@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_completeness(architecture, baseline):
    """Scores sum to F(x) - F(baseline); for pad and mask the baseline is an input that can be asked for."""
    classifier = Classifier(random_backend(architecture, scale=3.0))
    sample = Sample("a", np.random.default_rng(1).integers(5, 60, 12))
    result, scores = explain(IntegratedGradients(steps=300, baseline=baseline), classifier, sample, 400)
    change = result.diagnostics["change"]
    assert abs(change) > 1e-3
    assert scores.sum() == pytest.approx(change, abs=0.02 * abs(change))
    assert result.diagnostics["completeness_gap"] == pytest.approx(scores.sum() - change)
    if baseline != "zero":
        token = classifier.tokens.pad_id if baseline == "pad" else classifier.tokens.mask_id
        full, base = classifier.log_odds([sample.ids, np.full(12, token)])
        assert change == pytest.approx(full - base, abs=1e-5)


def test_steps_follow_the_budget_and_every_step_is_counted():
    classifier = Classifier(random_backend("bert"))
    sample = Sample("a", np.arange(5, 15))
    with classifier.work(10) as cost:
        result = IntegratedGradients().explain(classifier, sample, 10, np.random.default_rng(0))
    assert (result.diagnostics["steps"], cost.queries, cost.backwards) == (8, 10, 8)
    with pytest.raises(InvalidInput, match="at least 3"):
        explain(IntegratedGradients(), classifier, sample, 2)


@pytest.mark.parametrize(
    ("budget", "rounds"),
    [
        (52, [50]),
        (90, [88]),
        (102, [100]),
        (103, [50, 51]),
        (351, [50, 299]),
        (352, [50, 100, 200]),
        (1000, [50, 100, 200, 648]),
        (452, [50, 100, 300]),
    ],
)
def test_rounds_double_until_the_budget_is_used(budget, rounds):
    """With a tolerance that nothing meets, worked out by hand: left after 50 of 1,000 are 948, after 100 848, ..."""
    classifier = Classifier(random_backend("bert"))
    with classifier.work(budget) as cost:
        explainer = IntegratedGradients(tolerance=0.0)
        result = explainer.explain(classifier, Sample("a", np.arange(5, 11)), budget, np.random.default_rng(0))
    assert result.diagnostics["steps"] == rounds[-1]
    assert cost.queries == 2 + sum(rounds) <= budget
    assert not result.diagnostics["converged"]


def test_rounds_end_when_the_tolerance_is_met():
    """A bag of words is integrated exactly by any rule, so that one round is enough."""
    classifier = Classifier(bag_of_words(WEIGHTS))
    sample = classifier.encode(Example("a", TEXT))
    with classifier.work(1000) as cost:
        result = IntegratedGradients().explain(classifier, sample, 1000, np.random.default_rng(0))
    assert cost.queries == 52
    assert (result.diagnostics["steps"], result.diagnostics["converged"]) == (50, True)
    change = abs(result.diagnostics["change"])
    assert change == pytest.approx(0.75)  # 3 good, 2 bad, 1 fine
    assert result.diagnostics["relative_gap"] == pytest.approx(abs(result.diagnostics["completeness_gap"]) / change)


def test_fifty_steps_leave_a_gap_and_more_close_it_or_say_that_they_did_not():
    """Finding 9. On mini-alibi more steps close the gap; on mini-gpt2 the path is steep, and they say they did not."""
    options = ModelOptions(device="cpu", progress=False)
    example = Example(
        "a", "the film was not good at all but the plot had a great deal of charm and i liked it very much"
    )
    task = TaskData("text", DataSource("file", "text", "0" * 64), ("neg", "pos"), (example,))
    reports = {}
    for model in ("mini-alibi", "mini-gpt2"):
        classifier = Classifier(load_model(model, task, options))
        for budget in (52, 1000):
            result, scores = explain(
                IntegratedGradients(tolerance=0.001), classifier, classifier.encode(example), budget
            )
            report = reports[model, budget] = result.diagnostics
            assert report["completeness_gap"] == pytest.approx(scores.sum() - report["change"])
            assert report["converged"] == (report["relative_gap"] <= 0.001)
    assert reports["mini-alibi", 52]["relative_gap"] > 0.05
    assert reports["mini-alibi", 1000]["converged"]
    assert abs(reports["mini-gpt2", 52]["completeness_gap"]) > 0.3
    assert abs(reports["mini-gpt2", 1000]["completeness_gap"]) < abs(reports["mini-gpt2", 52]["completeness_gap"]) / 2
    assert not reports["mini-gpt2", 1000]["converged"]


def test_a_batch_of_any_size_gives_the_same_scores():
    sample = Sample("a", np.arange(5, 25))
    scores = [
        explain(IntegratedGradients(), Classifier(random_backend("bert"), token_budget=budget), sample)[1]
        for budget in (50, 100000)
    ]
    np.testing.assert_allclose(*scores, atol=1e-6)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_layer_normalisation_leaves_nothing_of_the_mean_component(architecture):
    """LN(x + c 1) = LN(x): dF/dx is orthogonal to the ones, and grad-avg says so instead of ranking rounding errors."""
    result, scores = explain(GradAvg(), Classifier(random_backend(architecture)), Sample("a", np.arange(5, 25)))
    assert np.abs(scores).max() < 1e-5 * result.diagnostics["mean_absolute_component"]
    assert result.diagnostics["cancelled"]


@pytest.mark.parametrize("name", ["grad-avg", "grad-x-input", "integrated-gradients"])
def test_the_model_keeps_no_gradient(name):
    backend = random_backend("gpt2")
    explain(registry.explainers.get(name).build(), Classifier(backend), Sample("a", np.arange(5, 15)))
    assert all(p.grad is None for p in backend.module.parameters())
    assert torch.is_grad_enabled()


def test_what_cannot_be_done_is_named():
    classifier = Classifier(bag_of_words(WEIGHTS))
    sample = classifier.encode(Example("a", TEXT))
    with pytest.raises(InvalidInput, match="'noise'"):
        explain(IntegratedGradients(baseline="noise"), classifier, sample)
    with pytest.raises(InvalidInput, match="not 0"):
        explain(IntegratedGradients(steps=0), classifier, sample)
    with pytest.raises(InvalidInput, match="at least 0, not -1"):
        explain(IntegratedGradients(tolerance=-1), classifier, sample)
    classifier.tokens.mask_id = None
    with pytest.raises(Unsupported, match="use zero or pad"):
        explain(IntegratedGradients(baseline="mask"), classifier, sample)
