"""Surrogate families on models that are one of them, and the GAM's promise to contain the linear model."""

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.surrogate_fit import SurrogateFitError
from slalom_bench.numerics import gam
from slalom_bench.numerics.surrogate_fit import fresh_texts, surrogate_fit

VALUE = {"a": 1.5, "b": -1.0, "c": 0.3, "d": 0.0}
IMPORTANCE = {"a": 1.0, "b": 0.5, "c": -0.5, "d": -1.0}


def make_task():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list(VALUE), rng.integers(1, 9), p=[0.4, 0.3, 0.2, 0.1])) for _ in range(300)]
    examples = [Example(str(i), text, i % 2) for i, text in enumerate(texts)]
    source = DataSource("generated", "t", "0")
    return TaskData("t", source, ("no", "yes"), examples[:50], examples[50:], {"kind": "any"})


TASK = make_task()
ANY = Explanation({"lin": [0.0]}, "lin")


def test_a_linear_model_is_found_by_the_linear_families_and_not_by_slalom():
    fit = surrogate_fit(Classifier(bag_of_words(VALUE, 0.5)), TASK, 400, np.random.default_rng(1))
    assert fit.linear.intercept == pytest.approx(0.5, abs=1e-5)
    assert fit.linear.weight == pytest.approx(list(VALUE.values()), abs=1e-5)
    assert fit.train_error["linear"] < 1e-10
    assert fit.train_error["gam"] < 1e-10
    assert fit.train_error["slalom"] > 0.1


def test_a_slalom_transformer_is_found_by_slalom_only():
    classifier = Classifier(slalom_transformer(VALUE, IMPORTANCE))
    fit = surrogate_fit(classifier, TASK, 400, np.random.default_rng(1))
    assert fit.slalom.value == pytest.approx(list(VALUE.values()), abs=1e-3)
    assert fit.slalom.importance == pytest.approx(list(IMPORTANCE.values()), abs=1e-3)
    assert fit.train_error["slalom"] < 1e-8
    assert 0.01 < fit.train_error["gam"] <= fit.train_error["linear"]
    # on new texts too, by the metric
    context = Context(TASK)
    samples = [classifier.encode(example) for example in TASK.evaluation]
    scores = [SurrogateFitError(400).score(classifier, sample, ANY, context).values for sample in samples]
    means = {name: np.mean([score[name] for score in scores]) for name in ("linear", "gam", "slalom")}
    assert means["slalom"] < 1e-8
    assert means["linear"] > 0.01


def test_metric_is_the_squared_error_on_the_text_and_fits_once():
    classifier = Classifier(bag_of_words(VALUE, 0.5))
    context = Context(TASK)
    metric = SurrogateFitError(100)
    for _ in range(5):
        score = metric.score(classifier, classifier.encode(Example("s", "a a b")), ANY, context)
    # charged to each, asked for once
    assert classifier.total.queries == 5 * (100 + 1)
    assert classifier.total.forwards - classifier.total.shared <= 100 + 5
    fit = surrogate_fit(classifier, TASK, 100, context.rng("surrogate-fit"))
    assert score.values["linear"] == pytest.approx(0.0, abs=1e-10)
    assert classifier.tokens.words(fit.vocabulary[:2]) == ["a", "b"]
    (va, vb), (sa, sb) = fit.slalom.value[:2], fit.slalom.importance[:2]
    predicted = (2 * np.exp(sa) * va + np.exp(sb) * vb) / (2 * np.exp(sa) + np.exp(sb))
    assert score.values["slalom"] == pytest.approx((predicted - 2.5) ** 2, rel=1e-5)


def test_texts_with_tokens_never_fitted_are_undefined():
    classifier = Classifier(bag_of_words({**VALUE, "new": 1.0}))
    score = SurrogateFitError(100).score(classifier, classifier.encode(Example("s", "a new")), ANY, Context(TASK))
    assert score.undefined == dict.fromkeys(["linear", "gam", "slalom"], undefined.UNKNOWN_TOKEN)


def test_fresh_texts_follow_the_training_texts():
    classifier = Classifier(bag_of_words(VALUE))
    texts = fresh_texts(classifier, TASK, 3000, np.random.default_rng(2))
    shares = np.bincount(np.concatenate(texts))[3:] / sum(map(len, texts))
    assert shares == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=0.05)
    assert {len(text) for text in texts} == set(range(1, 9))
    with pytest.raises(InvalidInput, match="count of at least 10, not 5"):
        fresh_texts(classifier, TASK, 5, np.random.default_rng(2))


def test_slalom_is_not_held_back_by_its_ridge():
    # importances 6 apart, noise of variance 0.01: the fit reaches the noise level
    value, importance = np.array([1.5, -1.0, 0.3, 0.0]), np.array([3.0, 1.0, -1.0, -3.0])
    rng = np.random.default_rng(7)

    class Noisy(Classifier):
        def log_odds(self, sequences, target=None):
            return super().log_odds(sequences, target) + rng.normal(0, 0.1, len(sequences))

    backend = slalom_transformer(dict(zip("abcd", value, strict=True)), dict(zip("abcd", importance, strict=True)))
    fit = surrogate_fit(Noisy(backend), TASK, 2000, rng)
    assert fit.train_error["slalom"] == pytest.approx(0.01, rel=0.1)
    assert fit.slalom.importance == pytest.approx(importance, abs=0.15)


def noisy(effect, rng, count=400, size=5):
    texts = [rng.integers(0, size, rng.integers(1, 12)) for _ in range(count)]
    return texts, np.array([effect(text) for text in texts]) + rng.normal(0, 0.5, count)


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 1e3, 1e6])
def test_gam_never_fits_worse_than_the_linear_model(ridge):
    texts, targets = noisy(lambda text: text.sum() * 0.3, np.random.default_rng(3))
    linear = gam.fit_linear(texts, targets, 5)
    fitted = gam.fit_ridges(texts, targets, 5, 11, [ridge])[0]
    errors = [np.mean((model.predict(texts) - targets) ** 2) for model in (fitted, linear)]
    assert errors[0] <= errors[1]
    if ridge == 1e6:
        assert fitted.weight == pytest.approx(linear.weight, abs=1e-3)


def test_gam_equals_the_dense_solution_of_its_objective():
    texts, targets = noisy(lambda text: float(text[0]), np.random.default_rng(4), count=120, size=3)
    fitted = gam.fit_ridges(texts, targets, 3, 11, [2.0])[0]
    counts, at_position = gam.design_matrices(texts, 3, 11)
    design = np.hstack([np.ones((120, 1)), counts.toarray(), at_position.toarray()])
    penalty = np.diag([0.0] * 4 + [2.0] * 33)
    exact = np.linalg.solve(design.T @ design + penalty, design.T @ targets)
    assert fitted.predict(texts) == pytest.approx(design @ exact, abs=1e-6)


def test_gam_finds_effects_of_position_that_a_linear_model_cannot():
    rng = np.random.default_rng(5)
    texts, targets = noisy(lambda text: 2.0 * text[0], rng, count=1500)
    new, truth = noisy(lambda text: 2.0 * text[0], rng, count=500)
    fitted, linear = gam.fit_gam(texts, targets, 5, rng), gam.fit_linear(texts, targets, 5)
    errors = [np.mean((model.predict(new) - truth) ** 2) for model in (fitted, linear)]
    # noise 0.25 cannot be predicted
    assert errors[0] < 0.35
    assert errors[1] > 1.0


def test_held_out_data_choose_a_large_ridge_where_position_does_not_matter():
    rng = np.random.default_rng(6)
    texts, targets = noisy(lambda text: text.sum() * 0.3, rng)
    assert gam.fit_gam(texts, targets, 5, rng).ridge >= 10.0
    with pytest.raises(InvalidInput, match="not 3"):
        gam.fit_gam(texts[:3], targets[:3], 5, rng)


def test_positions_beyond_those_fitted_have_no_deviation():
    model = gam.Additive(1.0, np.array([2.0, 3.0]), np.array([[0.5], [0.25]]))
    assert model.predict([np.array([0]), np.array([1, 0, 1])]).tolist() == [3.5, 9.25]
