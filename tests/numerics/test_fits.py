"""SLALOM fits against parameters that are known."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.errors import InvalidInput
from slalom_bench.numerics import designs, masks
from slalom_bench.numerics.designs import Design
from slalom_bench.numerics.fits import VARIANCES, empirical_bayes_variance, fit_slalom
from slalom_bench.numerics.search import Problem, Ridge


def slalom(counts: np.ndarray, s: np.ndarray, v: np.ndarray) -> np.ndarray:
    w = np.exp(s)
    return ((counts @ (w * v.T).T).T / (counts @ w)).T


def truth(u: int, seed: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.normal(size=u) * scale
    return s - s.mean(), 2 * rng.normal(size=u) + 0.7


def pairs(u: int, m: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(0, u, (m, 2))
    return (drawn[:, :, None] == np.arange(u)).sum(axis=1)


def deletions(u: int, n: int, m: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ids = np.concatenate([np.arange(u), rng.integers(0, u, n - u)])
    return masks.small_deletions(n, m, rng)[0] @ (ids[:, None] == np.arange(u)).astype(float)


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_pairs_recover_value_and_importance(scale: float) -> None:
    s, v = truth(40, 1, scale)
    counts = pairs(40, 2000, 2)
    fit = fit_slalom(counts, slalom(counts, s, v))
    assert fit.converged
    np.testing.assert_allclose(fit.importance, s, atol=1e-5)
    np.testing.assert_allclose(fit.value, v, atol=1e-5)
    assert fit.mse < 1e-12


def test_deletions_recover_despite_float32_noise() -> None:
    s, v = truth(12, 3)
    counts = deletions(12, 20, 1000, 4)
    noise = 1e-7 * np.random.default_rng(5).normal(size=1000)
    fit = fit_slalom(counts, slalom(counts, s, v) + noise)
    assert fit.converged
    np.testing.assert_allclose(fit.importance, s, atol=1e-4)
    np.testing.assert_allclose(fit.value, v, atol=1e-4)


def test_anchor_is_recovered_with_its_importance() -> None:
    s, v = truth(11, 6)
    counts = deletions(11, 15, 1500, 7)
    full_s, full_v = np.append(s, 1.3), np.append(v, -0.4)
    targets = slalom(np.hstack([counts, np.ones((1500, 1))]), full_s, full_v)
    fit = fit_slalom(counts, targets, anchor=True)
    assert fit.anchor is not None
    np.testing.assert_allclose([*fit.value, fit.anchor[0]], full_v, atol=1e-4)
    np.testing.assert_allclose([*fit.importance, fit.anchor[1]], full_s, atol=1e-4)
    without = fit_slalom(counts, targets)
    assert without.mse > 100 * fit.mse


def test_several_outputs_share_one_importance() -> None:
    s, _ = truth(15, 8)
    v = np.random.default_rng(9).normal(size=(15, 3))
    counts = pairs(15, 600, 10)
    fit = fit_slalom(counts, slalom(counts, s, v))
    np.testing.assert_allclose(fit.importance, s, atol=1e-5)
    np.testing.assert_allclose(fit.value, v, atol=1e-5)


def test_noisy_fit_is_a_stationary_point_of_the_squared_error() -> None:
    s, v = truth(10, 11)
    counts = pairs(10, 800, 12)
    targets = slalom(counts, s, v) + 0.3 * np.random.default_rng(13).normal(size=800)
    fit = fit_slalom(counts, targets, prior_value=np.inf, prior_importance=1e9, tol=1e-13)
    error = lambda s, v: np.mean((slalom(counts, s, v) - targets) ** 2)  # noqa: E731
    assert fit.converged
    assert error(fit.importance, fit.value) == pytest.approx(fit.mse)
    for j in range(10):
        step = 1e-5 * np.eye(10)[j]
        for moved in ((step, 0), (-step, 0), (0, step), (0, -step)):
            assert error(fit.importance + moved[0], fit.value + moved[1]) >= fit.mse * (1 - 1e-9)
    assert fit.mse <= error(s, v)


def test_weights_equal_repetition() -> None:
    s, v = truth(6, 14)
    counts = pairs(6, 60, 15)
    targets = slalom(counts, s, v) + 0.2 * np.random.default_rng(16).normal(size=60)
    often = np.random.default_rng(17).integers(1, 4, 60)
    weighted = fit_slalom(counts, targets, weights=often)
    repeated = fit_slalom(np.repeat(counts, often, axis=0), np.repeat(targets, often))
    np.testing.assert_allclose(weighted.value, repeated.value, atol=1e-5)
    np.testing.assert_allclose(weighted.importance, repeated.importance, atol=1e-5)


def test_shifting_and_scaling_targets_moves_only_values() -> None:
    s, v = truth(8, 18)
    counts = pairs(8, 200, 19)
    targets = slalom(counts, s, v) + 0.1 * np.random.default_rng(20).normal(size=200)
    fit, moved = fit_slalom(counts, targets), fit_slalom(counts, 3 * targets + 5)
    np.testing.assert_allclose(moved.importance, fit.importance, atol=1e-4)
    np.testing.assert_allclose(moved.value, 3 * fit.value + 5, atol=1e-3)


def test_a_token_never_seen_gets_the_mean_target_and_importance_near_zero() -> None:
    s, v = truth(6, 21)
    counts = np.hstack([pairs(6, 300, 22), np.zeros((300, 1))])
    targets = slalom(counts[:, :6], s, v)
    fit = fit_slalom(counts, targets)
    assert fit.value[6] == pytest.approx(targets.mean())
    np.testing.assert_allclose(fit.importance[:6] - fit.importance[:6].mean(), s, atol=1e-4)


def test_constant_targets_and_a_single_token_are_fitted_without_error() -> None:
    fit = fit_slalom(np.full((5, 1), 2.0), np.full(5, -1.25))
    assert (fit.converged, fit.importance.tolist(), fit.value.tolist()) == (True, [0.0], [-1.25])
    flat = fit_slalom(pairs(4, 50, 23), np.full(50, 2.0))
    np.testing.assert_allclose(flat.value, 2.0)
    np.testing.assert_allclose(flat.importance, 0.0)


@pytest.mark.parametrize("make", [pairs, lambda u, m, seed: deletions(u, u + 9, m, seed)])
def test_design_products_equal_dense_algebra(make: object) -> None:
    counts = make(9, 50, 24).astype(float)  # type: ignore[operator]
    design = Design.of_counts(counts)
    rng = np.random.default_rng(25)
    x, weights = rng.normal(size=9), rng.random(50)
    np.testing.assert_allclose(design.dense(), counts)
    np.testing.assert_allclose(design.times(x), counts @ x)
    np.testing.assert_allclose(design.adjoint(weights), counts.T @ weights)
    np.testing.assert_allclose(design.gram(weights), counts.T @ np.diag(weights) @ counts, atol=1e-12)
    shares = counts / counts.sum(axis=1, keepdims=True)
    spread = np.average((shares - np.average(shares, axis=0, weights=weights)) ** 2, axis=0, weights=weights).sum()
    assert design.total_share_variance(weights / weights.sum()) == pytest.approx(spread)


def test_designs_of_sequences_deletions_and_an_anchor_are_their_counts() -> None:
    rng = np.random.default_rng(3)
    drawn = rng.integers(5, size=(30, 3))
    of = rng.integers(5, size=12)
    keep = rng.random((30, 12)) < 0.8
    tokens = np.arange(5)
    short, deleted = Design.of_sequences(drawn, 5), Design.of_deletions(keep, of, 5)
    np.testing.assert_array_equal(short.dense(), (drawn[:, :, None] == tokens).sum(axis=1))
    np.testing.assert_array_equal(deleted.dense(), keep.astype(int) @ (of[:, None] == tokens))
    for design in (short, deleted):
        whole = np.hstack([design.dense(), np.ones((30, 1))])
        np.testing.assert_array_equal(design.anchored().dense(), whole)
        weights = rng.random(30)
        np.testing.assert_allclose(design.anchored().gram(weights), whole.T @ np.diag(weights) @ whole, atol=1e-12)


def test_dense_and_sparse_paths_fit_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    s, v = truth(7, 26)
    counts = pairs(7, 200, 27)
    targets = slalom(counts, s, v)
    sparse = fit_slalom(counts, targets)
    monkeypatch.setattr(designs, "DENSE_PAIRS", 0)
    dense = fit_slalom(counts, targets)
    np.testing.assert_allclose(dense.value, sparse.value, atol=1e-7)


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"3 sequences for targets of shape \(4,\)"):
        fit_slalom(np.ones((3, 2)), np.ones(4))
    with pytest.raises(InvalidInput, match="empty sequence"):
        fit_slalom(np.array([[1, 0], [0, 0]]), np.ones(2))


@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_and_hessian_are_those_of_the_objective(outputs: int) -> None:
    """Against central differences of the objective, at a point with large errors (where Gauss and Newton's is off)."""
    rng = np.random.default_rng(5)
    counts = pairs(6, 60, 3).astype(float)
    problem = Problem(Design.of_counts(counts), rng.normal(size=(outputs, 60)), np.full(60, 1 / 60))
    ridge = Ridge(np.full(6, 0.2), np.full(6, 0.3), 0.1)
    s, shifts = rng.normal(size=6), 1e-4 * np.eye(6)
    point = problem.evaluate(s, ridge)
    hessian = problem.hessian(point, exact=True)
    sides = [(problem.evaluate(s + d, ridge), problem.evaluate(s - d, ridge)) for d in shifts]
    np.testing.assert_allclose(2 * point.gradient, [(a.objective - b.objective) / 2e-4 for a, b in sides], atol=1e-6)
    np.testing.assert_allclose(hessian, [(a.gradient - b.gradient) / 2e-4 for a, b in sides], atol=1e-6)
    assert abs(problem.hessian(point, exact=False) - hessian).max() > 1e-3


def test_a_noisy_fit_converges_in_a_few_steps() -> None:
    s, v = truth(40, 1, 1.0)
    counts = pairs(40, 800, 2)
    noisy = slalom(counts, s, v) + np.random.default_rng(0).normal(size=800)
    fit = fit_slalom(counts, noisy)
    assert fit.converged
    assert fit.iterations <= 15


@pytest.mark.parametrize("variance", [0.5, 4.0, 20.0])
def test_the_likeliest_prior_variance_is_near_the_true_one(variance: float) -> None:
    """Normal means, seen with known noise and shrunk by a ridge that has another variance in mind."""
    rng = np.random.default_rng(11)
    data = rng.uniform(0.2, 5.0, 2000)
    seen = rng.normal(size=2000) * np.sqrt(variance) + rng.normal(size=2000) / np.sqrt(data)
    ridge = np.full(2000, 1 / 2.0)
    found = empirical_bayes_variance(seen * data / (data + ridge), ridge, data + ridge, 2.0)
    assert found == pytest.approx(variance, rel=0.3)


def test_a_prior_that_fits_the_importances_lowers_the_error_on_new_sequences() -> None:
    """Equal importances and noise: the prior to start from is found to be too wide."""
    _, v = truth(40, 1)
    counts, fresh = pairs(40, 200, 2), pairs(40, 2000, 3)
    targets = slalom(counts, np.zeros(40), v) + np.random.default_rng(4).normal(size=200)

    def error(**prior: float) -> float:
        fit = fit_slalom(counts, targets, **prior)
        return float(np.mean((slalom(fresh, fit.importance, fit.value) - slalom(fresh, np.zeros(40), v)) ** 2))

    assert error() < error(prior_importance=2.0)


def test_the_anchor_says_nothing_of_the_tokens_prior() -> None:
    """An anchor far from equal tokens: its importance must not widen their prior."""
    rng = np.random.default_rng(7)
    counts = deletions(12, 15, 600, 8)
    full_s, full_v = np.append(np.zeros(12), 4.0), np.append(3 * rng.normal(size=12), 0.0)
    targets = slalom(np.hstack([counts, np.ones((600, 1))]), full_s, full_v) + 0.02 * rng.normal(size=600)
    fit = fit_slalom(counts, targets, anchor=True)
    tight = fit_slalom(counts, targets, anchor=True, prior_importance=VARIANCES[0])
    np.testing.assert_allclose(fit.importance, tight.importance, atol=5e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(InvalidInput, match="finite"):
        fit_slalom(np.ones((5, 2)), [1.0, 2.0, bad, 1.0, 1.0])


def test_a_few_more_sequences_do_no_harm() -> None:
    """Just above as many sequences as parameters the data cannot tell the prior: 2.3 U are no worse than 2.2 U."""
    errors = {46: 0.0, 44: 0.0}
    for seed in range(12):
        s, v = truth(20, seed, 1.5)
        fresh = pairs(20, 500, 100 + seed)
        for m in errors:
            counts = pairs(20, 46, 50 + seed)[:m]
            noise = 0.1 * np.random.default_rng(seed).normal(size=46)[:m]
            fit = fit_slalom(counts, slalom(counts, s, v) + noise)
            errors[m] += float(np.mean((slalom(fresh, fit.importance, fit.value) - slalom(fresh, s, v)) ** 2))
    assert errors[46] < 1.1 * errors[44]


@pytest.mark.parametrize("most", [0, 1, 2, 3, 5])
def test_no_more_steps_than_allowed(most: int) -> None:
    s, v = truth(12, 3)
    counts = pairs(12, 300, 4)
    fit = fit_slalom(counts, slalom(counts, s, v) + np.random.default_rng(5).normal(size=300), max_iter=most)
    assert fit.iterations <= most
    assert not fit.converged


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e99])
def test_targets_of_any_size_are_fitted(scale: float) -> None:
    s, v = truth(6, 14)
    counts = pairs(6, 60, 15)
    noisy = slalom(counts, s, v) + 0.2 * np.random.default_rng(16).normal(size=60)
    assert np.isfinite(fit_slalom(counts, scale * noisy).value).all()


@pytest.mark.parametrize("wide", [1e3, 1e9])
def test_priors_that_hold_nothing_back_still_end_in_numbers(wide: float) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        u = int(rng.integers(3, 14))
        fit = fit_slalom(deletions(u, u + 4, 60, seed), rng.normal(size=60), prior_importance=wide)
        assert np.isfinite([*fit.value, *fit.importance, fit.mse]).all()


def test_bad_weights_are_named() -> None:
    for bad in (np.zeros(3), -np.ones(3)):
        with pytest.raises(InvalidInput, match="negative, nor all of them 0"):
            fit_slalom(np.ones((3, 2)), np.arange(3.0), weights=bad)
    with pytest.raises(InvalidInput, match="finite"):
        fit_slalom(np.ones((3, 2)), np.full(3, 1e160))
