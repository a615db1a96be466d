"""permutation-shap: Shapley values by brute force, unbiased whatever the budget leaves, standard errors that hold."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Bools, Example, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.permutation_shap import PermutationShap, Walks
from slalom_bench.handle.classifier import Classifier


def value(table: Floats, keep: Bools) -> Floats:
    return table[keep @ (1 << np.arange(keep.shape[1]))]


def brute_force(table: Floats, n: int) -> Floats:
    """The mean over all n! orders."""
    total = np.zeros(n)
    for order in permutations(range(n)):
        present = np.cumsum(np.vstack([np.zeros(n, np.int64), np.eye(n, dtype=np.int64)[list(order)]]), axis=0) > 0
        total[list(order)] += np.diff(value(table, present))
    return total / factorial(n)


@given(st.integers(1, 12), st.integers(0, 80), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_orders_cost_what_they_say(n, queries, seed):
    walks = Walks.antithetic(n, max(queries, n - 1), np.random.default_rng(seed))
    coalitions = walks.coalitions()
    assert len(coalitions) <= max(queries, n - 1)
    assert len(walks.orders) >= 1
    assert walks.steps[:-1].all()
    assert not len(coalitions) or (coalitions.any(axis=1) & ~coalitions.all(axis=1)).all()
    for first, second in zip(walks.orders[::2], walks.orders[1::2], strict=False):
        np.testing.assert_array_equal(first, second[::-1])


def test_all_orders_give_the_brute_force_values():
    n, table = 6, np.random.default_rng(0).normal(size=64)
    orders = np.array(list(permutations(range(n))))
    walks = Walks(orders, np.ones(orders.shape, np.bool_))
    changes = walks.contributions(value(table, walks.coalitions()), table[0], table[-1])
    np.testing.assert_allclose(changes.mean(axis=0), brute_force(table, n), atol=1e-12)


@pytest.mark.parametrize("queries", [4, 6, 7, 11])  # n = 5: one order, a stretch, another stretch, two and a stretch
def test_unbiased_whatever_is_left_of_the_budget(queries):
    n, table = 5, np.random.default_rng(1).normal(size=32)
    rng, found = np.random.default_rng(2), []
    for _ in range(4000):
        walks = Walks.antithetic(n, queries, rng)
        found.append(np.nanmean(walks.contributions(value(table, walks.coalitions()), table[0], table[-1]), axis=0))
    error = np.mean(found, axis=0) - brute_force(table, n)
    assert (np.abs(error) < 4 * np.std(found, axis=0) / np.sqrt(len(found))).all()


def test_a_stretch_tells_of_every_step_equally_often():
    rng = np.random.default_rng(0)
    seen = sum(Walks.antithetic(7, 6 + 3, rng).steps[-1] for _ in range(7000))
    assert np.abs(seen - 2000).max() < 200  # two steps of seven; five standard deviations
    assert Walks.antithetic(7, 6 + 1, rng).steps.shape == (1, 7), "one query more tells of no step"


def test_brute_force_on_a_model_within_its_standard_errors():
    classifier = Classifier(random_backend("bert", seed=1))
    sample = Sample("a", np.random.default_rng(5).integers(5, 60, 8))
    every = np.arange(256)[:, None] >> np.arange(8) & 1 == 1
    truth = brute_force(classifier.masked_log_odds(sample, every), 8)
    with classifier.work(800) as cost:
        result = PermutationShap().explain(classifier, sample, 800, np.random.default_rng(0))
    assert 790 < cost.queries <= 800
    values, error = result.scores["attribution"], np.array(result.diagnostics["standard_error"])
    assert np.abs((values - truth) / error).max() < 3.5
    assert 0.2 < np.abs((values - truth) / error).mean() < 2.0
    ends = classifier.masked_log_odds(sample, every[[0, -1]])
    np.testing.assert_allclose(result.surrogate.predict(every[[0, -1]]), ends, atol=1e-5)


@pytest.mark.parametrize("specials", [False, True])
def test_an_additive_model_gets_its_coefficients_from_one_order(specials):
    weights = {"good": 1.5, "bad": -2.0, "the": 0.0, "fine": 0.25}
    classifier = Classifier(bag_of_words(weights, specials=specials))
    sample = classifier.encode(Example("a", "the good bad fine good"))
    minimum = 6 if specials else 5
    result = PermutationShap().explain(classifier, sample, minimum, np.random.default_rng(0))
    np.testing.assert_allclose(result.scores["attribution"], [0, 1.5, -2, 0.25, 1.5], atol=1e-5)
    assert "standard_error" not in result.diagnostics
    with pytest.raises(InvalidInput, match=f"at least {minimum} queries"):
        PermutationShap().explain(classifier, sample, minimum - 1, np.random.default_rng(0))


def test_a_pair_of_two_tokens_by_hand():
    classifier = Classifier(slalom_transformer({"a": 1, "b": 3}, {"a": 0, "b": 0}))
    result = PermutationShap().explain(classifier, classifier.encode(Example("a", "a b")), 3, np.random.default_rng(0))
    # F(a) = 1, F(b) = 3, F(ab) = 2, no token: 0
    np.testing.assert_allclose(result.scores["attribution"], [0.0, 2.0], atol=1e-5)
    assert result.diagnostics["orders"] == 2
