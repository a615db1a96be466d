"""Strict fidelity on models whose change under deletion is known."""

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, Sample, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.strict_fidelity import StrictFidelity
from slalom_bench.removals.pad import Pad
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate


def context(protocol="bench", seed=0):
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [Example("e", "a")])
    return Context(task, protocol, seed)


def linear(scores, intercept=0.0, **more):
    return Explanation({"lin": scores}, "lin", surrogate=LinearSurrogate(scores, intercept), **more)


def sample_of(classifier, words):
    return classifier.encode(Example("s", words))


def nested_masks(n, largest, count, rng):
    """Fig. 6's masks as version 1 of the metric drew them in the paper protocol."""
    ranks = rng.random((count, n)).argsort(axis=1).argsort(axis=1)
    return np.concatenate([ranks >= k for k in range(1, largest + 1)])


ONES = Classifier(bag_of_words({"a": 1.0}))
TWELVE = sample_of(ONES, " ".join("a" * 12))


def test_hand_values_where_every_deletion_of_k_changes_the_output_by_minus_k():
    # predicted change -k/2, observed -k: error k^2/4; mean 385/10/4; normalised 1/4. The intercept cancels.
    score = StrictFidelity().score(ONES, TWELVE, linear([0.5] * 12, intercept=7.0), context())
    assert score.undefined == dict.fromkeys(("missing", "moving"), undefined.NO_POSITIONS)
    assert [score.values[f"k{k}"] for k in range(1, 11)] == pytest.approx([k * k / 4 for k in range(1, 11)])
    assert score.values["mean"] == pytest.approx(38.5 / 4)
    assert score.values["normalised"] == pytest.approx(0.25)


def test_predicting_no_change_is_normalised_to_one_and_the_truth_to_zero():
    classifier = Classifier(bag_of_words({"a": 1.0, "b": -0.5, "c": 2.0}, bias=0.3))
    sample = sample_of(classifier, "a b c a b c a b c a b c")
    truth = [1.0, -0.5, 2.0] * 4
    nothing = StrictFidelity().score(classifier, sample, linear([0.0] * 12), context())
    exact = StrictFidelity().score(classifier, sample, linear(truth), context())
    assert nothing.values["normalised"] == pytest.approx(1.0)
    assert exact.values["mean"] == pytest.approx(0.0, abs=1e-10)
    # one deletion of one of three weights: between the smallest and the largest square
    assert 0.25 <= nothing.values["k1"] <= 4.0


def test_slalom_model_and_its_own_surrogate():
    value, importance = {"x": 1.0, "y": 0.0}, {"x": np.log(3.0), "y": 0.0}
    classifier = Classifier(slalom_transformer(value, importance))
    sample = sample_of(classifier, "x y")
    exact = SlalomSurrogate([1.0, 0.0], [np.log(3.0), 0.0])
    explanation = Explanation({"value": [1.0, 0.0]}, "value", surrogate=exact)
    metric = StrictFidelity(masks=50, largest=1)
    assert metric.score(classifier, sample, explanation, context()).values["k1"] == pytest.approx(0.0, abs=1e-10)
    # full 3/4; without x 0, without y 1. Scores (3/4, 0) are right about x and miss y by (1/4)^2
    keep = nested_masks(2, 1, 50, context().rng("strict-fidelity", "s"))
    share = keep[:, 0].mean()
    assert 0 < share < 1
    score = metric.score(classifier, sample, linear([0.75, 0.0]), context())
    assert score.values["k1"] == pytest.approx(share / 16, rel=1e-5)
    observed = share / 16 + (1 - share) * 9 / 16
    assert score.values["normalised"] == pytest.approx(share / 16 / observed, rel=1e-5)


def test_texts_too_short_for_k_are_undefined_for_that_k_and_for_the_mean():
    sample = sample_of(ONES, "a a a")
    score = StrictFidelity().score(ONES, sample, linear([0.0] * 3), context())
    assert score.values == pytest.approx({"k1": 1.0, "k2": 4.0})
    assert score.undefined.keys() == {*(f"k{k}" for k in range(3, 11)), "mean", "normalised", "missing", "moving"}
    assert set(score.undefined.values()) == {undefined.TOO_SHORT}
    one = StrictFidelity().score(ONES, sample_of(ONES, "a"), linear([0.0]), context())
    assert not one.values
    assert len(one.undefined) == 14


def test_a_model_that_does_not_react_has_no_normalised_error():
    classifier = Classifier(bag_of_words({"a": 0.0}))
    score = StrictFidelity().score(classifier, sample_of(classifier, "a " * 12), linear([0.5] * 12), context())
    assert score.values["mean"] == pytest.approx(38.5 / 4)
    no_parts = dict.fromkeys(("missing", "moving"), undefined.NO_POSITIONS)
    assert score.undefined == {"normalised": undefined.NO_CHANGE, **no_parts}


def test_no_surrogate_is_undefined_and_asks_the_model_nothing():
    classifier = Classifier(bag_of_words({"a": 1.0}))
    explanation = Explanation({"norm": np.ones(12)}, "norm", unsigned=frozenset({"norm"}))
    score = StrictFidelity().score(classifier, TWELVE, explanation, context())
    assert set(score.undefined.values()) == {undefined.NO_SURROGATE}
    assert len(score.undefined) == 14
    assert classifier.total.queries == 0


def test_ten_explainers_cost_the_model_one_set_of_queries():
    classifier = Classifier(bag_of_words({f"w{i}": 0.1 * i for i in range(15)}))
    sample = sample_of(classifier, " ".join(f"w{i}" for i in range(15)))
    forwards = []
    for explainer in range(10):
        with classifier.work():
            StrictFidelity().score(classifier, sample, linear([0.1 * explainer] * 15), context())
        forwards.append(classifier.total.forwards - classifier.total.shared)
    assert 0 < forwards[0] <= 201
    assert forwards == [forwards[0]] * 10
    assert classifier.total.queries == 10 * 201


def test_the_other_class_has_the_negated_change():
    score = StrictFidelity().score(ONES, TWELVE, linear([-1.0] * 12, target=0), context())
    assert score.values["mean"] == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize(("protocol", "count"), [("paper", 100), ("bench", 20)])
def test_every_value_recomputed_on_the_papers_masks(protocol, count):
    weights = {f"w{i}": (-1) ** i * 0.1 * i for i in range(15)}
    classifier = Classifier(bag_of_words(weights))
    sample = sample_of(classifier, " ".join(weights))
    said = np.linspace(-1, 1, 15)
    score = StrictFidelity().score(classifier, sample, linear(said), context(protocol, 3))
    keep = nested_masks(15, 10, count, context(protocol, 3).rng("strict-fidelity", "s"))
    observed, errors = [], []
    for row in keep:
        observed.append(sum(weights[f"w{i}"] for i in range(15) if not row[i]))
        errors.append((sum(said[i] for i in range(15) if not row[i]) - observed[-1]) ** 2)
    for k in range(1, 11):
        assert score.values[f"k{k}"] == pytest.approx(np.mean(errors[(k - 1) * count : k * count]), rel=1e-5)
    assert score.values["mean"] == pytest.approx(np.mean(errors), rel=1e-5)
    assert score.values["normalised"] == pytest.approx(np.sum(errors) / np.sum(np.square(observed)), rel=1e-5)


def test_nothing_moves_under_a_rule_that_closes_no_gaps():
    classifier = Classifier(bag_of_words({"a": 1.0}), removal=Pad())
    values = StrictFidelity().score(classifier, TWELVE, linear([0.5] * 12), context()).values
    assert values["mean"] > 0
    assert (values["missing"], values["moving"]) == (values["mean"], 0.0)


def test_protocol_sets_the_number_of_masks():
    for protocol, queries in {"bench": 201, "paper": 1001}.items():
        classifier = Classifier(bag_of_words({"a": 1.0}))
        StrictFidelity().score(classifier, TWELVE, linear([0.5] * 12), context(protocol))
        assert classifier.total.queries == queries


def test_bad_parameters_are_refused():
    with pytest.raises(InvalidInput, match="largest=0"):
        StrictFidelity(largest=0).score(ONES, TWELVE, linear([0.0] * 12), context())


def test_sample_without_a_name_collision():
    # masks depend on the sample and the seed, not on the explainer
    first = context().rng("strict-fidelity", "s").random()
    assert first == context().rng("strict-fidelity", "s").random()
    assert first != context().rng("strict-fidelity", "t").random()
    assert first != context(seed=1).rng("strict-fidelity", "s").random()
    assert isinstance(TWELVE, Sample)
