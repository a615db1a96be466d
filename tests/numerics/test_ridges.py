"""The ridge of largest marginal likelihood against planted noise and scipy's normal law."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.numerics.ridges import choose_ridge


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
