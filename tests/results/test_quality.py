"""The quality of metrics and the texts needed, by hand on tiny tables and against scipy."""

import numpy as np
import pytest
from scipy import stats

from slalom_bench.results.quality import (
    mask_stability,
    metric_agreement,
    metric_quality,
    pair_level,
    reliability,
    texts_needed,
)
from slalom_bench.results.ranking import rank


def rows(columns):
    return {name: {f"s{i}": float(x) for i, x in enumerate(values)} for name, values in columns.items()}


def shifted(n, offsets, noise, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.normal(0, 3, n)
    return rows({name: base + offset + rng.normal(0, noise, n) for name, offset in offsets.items()})


def test_pairs_told_apart_by_hand():
    # a and b are alike, c and d far from them and from each other: 5 of 6 pairs
    ranking = rank(shifted(20, {"a": 0, "b": 0, "c": 50, "d": 90}, 0.1), "lower")
    assert metric_quality(ranking).told_apart == pytest.approx(5 / 6)
    assert metric_quality(ranking).methods == 4
    assert metric_quality(ranking).texts == 20
    # with 60 the smallest that matters, of the pairs only those of d with a and b are: 2 of 6
    ranking = rank(shifted(20, {"a": 0, "b": 0, "c": 50, "d": 90}, 0.1), "lower", relevant=60)
    assert metric_quality(ranking).told_apart == pytest.approx(2 / 6)


def test_reliability_by_hand():
    # four texts, one method a third of the others' noise: every split in two halves, by hand
    x = np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 1.0], [1.0, 1.0, 3.0], [0.0, 1.0, 5.0]])
    halves = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    r = np.mean([np.corrcoef(x[list(a)].mean(0), x[list(b)].mean(0))[0, 1] for a, b in halves])
    assert reliability(x, splits=4000) == pytest.approx(2 * r / (1 + r), abs=0.01)
    assert reliability(x) == reliability(x)
    assert reliability(np.tile([1.0, 2.0, 3.0], (6, 1))) == pytest.approx(1.0)
    assert reliability(x[:3]) is None
    assert reliability(x[:, :2]) is None
    assert reliability(np.ones((6, 4))) is None
    # halves that contradict each other have no reliability, not a negative one
    assert reliability(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]] * 2)) == pytest.approx(0.0, abs=0.35)


def test_noise_is_not_reliable():
    rng = np.random.default_rng(0)
    assert np.mean([reliability(rng.normal(size=(20, 12)), splits=50) for _ in range(50)]) < 0.35
    assert reliability(rng.normal(size=(20, 12)) + np.arange(12)) > 0.98


@pytest.mark.parametrize(("wins", "level", "power"), [(0.7, 0.05, 0.8), (0.6, 0.05, 0.9), (0.8, 0.001, 0.8)])
def test_texts_needed_have_the_power_by_exact_binomials(wins, level, power):
    def found(n):
        critical = stats.binom(n, 0.5).isf(level / 2)  # more than so many wins are too many
        return stats.binom(n, wins).sf(critical)

    n = texts_needed(wins, level, power)
    # by the normal approximation, and the power of an exact test goes up and down by a text
    assert max(found(k) for k in range(n, n + 6)) >= power - 0.03
    assert found(int(0.9 * n)) < power + 0.03


def test_texts_needed_at_the_edges():
    assert texts_needed(0.5, 0.05) is None
    assert texts_needed(0.5 + 1e-6, 0.05) is None
    assert texts_needed(1.0, 0.05) == 6  # fewer separate nothing on a board
    assert texts_needed(1.0, 1e-9) >= 31  # 2 / 2^31 is below it, 2 / 2^30 is not
    assert texts_needed(0.25, 0.05) == texts_needed(0.75, 0.05) == 31


def test_texts_needed_keep_their_word_in_simulation():
    rng = np.random.default_rng(1)
    n = texts_needed(0.75, 0.05)
    p = [stats.binomtest(int((rng.random(n) < 0.75).sum()), n).pvalue for _ in range(1000)]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.8, abs=0.08)


def test_the_top_two_are_compared_at_the_level_of_the_board():
    table = shifted(20, {"first": 0.0, "second": 0.3, "third": 9.0, "fourth": 12.0}, 0.5)
    ranking = rank(table, "lower")
    quality = metric_quality(ranking)
    assert quality.top == ("first", "second")
    level = pair_level(ranking.pairs)
    assert level == pytest.approx(2 * stats.norm.sf(ranking.pairs.critical))
    assert level < 0.05
    d = np.array(list(table["second"].values())) - np.array(list(table["first"].values()))
    assert quality.texts_needed == texts_needed((d > 0).mean(), level)
    assert quality.top_matters
    assert not metric_quality(rank(table, "lower", relevant=2.0)).top_matters
    # of four texts there is no critical value: Bonferroni's level over three pairs
    few = rank(shifted(4, {"a": 0, "b": 0.1, "c": 2}, 0.5), "lower")
    assert pair_level(few.pairs) == pytest.approx(0.05 / 3)
    first, second = (list(few.names).index(name) for name in metric_quality(few).top)
    assert metric_quality(few).texts_needed == texts_needed(few.pairs.wins[first, second], 0.05 / 3)


def test_a_metric_is_not_judged_by_telling_methods_from_baselines():
    # three methods alike, one baseline far behind: the metric separates no two methods
    table = shifted(20, {"a": 0.0, "b": 0.0, "c": 0.0, "random": 50.0}, 1.0, seed=3)
    with_it, without = rank(table, "lower"), rank(table, "lower", baselines=["random", "not here"])
    assert with_it.separates
    assert not without.separates
    assert [row.name for row in without.rows] == [row.name for row in with_it.rows], "it is ranked all the same"
    assert (metric_quality(with_it).told_apart, metric_quality(without).told_apart) == (0.5, 0.0)
    assert (metric_quality(without).methods, metric_quality(without).tied) == (3, 3)
    assert metric_quality(with_it).reliability > 0.99
    assert metric_quality(without).reliability < 0.9
    turned = rank(table, "higher", baselines=["random"])
    agree = metric_agreement({"one": without.means(), "two": turned.means()})
    assert agree == {("one", "two"): pytest.approx(-1.0)}
    # where one method is left beside the baselines, all rows count
    assert rank({name: table[name] for name in ("a", "random")}, "lower", baselines=["random"]).separates


def test_one_method_has_no_pairs():
    quality = metric_quality(rank(shifted(8, {"a": 0}, 1), "lower"))
    assert (quality.told_apart, quality.reliability, quality.top, quality.texts_needed) == (None, None, None, None)
    assert metric_quality(rank({}, "lower")).methods == 0


def test_metrics_agree_from_best_to_worst():
    error = rank(rows({"a": [1, 1], "b": [2, 2], "c": [3, 3], "d": [4, 4]}), "lower")
    gain = rank(rows({"a": [9, 9], "b": [7, 7], "c": [8, 8], "e": [0, 0]}), "higher")
    other = rank(rows({"d": [1, 2], "e": [2, 3]}), "lower")
    flat = rank(rows({"a": [1, 1], "b": [1, 1], "c": [1, 1]}), "lower")
    # on a, b, c: 1, 2, 3 against 1, 3, 2: 1 - 6 * 2 / 24
    ranked = {"error": error, "gain": gain, "other": other, "flat": flat}
    found = metric_agreement({name: one.means() for name, one in ranked.items()})
    assert found == {("error", "gain"): pytest.approx(0.5)}


def test_masks_are_stable_where_both_halves_order_the_methods_alike():
    first = rows({"a": [1.0, 3.0], "b": [2.0, 4.0], "c": [5.0, 9.0], "d": [8.0, 8.0]})
    assert mask_stability([first, first]) == 1.0
    # means 2, 3, 7, 8 against 3, 2, 7, 8: one neighbouring swap of four, 1 - 6 * 2 / (4 * 15)
    swapped = {**first, "a": first["b"], "b": first["a"]}
    assert mask_stability([first, swapped]) == pytest.approx(0.8)
    assert mask_stability([]) is None
    assert mask_stability([{"a": first["a"]}] * 2) is None, "fewer than three methods"
    gaps = {**first, "e": dict.fromkeys(first["a"])}
    assert mask_stability([gaps, gaps]) == 1.0, "a method without halves is left out"
