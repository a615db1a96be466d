"""Position shifts against planted ones, their spread, and their surrogate."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.numerics.shifts import choose_ridge, fit_correction
from slalom_bench.running.records import surrogate_from_dict
from slalom_bench.surrogates.shifted_slalom import ShiftedSlalom, shift_features

ZERO = np.zeros(20)


def planted(seed: int, curvature: float = 0.6) -> ShiftedSlalom:
    """Effects and two carriers with places of their own, nothing of SLALOM."""
    rng = np.random.default_rng(seed)
    carriers, places = rng.normal(size=(21, 2)), 0.3 * rng.normal(size=(21, 2))
    return ShiftedSlalom(ZERO, ZERO, (0.0, 0.0), rng.normal(size=20), carriers, places, curvature)


def test_features_by_hand() -> None:
    """Without token 1 of three, token 2 is read at place 1 and the anchor at place 2."""
    carriers = np.array([[1.0], [10.0], [100.0], [1000.0]])
    found = shift_features(np.array([[False, True, False], [False] * 3]), carriers)
    assert found.tolist() == [[0.0, 100.0, 1000.0 - 100.0, -1000.0], [0.0] * 4]


def test_predict_by_hand() -> None:
    # without token 1: it takes 2; token 2 gains 100 (p_1 - p_2), the anchor 1000 (p_2 - p_3); a third is gone
    carriers, places = np.array([[1.0], [10.0], [100.0], [1000.0]]), np.array([[0.0], [0.05], [0.01], [0.0]])
    surrogate = ShiftedSlalom([0.0] * 3, [0.0] * 3, (0.0, 0.0), [0.0, 2.0, 0.0], carriers, places, 0.6, 1.0)
    keep = np.array([[True, True, True], [True, False, True]])
    np.testing.assert_allclose(surrogate.predict(keep), [1.0, 1.0 + (-2.0 + 4.0 + 10.0) / 0.8])


@pytest.mark.parametrize(("rows", "share"), [(50, 0.5), (1500, 1e-3)])
def test_planted_shifts_predict_new_masks(rows: int, share: float) -> None:
    """In the dual (fewer rows than columns) and in the primal form."""
    truth, rng = planted(0), np.random.default_rng(1)
    keep = delete_counts(20, rng.integers(1, 11, size=rows + 300), rng)
    change = truth.predict(keep)
    found = fit_correction(~keep[:rows], change[:rows], truth.carriers)
    fitted = ShiftedSlalom(ZERO, ZERO, (0.0, 0.0), found.effects, truth.carriers, found.places, found.curvature)
    error = fitted.predict(keep[rows:]) - change[rows:]
    assert np.mean(error**2) < share * np.mean(change[rows:] ** 2)
    if rows > 1000:
        assert found.curvature == 0.6
        # behind the last token stands the anchor alone: its place can take up what the token does
        np.testing.assert_allclose(found.effects[:-1], truth.effects[:-1], atol=0.05)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_the_spread_covers_what_is_new(power: float) -> None:
    """Noise that grows with the removals, or does not: nine of ten intervals of 90 % hold what is seen, at any size."""
    truth, rng = planted(2), np.random.default_rng(3)
    keep = delete_counts(20, rng.integers(1, 11, size=1500), rng)
    count = (~keep).sum(axis=1)
    change = truth.predict(keep) + 0.3 * count ** (power / 2) * rng.normal(size=1500)
    found = fit_correction(~keep[:900], change[:900], truth.carriers)
    fitted = ShiftedSlalom(
        ZERO, ZERO, (0.0, 0.0), found.effects, truth.carriers, found.places, found.curvature, 0.0, found.spread
    )
    held = np.abs(fitted.predict(keep) - change) < 1.645 * fitted.predict_std(keep)
    for some in (count <= 4, count > 6):
        assert 0.82 < held[900:][some[900:]].mean() < 0.97
    assert fitted.predict_std(np.ones((1, 20), bool)) == [0.0]


def test_no_change_is_no_correction() -> None:
    found = fit_correction(~np.eye(20, dtype=bool), ZERO, np.ones((21, 1)))
    assert not found.effects.any()
    assert found.spread == (0.0, 0.0)


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
    surrogate = planted(3)
    keep = np.random.default_rng(4).random((10, 20)) < 0.5
    again = surrogate_from_dict(json.loads(json.dumps(surrogate.to_dict())))
    np.testing.assert_array_equal(again.predict(keep), surrogate.predict(keep))
    with pytest.raises(InvalidInput, match="3 values need 3 effects"):
        ShiftedSlalom([0.0] * 3, [0.0] * 3, (0.0, 0.0), [0.0] * 2, np.zeros((4, 2)), np.zeros((4, 2)))
    with pytest.raises(InvalidInput, match="curvature in"):
        ShiftedSlalom([0.0], [0.0], (0.0, 0.0), [0.0], np.zeros((2, 0)), np.zeros((2, 0)), 1.0)
