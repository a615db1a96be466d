"""Recovery of true models small enough to work the errors out by hand."""

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.recovery import Recovery
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

LINEAR = {"kind": "linear", "weight": {"a": 1.0, "b": -2.0}}
SLALOM = {"kind": "slalom", "value": {"a": 1.0, "b": -2.0}, "importance": {"a": 1.0, "b": -1.0}}


def recover(truth, surrogate, text="a b", **more):
    classifier = Classifier(bag_of_words({"a": 0.0, "b": 0.0, "other": 0.0}))
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [Example("s", text)], truth=truth)
    sample = classifier.encode(task.evaluation[0])
    explanation = Explanation({"lin": np.arange(len(sample))}, "lin", surrogate=surrogate, **more)
    score = Recovery().score(classifier, sample, explanation, Context(task))
    assert classifier.total.queries == 0
    return score


def masks(n=2):
    """The sub-sequences that the metric draws for this sample."""
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [Example("s", "a")])
    rng = Context(task).rng("recovery", "s")
    return delete_counts(n, rng.integers(0, n, 100), rng)


def test_the_true_model_has_no_error():
    assert recover(LINEAR, LinearSurrogate([1.0, -2.0], 0.0)).values == {"logit": 0.0, "weight": 0.0}
    found = recover(SLALOM, SlalomSurrogate([1.0, -2.0], [4.0, 2.0])).values
    assert found == pytest.approx({"logit": 0.0, "value": 0.0, "importance": 0.0}, abs=1e-24)


def test_linear_errors_by_hand():
    # a is one too large wherever it is kept
    found = recover(LINEAR, LinearSurrogate([2.0, -2.0], 0.0)).values
    assert found == pytest.approx({"logit": masks()[:, 0].mean(), "weight": 0.5})
    # an intercept is an error in logit space only
    assert recover(LINEAR, LinearSurrogate([1.0, -2.0], 0.5)).values == pytest.approx({"logit": 0.25, "weight": 0.0})


def test_errors_of_opposite_sign_do_not_cancel():
    # mean error 0, mean squared error 1
    assert recover(LINEAR, LinearSurrogate([2.0, -3.0], 0.0)).values["weight"] == pytest.approx(1.0)
    assert recover(SLALOM, SlalomSurrogate([1.0, -2.0], [0.0, 0.0])).values["importance"] == pytest.approx(1.0)


def test_slalom_errors_by_hand():
    # all values half too large: so is every prediction
    found = recover(SLALOM, SlalomSurrogate([1.5, -1.5], [1.0, -1.0])).values
    assert found == pytest.approx({"logit": 0.25, "value": 0.25, "importance": 0.0})
    # equal importances: single tokens are right, the pair is (1 - 2)/2 instead of (e - 2/e)/(e + 1/e)
    found = recover(SLALOM, SlalomSurrogate([1.0, -2.0], [0.0, 0.0])).values
    pair = (np.e - 2 / np.e) / (np.e + 1 / np.e)
    assert found["logit"] == pytest.approx(masks().all(axis=1).mean() * (pair + 0.5) ** 2)


def test_masks_have_every_length_but_zero():
    assert set(masks(3).sum(axis=1)) == {1, 2, 3}


def test_repeated_tokens_count_once():
    # a a b: weights 1, 3 for a average to 2 (error 1); b is right
    found = recover(LINEAR, LinearSurrogate([1.0, 3.0, -2.0], 0.0), "a a b").values
    assert found["weight"] == pytest.approx(0.5)
    # centred over distinct tokens, not over positions
    found = recover(SLALOM, SlalomSurrogate([1.0, 1.0, -2.0], [0.0, 0.0, 0.0]), "a a b").values
    assert found["importance"] == pytest.approx(1.0)


def test_the_other_class_has_the_negated_law():
    assert recover(LINEAR, LinearSurrogate([-1.0, 2.0], 0.0), target=0).values == {"logit": 0.0, "weight": 0.0}
    found = recover(SLALOM, SlalomSurrogate([-1.0, 2.0], [1.0, -1.0]), target=0).values
    assert found == pytest.approx({"logit": 0.0, "value": 0.0, "importance": 0.0})


def test_another_kind_of_surrogate_has_logits_only():
    found = recover(LINEAR, SlalomSurrogate([0.0, 0.0], [0.0, 0.0]))
    expected = np.mean((masks() @ [1.0, -2.0]) ** 2)
    assert found.values == pytest.approx({"logit": expected})
    assert found.undefined == {"weight": undefined.OTHER_SURROGATE}
    found = recover(SLALOM, LinearSurrogate([0.0, 0.0], 0.0))
    assert found.undefined == dict.fromkeys(["value", "importance"], undefined.OTHER_SURROGATE)


def test_undefined_cases():
    assert recover(LINEAR, None).undefined == dict.fromkeys(["logit", "weight"], undefined.NO_SURROGATE)
    unknown = recover(LINEAR, LinearSurrogate([1.0, 0.0], 0.0), "a other")
    assert unknown.undefined == dict.fromkeys(["logit", "weight"], undefined.UNKNOWN_TOKEN)
    assert recover(SLALOM, SlalomSurrogate([1.0], [0.0]), "a").undefined == {"importance": undefined.TOO_SHORT}
    with pytest.raises(InvalidInput, match="tree"):
        recover({"kind": "tree"}, None)
