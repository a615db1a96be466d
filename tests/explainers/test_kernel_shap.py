"""kernel-shap gives exact Shapley values where all coalitions fit, an additive model's coefficients everywhere."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.kernel_shap import KernelShap, coalitions, shapley_regression
from slalom_bench.handle.classifier import Classifier

WEIGHTS = {"good": 1.5, "bad": -2.0, "the": 0.0, "fine": 0.25}
TEXT = "the good good bad fine the bad good"


def brute_force(classifier: Classifier, sample: Sample, feature: np.ndarray) -> np.ndarray:
    """Shapley values from their definition: weights 1 / (n C(n-1, |S|))."""
    n = int(feature.max()) + 1
    subsets = [set(s) for size in range(n + 1) for s in combinations(range(n), size)]
    keep = np.array([[i in s for i in range(n)] for s in subsets])
    outputs = classifier.masked_log_odds(sample, keep[:, feature])
    value = {frozenset(s): f for s, f in zip(subsets, outputs, strict=True)}

    def gain(i: int, s: set[int]) -> float:
        return (value[frozenset(s | {i})] - value[frozenset(s)]) / (n * comb(n - 1, len(s)))

    return np.array([sum(gain(i, s) for s in subsets if i not in s) for i in range(n)])


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_exact_shapley_values_where_all_coalitions_fit(length):
    classifier = Classifier(random_backend("bert", seed=2))
    sample = Sample("a", np.random.default_rng(length).integers(5, 60, length))
    with classifier.work(2**length) as cost:
        result = KernelShap().explain(classifier, sample, 2**length, np.random.default_rng(0))
    assert cost.queries == 2**length
    assert result.diagnostics["exact"]
    truth = brute_force(classifier, sample, np.arange(length))
    np.testing.assert_allclose(result.scores["attribution"], truth, atol=1e-9)
    if length > 1:
        assert np.ptp(truth) > 1e-3


def test_tied_tokens_are_one_player():
    classifier = Classifier(random_backend("bert", seed=2))
    sample = Sample("a", np.array([9, 12, 9, 30, 12, 9]))
    result = KernelShap(tie="token").explain(classifier, sample, 8, np.random.default_rng(0))
    feature = np.array([0, 1, 0, 2, 1, 0])
    truth = brute_force(classifier, sample, feature)
    np.testing.assert_allclose(result.scores["attribution"], truth[feature], atol=1e-9)
    ends = np.array([[True] * 6, [False] * 6])
    np.testing.assert_allclose(result.surrogate.predict(ends), classifier.masked_log_odds(sample, ends), atol=1e-9)


@pytest.mark.parametrize("specials", [False, True])
@pytest.mark.parametrize("budget", [40, 10000])
def test_an_additive_model_gets_its_coefficients(specials, budget):
    """Without a template there is no empty input: the base value is then estimated, and still right."""
    classifier = Classifier(bag_of_words(WEIGHTS, bias=0.7, specials=specials))
    sample = classifier.encode(Example("a", TEXT))
    with classifier.work(budget):
        result = KernelShap().explain(classifier, sample, budget, np.random.default_rng(0))
    np.testing.assert_allclose(result.scores["attribution"], [WEIGHTS[w] for w in TEXT.split()], atol=1e-5)
    assert result.diagnostics["base"] == pytest.approx(0.7, abs=1e-5)


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_values_sum_to_the_difference_of_full_and_base(architecture):
    classifier = Classifier(random_backend(architecture))
    sample = Sample("a", np.random.default_rng(1).integers(5, 60, 30))
    result = KernelShap().explain(classifier, sample, 200, np.random.default_rng(0))
    (full,) = classifier.log_odds([sample.ids])
    assert result.scores["attribution"].sum() + result.diagnostics["base"] == pytest.approx(full, abs=1e-9)
    assert result.diagnostics["rank"] == 30


def test_a_single_token_without_a_template_scores_zero():
    classifier = Classifier(bag_of_words(WEIGHTS))
    result = KernelShap().explain(classifier, classifier.encode(Example("a", "bad")), 5, np.random.default_rng(0))
    assert result.scores["attribution"] == pytest.approx([0.0])
    assert result.surrogate.predict(np.ones((1, 1), np.bool_)) == pytest.approx([-2.0])


def test_undetermined_values_are_shared_equally():
    # one coalition {0} of three players, F 0.5 of 2: the others split what is left alike
    values, base, rank = shapley_regression(
        np.array([[True, False, False]]), np.ones(1), np.array([0.5]), full=2.0, empty=0.0
    )
    np.testing.assert_allclose(values, [0.5, 0.75, 0.75], atol=1e-12)
    assert (base, rank) == (0.0, 2)


@pytest.mark.parametrize(("players", "count"), [(5, 12), (10, 100), (12, 3000), (40, 300), (200, 998)])
def test_coalitions_are_distinct_paired_and_within_the_count(players, count):
    masks, weights = coalitions(players, count, np.random.default_rng(4))
    assert len(masks) == min(count, 2**players - 2)
    assert len({m.tobytes() for m in masks}) == len(masks)
    assert masks.any(axis=1).all()
    assert not masks.all(axis=1).any()
    assert weights.sum() == pytest.approx(1)
    weight = dict(zip((m.tobytes() for m in masks), weights, strict=True))
    unpaired = sum((~m).tobytes() not in weight for m in masks if 2 * m.sum() != players)
    assert unpaired <= 1
    assert all(
        weight.get((~m).tobytes(), w) == pytest.approx(w)
        for m, w in zip(masks, weights, strict=True)
        if 2 * m.sum() != players
    )


def test_sizes_carry_the_shapley_kernels_weight():
    totals = np.zeros(21)
    for seed in range(100):
        masks, weights = coalitions(20, 300, np.random.default_rng(seed))
        totals += np.bincount(masks.sum(axis=1), weights, minlength=21) / 100
    sizes = np.arange(1, 20)
    kernel = 1 / (sizes * (20 - sizes))
    np.testing.assert_allclose(totals[1:20], kernel / kernel.sum(), rtol=0.06)


def test_a_budget_without_a_coalition_is_refused():
    classifier = Classifier(bag_of_words(WEIGHTS, specials=True))
    with pytest.raises(InvalidInput, match="at least 3"):
        KernelShap().explain(classifier, classifier.encode(Example("a", TEXT)), 2, np.random.default_rng(0))


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    coalitions(50, 200, np.random.default_rng(0))
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
