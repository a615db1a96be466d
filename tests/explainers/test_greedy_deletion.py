"""greedy-deletion against exhaustive search, step by step by hand, and inside its budget."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.greedy_deletion import GreedyDeletion, affordable, ordered_scores
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.explaining import explain_sample


def areas(classifier: Classifier, sample: Sample, orders: np.ndarray) -> np.ndarray:
    """The mean drop along each order, of all its beginnings but the whole text."""
    n = len(sample)
    every = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    out = np.full(2**n, np.nan)
    out[1:] = classifier.masked_log_odds(sample, every[1:])
    left = 2**n - 1 - np.cumsum(1 << orders, axis=1)[:, : n - 1]
    return (out[-1] - out[left]).mean(axis=1)


@pytest.mark.parametrize("n", [2, 5, 7])
def test_a_wide_beam_finds_the_order_of_exhaustive_search(n):
    classifier = Classifier(random_backend("bert"))
    sample = Sample("a", np.random.default_rng(n).integers(5, 60, n))
    truth = areas(classifier, sample, np.array(list(permutations(range(n)))))
    found = explain_sample(GreedyDeletion(width=35), classifier, sample, budget=2000, seed=0).unwrap()
    order = np.argsort(-found.scores["attribution"], kind="stable")
    assert found.diagnostics["area"] == pytest.approx(truth.max(), abs=1e-5)
    assert areas(classifier, sample, order[None])[0] == pytest.approx(truth.max(), abs=1e-5)
    assert n == 2 or truth.max() > np.median(truth) + 1e-3


def test_greedy_by_hand():
    # F = (1 e^0 + 3 e^2 + 2 e^0) / (e^0 + e^2 + e^0): without b 1.5, then without c 1, without a 2
    classifier = Classifier(slalom_transformer({"a": 1, "b": 3, "c": 2}, {"a": 0, "b": 2, "c": 0}))
    sample = classifier.encode(Example("x", "a b c"))
    out = explain_sample(GreedyDeletion(width=1), classifier, sample, budget=50, seed=0, target=1).unwrap()
    full = (3 + 3 * np.exp(2)) / (2 + np.exp(2))
    alone = full - (1 + 3 * np.exp(2)) / (1 + np.exp(2))
    without_a = (2 + 3 * np.exp(2)) / (1 + np.exp(2))
    np.testing.assert_allclose(out.scores["attribution"], [full - without_a, full - 1.5, 0.5], atol=1e-6)
    assert alone < 0.5  # c goes second for what it does once b is gone
    other = explain_sample(GreedyDeletion(width=1), classifier, sample, budget=50, seed=0, target=0).unwrap()
    assert other.scores["attribution"].argmax() == 0


def test_an_additive_model_gets_its_coefficients():
    weights = {"good": 1.5, "bad": -2.0, "the": 0.0, "fine": 0.25}
    classifier = Classifier(bag_of_words(weights, specials=True))
    words = ["the", "good", "bad", "fine"]
    sample = classifier.encode(Example("a", " ".join(words)))
    found = explain_sample(GreedyDeletion(), classifier, sample, budget=100, seed=0, target=1).unwrap()
    np.testing.assert_allclose(found.scores["attribution"], [weights[w] for w in words], atol=1e-4)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 6), st.integers(0, 400))
def test_the_budget_is_kept_and_used(n, steps, width, more):
    length, candidates = affordable(n, n + more, steps, width)
    asked = n + sum(width * (candidates - k) for k in range(1, length))
    assert asked <= n + more
    assert 1 <= length <= max(1, min(steps, n - 1))
    assert length == 1 or min(n, max(length, width)) <= candidates <= n
    classifier = Classifier(bag_of_words({f"w{i}": float(i % 7) for i in range(40)}, specials=True))
    sample = classifier.encode(Example("a", " ".join(f"w{i}" for i in range(n))))
    out = explain_sample(GreedyDeletion(steps, width), classifier, sample, budget=n + 1 + more, seed=0)
    assert len(out.unwrap()) == n


def test_scores_rank_as_the_search_did():
    rng = np.random.default_rng(0)
    alone, order, drops = rng.normal(size=9), np.array([4, 0, 7]), np.array([1.0, -3.0, -5.0])
    scores = ordered_scores(alone, order, drops)
    assert np.argsort(-scores)[:3].tolist() == [4, 0, 7]
    np.testing.assert_array_equal(np.delete(scores, order), np.delete(alone, order))


def test_what_cannot_be_is_named():
    classifier = Classifier(bag_of_words({"a": 1.0, "b": 2.0}, specials=True))
    sample = classifier.encode(Example("x", "a b"))
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="at least 3 queries"):
        GreedyDeletion().explain(classifier, sample, 2, rng)
    with pytest.raises(InvalidInput, match="width=0"):
        GreedyDeletion(width=0).explain(classifier, sample, 9, rng)
    bare = Classifier(bag_of_words({"a": 1.0}))
    single = bare.encode(Example("x", "a"))
    assert GreedyDeletion().explain(bare, single, 9, rng).scores["attribution"].tolist() == [0.0]
