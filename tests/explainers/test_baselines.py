"""The sanity floor really is one."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core.types import Example
from slalom_bench.explainers.baselines import Random, Zero
from slalom_bench.handle.classifier import Classifier


@pytest.fixture
def classifier() -> Classifier:
    return Classifier(bag_of_words({"good": 1.5, "bad": -2.0}, bias=0.5))


def test_random_scores_are_standard_normal_without_a_query(classifier):
    sample = classifier.encode(Example("a", "good bad " * 2000))
    with classifier.work(0):
        result = Random().explain(classifier, sample, 0, np.random.default_rng(0))
    scores = result.scores["attribution"]
    assert abs(scores.mean()) < 0.08
    assert abs(scores.std() - 1) < 0.05
    assert result.surrogate is None
    again = Random().explain(classifier, sample, 0, np.random.default_rng(1))
    assert (again.scores["attribution"] != scores).any()


def test_zero_predicts_no_change_for_one_query(classifier):
    sample = classifier.encode(Example("a", "good bad bad"))
    with classifier.work(1) as cost:
        result = Zero().explain(classifier, sample, 1, np.random.default_rng(0))
    assert cost.queries == 1
    assert not result.scores["attribution"].any()
    np.testing.assert_allclose(result.surrogate.predict(np.eye(3, dtype=np.bool_)), [-2.0] * 3, atol=1e-6)
