"""The process over removals against planted parts, the likelihood by scipy, closed forms, and its own deviation."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from slalom_bench.errors import InvalidInput
from slalom_bench.numerics import processes
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.numerics.processes import additive_effects, choose_variances, fit_process, posterior
from slalom_bench.running.records import surrogate_from_dict
from slalom_bench.surrogates.mask_process import PARTS, MaskKernel, MaskProcess, shift_features
from slalom_bench.surrogates.slalom import SlalomSurrogate

N = 20
NO_HINTS, NO_MOVES = np.zeros((N, 0)), np.zeros((N + 1, 0))


def removals(rows: int, seed: int) -> np.ndarray:
    """From one to half of the positions."""
    rng = np.random.default_rng(seed)
    return ~delete_counts(N, rng.integers(1, N // 2 + 1, size=rows), rng)


def kernel(**variances: float) -> MaskKernel:
    """Every part there is, with the given variances."""
    rng = np.random.default_rng(0)
    slalom = SlalomSurrogate(rng.normal(size=N), rng.normal(size=N), (0.3, 0.1))
    return MaskKernel(rng.normal(size=N), rng.normal(size=(N, 2)), rng.normal(size=(N + 1, 2)), slalom, variances)


def test_shift_features_by_hand() -> None:
    """Without token 1 of three, token 2 is read at place 1 and the anchor at place 2."""
    carriers = np.array([[1.0], [10.0], [100.0], [1000.0]])
    found = shift_features(np.array([[False, True, False], [False] * 3]), carriers)
    assert found.tolist() == [[0.0, 100.0, 1000.0 - 100.0, -1000.0], [0.0] * 4]


def test_the_rest_by_hand() -> None:
    """Effects 1 and -3: shares 1/4 and 3/4. Alone they differ in all, and each keeps to itself."""
    found = MaskKernel(np.array([1.0, -3.0]), np.zeros((2, 0)), np.zeros((3, 0)), None, {}).rest(
        np.eye(2, dtype=bool), np.eye(2, dtype=bool)
    )
    quarter, three = np.exp(-0.5), np.exp(-1.5)
    expected = [[2 - 2 * quarter, np.exp(-2) - quarter - three + 1], [np.exp(-2) - quarter - three + 1, 2 - 2 * three]]
    np.testing.assert_allclose(found, expected)


def test_how_unsure_it_is_by_hand() -> None:
    """Effects 1 and -3: each token is half of the text, the second three quarters of all effect."""
    removed = np.array([[True, False], [False, True], [True, True], [False, False]])
    found = MaskKernel(np.array([1.0, -3.0]), np.zeros((2, 0)), np.zeros((3, 0)), None, {}).unsure(removed)
    np.testing.assert_allclose(found, [0.5**1.5 / 0.5, 0.75**1.5 / 0.5, 1.0, 0.0])


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_a_kernel_that_vanishes_at_the_full_text(part: str) -> None:
    one, rows = kernel(**{part: 2.0}), removals(40, 1)
    values = one.between(rows, rows)
    np.testing.assert_allclose(values, values.T, atol=1e-12)
    assert np.linalg.eigvalsh(values).min() > -1e-9 * np.trace(values)
    np.testing.assert_allclose(np.diag(values), one.own(rows), atol=1e-12)
    assert np.abs(one.between(np.zeros((1, N), bool), rows)).max() < 1e-12


def test_variances_climb_to_the_largest_likelihood_of_the_normal_law() -> None:
    from scipy.stats import multivariate_normal

    rows, rng = removals(120, 2), np.random.default_rng(3)
    truth = kernel(gone=0.2, curve=3.0)
    share = rows.mean(axis=1)
    noisy = truth.between(rows, rows) + np.diag(0.5 * share)
    y = np.linalg.cholesky(noisy) @ rng.normal(size=120)
    y /= y.std()

    def likelihood(gone: float, curve: float, noise: float) -> float:
        cov = replace(truth, variances={"gone": gone, "curve": curve}).between(rows, rows) + np.diag(noise * share)
        return float(multivariate_normal(cov=cov).logpdf(y))

    found, noise = choose_variances(truth, ("gone", "curve"), rows, y, 200)
    best = (found.variances["gone"], found.variances["curve"], noise)
    for i in range(3):
        for factor in (0.7, 1.4):
            moved = [v * (factor if i == j else 1.0) for j, v in enumerate(best)]
            assert likelihood(*best) > likelihood(*moved)


def test_the_posterior_is_that_of_the_normal_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean and deviation by the textbook, also where masks are fewer than rows but span them."""
    rows, new, rng = removals(60, 4), removals(10, 5), np.random.default_rng(6)
    some, noise, y = kernel(gone=0.4, shift=0.1), 0.3, rng.normal(size=60)
    cov = some.between(rows, rows) + np.diag(noise * rows.mean(axis=1))
    across = some.between(new, rows)
    found = posterior(some, noise, rows, y)
    np.testing.assert_allclose(found.predict(~new), across @ np.linalg.solve(cov, y))
    variance = some.own(new) - np.sum(across * np.linalg.solve(cov, across.T).T, axis=1) + noise * new.mean(axis=1)
    wider = some.unsure(new) / some.unsure(rows).mean()
    np.testing.assert_allclose(found.predict_std(~new), found.spread * np.sqrt(variance * wider))
    left = [
        y[i] - posterior(some, noise, np.delete(rows, i, 0), np.delete(y, i)).predict(~rows[[i]])[0] for i in (0, 7)
    ]
    inverse = np.linalg.inv(cov)
    np.testing.assert_allclose(left, [(inverse @ y)[i] / inverse[i, i] for i in (0, 7)])
    additive = kernel(gone=0.4)
    exact = posterior(additive, noise, rows, y).predict(~new)
    monkeypatch.setattr(processes, "STORED", 30)
    fewer = posterior(additive, noise, rows, y)
    assert len(fewer.masks) == 30
    np.testing.assert_allclose(fewer.predict(~new), exact, atol=1e-3)


@pytest.mark.parametrize("planted", ["additive", "shift", "saturated", "slalom", "pairs"])
def test_what_is_planted_is_foretold(planted: str) -> None:
    rng, rows = np.random.default_rng(7), removals(1300, 8)
    effects, carriers = rng.normal(size=N) ** 3, rng.normal(size=(N + 1, 2))
    slalom = SlalomSurrogate(rng.normal(size=N), rng.normal(size=N), (0.3, 0.1))
    z = rows @ effects
    full = slalom.predict(np.ones((1, N), bool))[0]
    change = {
        "additive": z,
        "shift": z + shift_features(rows, carriers) @ rng.normal(size=2 * (N + 1)),
        "saturated": np.tanh(z / 4),
        "slalom": slalom.predict(~rows) - full,
        "pairs": z + 3 * rows[:, 2] * rows[:, 5] - 2 * rows[:, 7] * rows[:, 8],
    }[planted]
    moving = carriers if planted == "shift" else NO_MOVES
    found = fit_process(rows[:800], 1.5 + change[:800], 1.5, NO_HINTS, moving, slalom if planted == "slalom" else None)
    error = found.predict(~rows[800:]) - 1.5 - change[800:]
    bound = {"additive": 1e-6, "shift": 1e-5, "saturated": 2e-3, "slalom": 1e-8, "pairs": 0.02}[planted]
    assert np.mean(error**2) < bound * np.mean(change[800:] ** 2)
    assert found.predict(np.ones((1, N), bool)) == [1.5]
    if planted in ("shift", "slalom"):
        assert found.shares(rows[:50])[planted] > 0.3


def test_a_hint_in_proportion_is_taken_up_from_few_rows() -> None:
    """Ten rows for twenty effects: with what they are in proportion to, all is foretold; without, little."""
    rng, rows = np.random.default_rng(9), removals(210, 10)
    effects = rng.normal(size=N)
    change = rows @ effects
    told = fit_process(rows[:10], change[:10], 0.0, 3 * effects[:, None], NO_MOVES, None)
    alone = fit_process(rows[:10], change[:10], 0.0, NO_HINTS, NO_MOVES, None)
    errors = [np.mean((p.predict(~rows[10:]) - change[10:]) ** 2) / np.mean(change**2) for p in (told, alone)]
    assert errors[0] < 0.05
    assert errors[1] > 5 * errors[0]
    np.testing.assert_allclose(additive_effects(told), effects, atol=0.5)


@pytest.mark.parametrize("rows", [40, 600])
def test_the_deviation_covers_what_is_new(rows: int) -> None:
    """Noise that no part can foretell: about nine of ten intervals of 90 % hold what is seen."""
    rng, drawn = np.random.default_rng(11), removals(rows + 400, 12)
    held = []
    for _ in range(4):
        effects = rng.normal(size=N)
        change = drawn @ effects + np.sqrt(drawn.sum(axis=1)) * 0.5 * rng.normal(size=len(drawn))
        found = fit_process(drawn[:rows], change[:rows], 0.0, NO_HINTS, NO_MOVES, None)
        held.append(np.abs(found.predict(~drawn[rows:]) - change[rows:]) < 1.645 * found.predict_std(~drawn[rows:]))
    assert 0.8 < np.mean(held) < 0.98
    assert found.predict_std(np.ones((1, N), bool)) == [0.0]


@pytest.mark.parametrize("rows", [60, 400])
def test_the_deviation_covers_what_matters_most_together(rows: int) -> None:
    """Five tokens have nearly all effect, and make up for each other: no part says so, and few masks show it."""
    together = np.zeros((26, N), bool)
    together[:, :5] = [bits for b in range(32) if sum(bits := [b >> i & 1 for i in range(5)]) > 1]
    held = []
    for seed in range(6):
        rng, drawn = np.random.default_rng(seed), removals(rows, 100 + seed)
        effects = np.append(rng.uniform(1.0, 2.0, 5), 0.05 * rng.normal(size=N - 5))
        change = np.minimum(np.vstack([drawn, together]) @ effects, 2.5)
        found = fit_process(drawn, change[:rows], 0.0, NO_HINTS, NO_MOVES, None)
        held.append(np.abs(found.predict(~together) - change[rows:]) < 1.645 * found.predict_std(~together))
    assert np.mean(held) > 0.8


def test_no_change_is_none_and_storing_changes_nothing() -> None:
    rows = removals(30, 13)
    still = fit_process(rows, np.full(30, 2.0), 2.0, NO_HINTS, None, None)
    assert still.predict(~rows).tolist() == [2.0] * 30
    assert not still.predict_std(~rows).any()
    every = kernel(gone=1.0, hint=0.1, shift=0.2, curve=0.3, slalom=0.4, rest=0.5)
    found = posterior(every, 0.2, rows, np.random.default_rng(14).normal(size=30))
    again = surrogate_from_dict(json.loads(json.dumps(found.to_dict())))
    new = ~removals(9, 15)
    np.testing.assert_array_equal(again.predict(new), found.predict(new))
    with pytest.raises(InvalidInput, match="30 masks need as many weights"):
        MaskProcess(0.0, every, rows, [1.0], 0.1, 1.0)
