"""The SLALOM explainers on transformers that are SLALOMs, and at the edges of their inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.slalom import (
    ShortSequences,
    SlalomEff,
    SlalomExact,
    SlalomFidel,
    importance_differences,
    short_sequences,
    slalom_scores,
)
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics.designs import Design
from slalom_bench.numerics.features import tied_features
from slalom_bench.surrogates.slalom import SlalomSurrogate

WORDS = [f"w{i}" for i in range(14)]


@pytest.fixture(scope="module")
def truth() -> tuple[dict[str, float], dict[str, float]]:
    rng = np.random.default_rng(3)
    s, v = rng.normal(size=14), 2 * rng.normal(size=14)
    return dict(zip(WORDS, v, strict=True)), dict(zip(WORDS, s, strict=True))


@pytest.fixture
def handle(truth: tuple[dict[str, float], dict[str, float]]) -> Classifier:
    return Classifier(slalom_transformer(*truth))


def shuffled_sample(handle: Classifier, *more: str) -> Sample:
    """Every word once and some again, in an order that is not that of the ids."""
    words = np.random.default_rng(6).permutation([*WORDS, *more])
    return Sample("shuffled", np.array([handle.tokens.index[w] for w in words]))  # type: ignore[attr-defined]


def repeated_sample(handle: Classifier) -> Sample:
    return shuffled_sample(handle, "w3", "w3", "w5", "w0", "w11", "w12")


@pytest.mark.parametrize(
    ("explainer", "budget", "asked"),
    [(SlalomEff(), 800, 210), (SlalomFidel(), 1500, 1500), (SlalomExact(), 27, 27), (SlalomEff(length=3), 800, 800)],
)
@pytest.mark.parametrize("make", [repeated_sample, shuffled_sample])
def test_a_slalom_transformer_is_recovered(
    explainer: SlalomEff | SlalomFidel | SlalomExact,
    budget: int,
    asked: int,
    make: Callable[[Classifier], Sample],
    handle: Classifier,
    truth: tuple[dict[str, float], dict[str, float]],
) -> None:
    sample = make(handle)
    with handle.work(budget) as cost:
        out = explainer.explain(handle, sample, budget, np.random.default_rng(0))
    words = handle.tokens.words(sample.ids)
    centre = np.mean(list(truth[1].values()))
    np.testing.assert_allclose(out.scores["value"], [truth[0][w] for w in words], atol=1e-4)
    np.testing.assert_allclose(out.scores["importance"], [truth[1][w] - centre for w in words], atol=1e-4)
    keep = np.random.default_rng(1).random((50, len(sample))) < 0.5
    assert out.surrogate is not None
    np.testing.assert_allclose(out.surrogate.predict(keep), handle.masked_log_odds(sample, keep), atol=1e-4)
    assert cost.queries == asked


def test_scores_follow_their_definitions() -> None:
    value, importance = np.array([1.0, -2.0, 0.5, 0.5]), np.array([0.3, -0.1, 0.2, 0.2])
    surrogate = SlalomSurrogate(value, importance)
    scores = slalom_scores(surrogate)
    weight = np.exp(importance)
    alpha = weight / weight.sum()
    full = alpha @ value
    np.testing.assert_allclose(scores["lin"], weight * value)
    np.testing.assert_allclose(scores["gradient"], alpha * (value - full))
    np.testing.assert_allclose(scores["removal"], alpha * (value - full) / (1 - alpha))
    without = surrogate.predict(np.array([[False, True, True, True]]))[0]
    assert scores["removal"][0] == pytest.approx(full - without)
    assert scores["shapley"].sum() == pytest.approx(full)


def test_gradient_is_the_derivative_at_the_full_input_with_an_anchor() -> None:
    value, importance, anchor = np.array([1.0, -2.0]), np.array([0.4, -0.4]), (0.7, 1.1)

    def output(presence: np.ndarray) -> float:
        w = np.append(presence * np.exp(importance), np.exp(anchor[1]))
        return float(w @ np.append(value, anchor[0]) / w.sum())

    scores = slalom_scores(SlalomSurrogate(value, importance, anchor))
    for i in range(2):
        step = 1e-6 * np.eye(2)[i]
        numeric = (output(np.ones(2) + step) - output(np.ones(2) - step)) / 2e-6
        assert scores["gradient"][i] == pytest.approx(numeric, rel=1e-6)


def test_exact_needs_2u_minus_1_queries_and_says_so(handle: Classifier) -> None:
    sample = repeated_sample(handle)
    with pytest.raises(InvalidInput, match="at least 27 queries"):
        SlalomExact().explain(handle, sample, 26, np.random.default_rng(0))
    with handle.work(1000) as cost:
        SlalomExact().explain(handle, sample, 1000, np.random.default_rng(0))
    assert cost.queries == 27


def test_exact_difference_has_the_corrected_sign_and_reports_what_leaves_the_unit_interval() -> None:
    # g = (F(pair) - F(ref)) / (F(tau) - F(ref)) = 0.8, -0.25, 1.25, undefined, 0.5
    own, reference = np.array([1.0, 2.0, 2.0, 0.0, 4.0]), np.zeros(5)
    d, outside = importance_differences(np.array([0.8, -0.5, 2.5, 0.3, 2.0]), own, reference)
    np.testing.assert_allclose(d, [np.log(4.0), 0.0, np.log(4.0), 0.0, 0.0], atol=1e-12)
    assert outside.tolist() == [False, True, True, True, False]


def test_exact_on_a_real_model_lists_positions_outside() -> None:
    handle = Classifier(random_backend("bert", seed=1))
    sample = Sample("s", np.arange(5, 45))
    out = SlalomExact().explain(handle, sample, 79, np.random.default_rng(0))
    positions = out.diagnostics["outside_positions"]
    assert out.diagnostics["outside"] == len(positions)
    value = out.scores["value"]
    singles = handle.log_odds(list(sample.ids[:, None]))
    np.testing.assert_allclose(value, singles)
    assert len(positions) > 0, "a random transformer is no SLALOM"


@pytest.mark.parametrize("explainer", [SlalomEff(), SlalomFidel(), SlalomExact(), SlalomEff(tie="position")])
@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
@pytest.mark.parametrize("ids", [[7], [7, 9], [7, 7, 7], [*range(3, 60), 8, 8]])
def test_edge_inputs_give_finite_scores_within_budget(
    explainer: SlalomEff, architecture: str, ids: list[int], edge_handles: dict[str, Classifier]
) -> None:
    handle, sample = edge_handles[architecture], Sample("s", np.array(ids))
    with handle.work(150) as cost:
        out = explainer.explain(handle, sample, 150, np.random.default_rng(0))
    assert cost.queries <= 150
    assert len(out) == len(ids)
    assert out.target == 1
    if len(set(ids)) == 1:
        assert np.ptp(out.scores["value"]) < 1e-3


@pytest.fixture(scope="module")
def edge_handles() -> dict[str, Classifier]:
    return {name: Classifier(random_backend(name)) for name in ("bert", "gpt2")}


def test_510_tokens_by_position() -> None:
    handle = Classifier(random_backend("bert"))
    sample = Sample("long", np.random.default_rng(0).integers(5, 60, 510))
    out = SlalomEff(tie="position").explain(handle, sample, 600, np.random.default_rng(0))
    assert len(out) == 510
    assert out.diagnostics["features"] == 510


def test_positions_of_one_token_share_scores_only_when_tied(edge_handles: dict[str, Classifier]) -> None:
    sample = Sample("s", np.array([7, 9, 7, 11, 12, 13]))
    tied = SlalomFidel().explain(edge_handles["bert"], sample, 300, np.random.default_rng(0))
    free = SlalomFidel(tie="position").explain(edge_handles["bert"], sample, 300, np.random.default_rng(0))
    assert tied.scores["value"][0] == tied.scores["value"][2]
    assert free.scores["value"][0] != free.scores["value"][2]
    assert free.diagnostics["mse"] < tied.diagnostics["mse"]
    with pytest.raises(InvalidInput, match="unknown tie 'word'; one of position, token"):
        SlalomFidel(tie="word").explain(edge_handles["bert"], sample, 30, np.random.default_rng(0))


def test_same_seed_same_result(edge_handles: dict[str, Classifier]) -> None:
    sample = Sample("s", np.arange(5, 30))
    one, two, other = (
        SlalomEff().explain(edge_handles["bert"], sample, 200, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.scores["lin"], two.scores["lin"])
    assert not np.array_equal(one.scores["lin"], other.scores["lin"])


def test_enough_queries_ask_every_sequence_in_both_orders() -> None:
    features = tied_features(Sample("s", np.arange(5, 25)), "token")
    few = short_sequences(features, 7 * len(features) - 1, 2, np.random.default_rng(0))
    assert (few.orders, len(few.sequences), few.design.length) == (1, 139, 139)
    asked = short_sequences(features, 7 * len(features) + 1, 2, np.random.default_rng(0))
    assert (asked.orders, len(asked.sequences), asked.design.length) == (2, 140, 70)
    for there, back, row in zip(asked.sequences[:70], asked.sequences[70:], asked.design.dense(), strict=True):
        assert there.tolist() == back[::-1].tolist()
        assert row.tolist() == [(there == token).sum() for token in features.ids]
    assert short_sequences(features, 200, 1, np.random.default_rng(0)).orders == 1


@pytest.mark.parametrize("length", [1, 2, 3])
def test_no_short_sequence_is_asked_twice_and_all_weigh_as_the_law_has_them(length: int) -> None:
    """With queries enough for all, each multiset weighs as many of them as it has orderings among all sequences."""
    features = tied_features(Sample("s", np.arange(3, 7)), "token")
    asked = short_sequences(features, 4000, length, np.random.default_rng(1))
    rows = [tuple(row) for row in asked.design.dense().astype(int)]
    every = Counter(tuple(Counter(word)[i] for i in range(4)) for word in product(range(4), repeat=length))
    assert sorted(rows) == sorted(every)
    expected = [every[row] / 4**length for row in rows]
    np.testing.assert_allclose(asked.weights / asked.weights.sum(), expected, rtol=1e-6)
    assert asked.weights.sum() == pytest.approx(4000 // asked.orders)


def test_few_short_sequences_weigh_about_alike() -> None:
    features = tied_features(Sample("s", np.arange(200)), "token")
    asked = short_sequences(features, 300, 2, np.random.default_rng(1))
    assert len({tuple(sorted(row)) for row in asked.sequences.tolist()}) == len(asked.sequences) == 300
    np.testing.assert_allclose(asked.weights, 1.0, rtol=0.01)


def test_the_mean_of_both_orders_and_what_they_differ_by() -> None:
    asked = ShortSequences(np.empty((0, 2), np.int64), Design.of_counts(np.ones((2, 3))), np.ones(2), 2)
    means, within = asked.means(np.array([1.0, 5.0, 3.0, 5.0]))
    assert means.tolist() == [2.0, 5.0]
    assert within == pytest.approx((1.0 + 0.0) / 2)
    means, within = asked.means(np.array([[1.0, 0.0], [5.0, 0.0], [3.0, 4.0], [5.0, 0.0]]))
    assert means.tolist() == [[2.0, 2.0], [5.0, 0.0]]
    assert within == pytest.approx((1.0 + 4.0) / 2)


class OrderMatters:
    """A SLALOM whose answer moves by what the first token is and back by what the last is, without noise."""

    target, class_names = 1, ("a", "b")

    def __init__(self, value: np.ndarray, importance: np.ndarray, order: np.ndarray) -> None:
        self.value, self.weight, self.order = value, np.exp(importance), order

    def log_odds(self, sequences: list[np.ndarray]) -> np.ndarray:
        ids = np.stack(sequences)
        w = self.weight[ids]
        slalom = (w * self.value[ids]).sum(axis=1) / w.sum(axis=1)
        return slalom + self.order[ids[:, 0]] - self.order[ids[:, -1]]


def test_what_the_order_does_drops_out() -> None:
    """Hand-made order effects ten times the values: with both orders asked the SLALOM beneath is found exactly."""
    rng = np.random.default_rng(3)
    value, importance, order = rng.normal(size=12), rng.normal(size=12), 10 * rng.normal(size=12)
    model: Any = OrderMatters(value, importance, order)
    found = SlalomEff().explain(model, Sample("s", np.arange(12)), 300, rng)
    np.testing.assert_allclose(found.scores["value"], value, atol=1e-6)
    np.testing.assert_allclose(found.scores["importance"], importance - importance.mean(), atol=1e-6)
    assert found.diagnostics["mse"] > 10, "the error over the queries includes what no order-blind model can follow"


def test_removal_where_one_token_has_nearly_all_the_weight() -> None:
    """1 - alpha rounds to 0 there; by hand: without the heavy token the mean of the others is left."""
    scores = slalom_scores(SlalomSurrogate([3.0, 1.0, 2.0], [0.0, -800.0, -800.0]))
    assert scores["removal"][0] == pytest.approx(3.0 - 1.5)
    assert scores["removal"][1] == 0.0
    anchored = slalom_scores(SlalomSurrogate([3.0], [0.0], (1.0, 0.0)))
    assert anchored["removal"].tolist() == [1.0]
    assert slalom_scores(SlalomSurrogate([3.0], [0.0]))["removal"].tolist() == [0.0]
