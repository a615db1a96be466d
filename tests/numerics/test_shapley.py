"""Shapley values against the definition, symmetry, and hand-worked games."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from slalom_bench.errors import InvalidInput
from slalom_bench.numerics import shapley
from slalom_bench.numerics.shapley import shapley_values
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

ANCHORS = [None, (1.0, 0.5), (-2.0, 4.0)]


def by_permutations(surrogate: SlalomSurrogate) -> np.ndarray:
    """The mean marginal contribution over all n! orders, F(empty) = anchor value or 0."""
    n = len(surrogate)
    out, orders = np.zeros(n), list(permutations(range(n)))
    for order in orders:
        keep, before = np.zeros(n, bool), 0.0 if surrogate.anchor is None else surrogate.anchor[0]
        for i in order:
            keep[i] = True
            after = surrogate.predict(keep[None])[0]
            out[i] += after - before
            before = after
    return out / len(orders)


def random_slalom(n: int, anchor: tuple[float, float] | None, scale: float = 1.0) -> SlalomSurrogate:
    rng = np.random.default_rng(n)
    return SlalomSurrogate(rng.normal(size=n) + 1, scale * rng.normal(size=n), anchor)


def test_two_tokens_by_hand() -> None:
    # F({a}) = 3, F({b}) = -1, F({a, b}) = 2, F(empty) = 0: a gets (3 + 3) / 2, b gets (-1 - 1) / 2
    surrogate = SlalomSurrogate([3.0, -1.0], [np.log(3.0), 0.0])
    np.testing.assert_allclose(shapley_values(surrogate), [3.0, -1.0])


@pytest.mark.parametrize("anchor", ANCHORS)
def test_enumeration_equals_the_definition(anchor: tuple[float, float] | None) -> None:
    surrogate = random_slalom(6, anchor)
    np.testing.assert_allclose(shapley_values(surrogate), by_permutations(surrogate), atol=1e-12)


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_quadrature_equals_enumeration(anchor: tuple[float, float] | None, scale: float) -> None:
    surrogate = random_slalom(12, anchor, scale)
    np.testing.assert_allclose(shapley_values(surrogate), shapley._exact(surrogate), atol=5e-5)


@pytest.mark.parametrize("anchor", [None, (0.5, -50.0)])
@pytest.mark.parametrize("gap", [80.0, 200.0, 500.0])
def test_quadrature_holds_for_importances_far_apart(anchor: tuple[float, float] | None, gap: float) -> None:
    value = np.random.default_rng(2).normal(size=12)
    surrogate = SlalomSurrogate(value, np.repeat([0.0, -gap], 6), anchor)
    np.testing.assert_allclose(shapley_values(surrogate), shapley._exact(surrogate), atol=5e-5)


def test_long_inputs_sum_to_the_full_prediction_and_repeats_share() -> None:
    rng = np.random.default_rng(0)
    value, importance, ids = rng.normal(size=250), rng.normal(size=250), rng.integers(0, 250, 510)
    surrogate = SlalomSurrogate(value[ids], importance[ids])
    values = shapley_values(surrogate)
    assert values.sum() == pytest.approx(surrogate.predict(np.ones((1, 510), bool))[0])
    assert all(np.ptp(values[ids == i]) == 0 for i in set(ids.tolist()))


def test_linear_surrogates_return_their_weights() -> None:
    np.testing.assert_array_equal(shapley_values(LinearSurrogate([1.0, -2.0, 0.5], 3.0)), [1.0, -2.0, 0.5])


class Quadratic:
    """F(S) = |S|^2 + sum of kept weights: Shapley n + weight."""

    kind = "quadratic"

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    def __len__(self) -> int:
        return len(self.weights)

    def predict(self, keep: np.ndarray) -> np.ndarray:
        return keep.sum(axis=1) ** 2 + keep @ self.weights

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind}


def test_other_kinds_are_sampled_and_reverse_orders_cancel() -> None:
    weights = np.arange(15.0)
    values = shapley_values(Quadratic(weights), np.random.default_rng(0), permutations=2)
    np.testing.assert_allclose(values, 15 + weights)  # a permutation with its reverse is exact for pairwise games
    with pytest.raises(InvalidInput, match="quadratic surrogate over 15"):
        shapley_values(Quadratic(weights))


class Shifted(SlalomSurrogate):
    """What is derived from SLALOM and predicts something else: a sum over the kept positions."""

    def predict(self, keep: np.ndarray) -> np.ndarray:
        return 1.0 + keep @ np.arange(float(len(self)))


def test_kinds_derived_from_slalom_are_valued_by_what_they_predict() -> None:
    values = shapley_values(Shifted(np.zeros(12), np.zeros(12), (0.0, 0.0)), np.random.default_rng(0), permutations=2)
    np.testing.assert_allclose(values, np.arange(12.0), atol=1e-12)
