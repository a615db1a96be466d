"""pairwise-deletion: planted interactions are found and predicted, and an additive model needs no pairs."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example, Sample
from slalom_bench.explainers.pairwise_deletion import PairwiseDeletion, _held_out_ridge, _of_deletions, fit_pairs
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics.masks import delete_counts, small_deletions
from slalom_bench.running.explaining import explain_sample

PLANTED = {(2, 9): 3.0, (4, 5): -2.0, (0, 17): 1.5}


def planted(removed: np.ndarray) -> np.ndarray:
    effects = np.random.default_rng(1).normal(size=removed.shape[1])
    return removed @ effects + sum(c * removed[:, i] * removed[:, j] for (i, j), c in PLANTED.items())


def test_planted_interactions_are_found_and_predicted():
    keep, shares = small_deletions(20, 800, np.random.default_rng(0))
    removed = (~keep).astype(float)
    changes = planted(removed)
    ridge = _held_out_ridge(removed, changes, shares)
    single, pairs, coefficients = fit_pairs(removed, changes, shares, ridge)
    found = {(int(i), int(j)): c for (i, j), c in zip(pairs, coefficients, strict=True)}
    for pair, truth in PLANTED.items():
        assert found[pair] == pytest.approx(truth, abs=0.15)
    assert max(abs(c) for pair, c in found.items() if pair not in PLANTED) < 0.3
    fresh = delete_counts(20, np.full(50, 5), np.random.default_rng(9))
    predicted = _of_deletions(0.7, single, pairs, coefficients).predict(fresh) - 0.7
    truth = planted((~fresh).astype(float))
    assert np.mean((predicted - truth) ** 2) < 0.01 * np.mean(truth**2)


def test_an_additive_model_gets_its_coefficients():
    weights = {"good": 1.5, "bad": -2.0, "the": 0.0, "fine": 0.25}
    classifier = Classifier(bag_of_words(weights, bias=0.7, specials=True))
    words = ["the", "good", "good", "bad", "fine", "the", "bad", "good"]
    sample = classifier.encode(Example("a", " ".join(words)))
    result = explain_sample(PairwiseDeletion(), classifier, sample, budget=200, seed=0).unwrap()
    np.testing.assert_allclose(result.scores["attribution"], [weights[w] for w in words], atol=1e-4)


def test_it_asks_for_the_masks_of_a_common_law():
    classifier = Classifier(random_backend("bert"))
    sample = Sample("a", np.random.default_rng(3).integers(5, 60, 20))
    out = explain_sample(PairwiseDeletion(law="mixed"), classifier, sample, budget=150, seed=0)
    assert out.cost.queries == 150
    assert out.unwrap().diagnostics["law"] == "mixed"
