"""LIME's limit on quotients of sums, against weighted least squares over every mask there is."""

from itertools import product
from math import comb

import numpy as np
import pytest

from slalom_bench.numerics.lime_limit import Part, lime_limit

WORDS = 10


def quotients(spread, words=WORDS, heads=3):
    """Weights of very unequal size (of each head one word has most of them where `spread` is large)."""
    rng = np.random.default_rng(0)

    def part(width):
        weight = np.exp(spread * rng.standard_normal((heads, width)))
        return Part(weight, weight * rng.standard_normal((heads, width)))

    kept, removed = part(words), part(words)
    fixed = Part(part(1).weight, part(1).weighted)
    return kept, removed, fixed


def least_squares(kept, removed, fixed, smallest, kernel_width):
    """Over all masks, the number of words removed uniform from `smallest`, any so many of them as likely."""
    z = np.array(list(product([0.0, 1.0], repeat=kept.weight.shape[1])))
    d = z.shape[1]
    gone = (d - z.sum(axis=1)).astype(int)
    likely = np.array([1 / comb(d, s) if s >= smallest else 0.0 for s in gone])
    weight = likely * np.exp(-((100 * (1 - np.sqrt(z.mean(axis=1)))) ** 2) / (2 * kernel_width**2))
    summed = [
        z @ getattr(kept, n).T + (1 - z) @ getattr(removed, n).T + getattr(fixed, n).T for n in Part.__annotations__
    ]
    y = (summed[1] / summed[0]).mean(axis=1)
    root = np.sqrt(weight)[:, None]
    return np.linalg.lstsq(root * np.column_stack([z, np.ones(len(z))]), root[:, 0] * y, rcond=None)[0][:-1]


@pytest.mark.parametrize("spread", [0.1, 1.0, 2.0])
def test_without_a_kernel_it_is_exact(spread):
    parts = quotients(spread)
    exact = least_squares(*parts, smallest=0, kernel_width=1e9)
    assert lime_limit(*parts, kernel_width=1e9) == pytest.approx(exact, abs=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("spread", [0.1, 1.0, 2.0])
def test_under_limes_own_law_and_kernel_it_is_near(spread):
    parts = quotients(spread)
    exact = least_squares(*parts, smallest=1, kernel_width=25.0)
    assert np.linalg.norm(lime_limit(*parts) - exact) < 0.04 * np.linalg.norm(exact)
