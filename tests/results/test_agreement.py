"""Agreement against scipy, by hand, and across seeds."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from slalom_bench.core import undefined
from slalom_bench.core.types import Explanation
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.correlation import pearson, ranks, spearman, top_overlap
from slalom_bench.results.agreement import MEASURES, agreement, pairwise, stability


def explanation(scores, unsigned=False, target=1):
    return Explanation({"lin": scores}, "lin", target, frozenset({"lin"} if unsigned else ()))


def test_correlations_equal_scipys():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, 30).astype(float), rng.normal(size=30)
    assert spearman(x, y) == pytest.approx(scipy_stats.spearmanr(x, y).statistic)
    for values in (x, y, np.round(x), np.array([2.0, 1.0, 2.0, 2.0, -1.0]), np.zeros(3)):
        assert ranks(values).tolist() == scipy_stats.rankdata(values).tolist()
    assert pearson(x, y) == pytest.approx(scipy_stats.pearsonr(x, y).statistic)


def test_top_overlap_by_hand():
    x, y = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([5.0, 1.0, 4.0, 3.0, 2.0])
    assert top_overlap(x, y, 1) == 1.0
    assert top_overlap(x, y, 2) == 0.5
    # ties in the order of the text
    assert top_overlap(np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]), 1) == 0.0


def test_signed_and_unsigned_meet_on_magnitudes():
    lime, attention = explanation([-3.0, 2.0, 1.0]), explanation([3.0, 2.0, 1.0], unsigned=True)
    assert agreement(lime, attention, top=2).values == pytest.approx({"spearman": 1.0, "pearson": 1.0, "top": 1.0})
    plain = agreement(lime, attention, top=2, magnitudes=False).values
    assert plain["spearman"] == pytest.approx(-0.5)
    # centred -3 2 and 1 0 -1: (-3 - 1) / (sqrt(14) sqrt(2))
    assert plain["pearson"] == pytest.approx(-4 / np.sqrt(28))
    assert plain["top"] == 1.0


def test_other_targets_are_turned_round():
    a, b = explanation([1.0, 2.0, 4.0]), explanation([-1.0, -2.0, -4.0], target=0)
    assert agreement(a, b, top=1).values == pytest.approx({"spearman": 1.0, "pearson": 1.0, "top": 1.0})


def test_undefined_and_mismatched():
    a, zero = explanation([1.0, 2.0, 3.0]), explanation([0.0] * 3)
    assert agreement(zero, a, top=1).undefined == dict.fromkeys(MEASURES, undefined.CONSTANT_SCORES)
    assert agreement(a, zero, top=1).undefined == dict.fromkeys(MEASURES, undefined.CONSTANT_REFERENCE)
    assert agreement(a, a, top=3).undefined == {"top": undefined.TOO_SHORT}
    with pytest.raises(InvalidInput, match="3 and 2"):
        agreement(a, explanation([1.0, 2.0]))


def test_pairwise_uses_common_samples_and_counts_undefined():
    runs = {
        "x": {"s": explanation([1.0, 2.0, 3.0]), "t": explanation([1.0, 2.0, 3.0]), "u": explanation([1.0, 2.0])},
        "y": {"s": explanation([3.0, 2.0, 1.0]), "t": explanation([0.0, 0.0, 0.0])},
        "z": {"s": explanation([1.0, 3.0, 2.0])},
    }
    found = pairwise(runs, top=1)
    assert list(found) == [("x", "y"), ("x", "z"), ("y", "z")]
    xy = found["x", "y"]
    assert (xy["spearman"].mean, xy["spearman"].n, xy["spearman"].undefined) == (pytest.approx(-1.0), 1, 1)
    assert found["x", "z"]["spearman"].mean == pytest.approx(0.5)
    assert xy["top"].mean == 0.0


def test_stability_is_the_mean_over_pairs_of_seeds():
    runs = [
        {"s": explanation([1.0, 2.0, 3.0]), "t": explanation([0.0, 0.0])},
        {"s": explanation([1.0, 3.0, 2.0]), "t": explanation([1.0, 2.0])},
        {"s": explanation([3.0, 2.0, 1.0])},
    ]
    # pairs 12: 0.5, 13: -1, 23: -0.5; t is constant in one of its two seeds
    assert stability(runs) == {"s": pytest.approx(-1 / 3), "t": None}
    assert stability(runs[:1]) == {"s": None, "t": None}
