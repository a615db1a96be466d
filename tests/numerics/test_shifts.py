"""The shift table against planted tables, and its surrogate."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.numerics.shifts import ShiftTable, choose_ridge
from slalom_bench.run.records import surrogate_from_dict
from slalom_bench.surrogates.shifted_slalom import ShiftedSlalom, position_shifts


def planted(n: int, seed: int) -> ShiftedSlalom:
    """Nothing but a random table: what tokens gain when they move."""
    table = np.random.default_rng(seed).normal(size=(n + 1, 7))
    zero = np.zeros(n)
    return ShiftedSlalom(zero, zero, (0.0, 0.0), zero, table - table[:, :1], 0.0)


def test_position_shifts_count_removals_before_each_token_and_all_for_the_anchor() -> None:
    removed = np.array([[False, True, False, True, False], [False] * 5])
    assert position_shifts(removed, 9).tolist() == [[0, 0, 1, 1, 2, 2], [0] * 6]
    assert position_shifts(removed, 1)[0].tolist() == [0, 0, 1, 1, 1, 1]


def test_predict_by_hand() -> None:
    # tokens 0..2 of value 0; moving token 2 by one gains 0.5, the anchor 0.25; removing token 1 costs 2; offset 1
    table = np.zeros((4, 3))
    table[2, 1], table[3, 1] = 0.5, 0.25
    surrogate = ShiftedSlalom(np.zeros(3), np.zeros(3), (0.0, 0.0), [0.0, 2.0, 0.0], table, 1.0)
    keep = np.array([[True, True, True], [True, False, True], [True, False, False]])
    np.testing.assert_allclose(surrogate.predict(keep), [1.0, 1.0 - 2.0 + 0.5 + 0.25, 1.0 - 2.0])


@pytest.mark.parametrize("rows", [60, 2500])
def test_a_planted_table_predicts_new_masks(rows: int) -> None:
    """In the dual (fewer rows than columns) and in the primal form; single deletions held by the reduction."""
    n, truth, rng = 12, planted(12, 0), np.random.default_rng(1)
    masks = delete_counts(n, rng.integers(2, 7, size=rows + 300), rng)

    def beyond(surrogate: ShiftedSlalom) -> np.ndarray:
        return surrogate.predict(masks) - (~masks) @ surrogate.predict(~np.eye(n, dtype=bool))

    target = beyond(truth)
    effects, table = ShiftTable(~masks[:rows], 6, singles=True).fit(target[:rows])
    zero = np.zeros(n)
    assert not effects.any()
    fitted = ShiftedSlalom(zero, zero, (0.0, 0.0), zero, table, 0.0)
    error = beyond(fitted) - target
    explained = 1 - np.mean(error[rows:] ** 2) / np.var(target[rows:])
    assert explained > (0.999 if rows > 1000 else 0.3)


@pytest.mark.parametrize("rows", [150, 2500])
def test_effects_and_table_together_without_singles(rows: int) -> None:
    """Tokens that do much by going and little by moving: both parts are found, effects with their sign."""
    n, rng = 12, np.random.default_rng(5)
    effects = 4 * rng.normal(size=n)
    zero = np.zeros(n)
    truth = ShiftedSlalom(zero, zero, (0.0, 0.0), effects, planted(n, 6).table * 0.3, 0.0)
    masks = delete_counts(n, rng.integers(1, 7, size=rows + 300), rng)
    target = truth.predict(masks)
    found, table = ShiftTable(~masks[:rows], 6, singles=False).fit(target[:rows])
    fitted = ShiftedSlalom(zero, zero, (0.0, 0.0), found, table, 0.0)
    error = fitted.predict(masks) - target
    assert np.mean(error[rows:] ** 2) / np.var(target[rows:]) < (1e-3 if rows > 1000 else 0.1)
    assert np.corrcoef(found, effects)[0, 1] > 0.9


@pytest.mark.parametrize(("largest", "singles"), [(6, True), (6, False), (1, True), (1, False), (0, False)])
def test_inner_products_and_adjoint_are_those_of_the_regressors(largest: int, singles: bool) -> None:
    """Against the definition: indicators of (token, shift), less the full input's and, held, those of each removal."""
    n, rng = 12, np.random.default_rng(7)
    removed = ~delete_counts(n, rng.integers(0, (largest or n) + 1, size=40), rng)

    def indicators(rows: np.ndarray) -> np.ndarray:
        kept = np.hstack([~rows, np.ones((len(rows), 1), bool)])
        hot = kept[:, :, None] & (position_shifts(rows, largest)[:, :, None] == np.arange(largest + 1))
        return hot.reshape(len(rows), -1).astype(float) - np.eye(largest + 1)[np.zeros(n + 1, int)].ravel()

    features = indicators(removed)
    table = ShiftTable(removed, largest, singles=singles)
    if singles:
        features -= removed @ indicators(np.eye(n, dtype=bool))
    else:
        features = np.hstack([features, -removed.astype(float)])
    x, scaled = rng.normal(size=40), features * table.scales / np.sqrt(table.noise)[:, None]
    np.testing.assert_allclose(table._adjoint(x), table.scales * (x @ features), atol=1e-12)
    np.testing.assert_allclose(table._kernel(slice(None)), scaled @ scaled.T, atol=1e-10)
    np.testing.assert_allclose(table._gram(), scaled.T @ scaled, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(table._features(slice(None), range(largest + 1)), features)
    with pytest.raises(InvalidInput, match="at most 1"):
        ShiftTable(np.ones((1, 2), bool), 1, singles=False)


def test_the_ridge_finds_the_noise_level() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(400, 30))
    target = features @ rng.normal(size=30) * 2 + 3 * rng.normal(size=400)
    ratio, prior, _ = choose_ridge(features @ features.T, target)
    assert ratio == pytest.approx(9 / 4, rel=0.6)
    assert prior == pytest.approx(4, rel=0.6)


def test_the_ridge_has_the_likelihood_of_its_normal_law() -> None:
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(3)
    features, target = rng.normal(size=(20, 8)), rng.normal(size=20)
    ratio, prior, cost = choose_ridge(features @ features.T, target)
    normal = multivariate_normal(cov=prior * (features @ features.T + ratio * np.eye(20)))
    assert cost == pytest.approx(-2 * normal.logpdf(target) - 20 * (1 + np.log(2 * np.pi)))


def test_stored_and_loaded_it_predicts_the_same() -> None:
    surrogate = planted(5, 3)
    keep = np.random.default_rng(4).random((10, 5)) < 0.5
    again = surrogate_from_dict(json.loads(json.dumps(surrogate.to_dict())))
    np.testing.assert_array_equal(again.predict(keep), surrogate.predict(keep))
    with pytest.raises(InvalidInput, match="table of 4 rows"):
        ShiftedSlalom([0.0] * 3, [0.0] * 3, (0.0, 0.0), [0.0] * 3, np.zeros((3, 2)), 0.0)
