"""All pairs at once: against an enumeration that shares no code, against simulation, and at the edges."""

import tracemalloc
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench.errors import InvalidInput
from slalom_bench.results import separation
from slalom_bench.results.separation import FEWEST, all_pairs, lots, too_few


def statistic(d, plain=False):
    """Wins minus losses over the root of their number, where unless plain texts count by their lots."""
    counts = [1.0] * len(d) if plain else lots(len(d), 0).tolist()
    total = sum(count * ((x < 0) - (x > 0)) for x, count in zip(map(float, d), counts, strict=True))
    return total / max(sum(x != 0 for x in d), 1) ** 0.5


def enumerated(x):
    """Step-down p-values by loops over all sign patterns; the two that flip nothing count as reaching."""
    n, m = x.shape
    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    observed = {(i, j): statistic(x[:, i] - x[:, j]) for i, j in pairs}
    order = sorted(pairs, key=lambda pair: -observed[pair])
    patterns = [np.array(signs) for signs in product((1, -1), repeat=n) if len(set(signs)) > 1]
    flipped = [{(i, j): statistic(s * (x[:, i] - x[:, j])) for i, j in pairs} for s in patterns]
    p, running = {}, 0.0
    for pair in order:
        least = [other for other in pairs if observed[other] <= observed[pair]]
        reached = sum(max(f[other] for other in least) >= observed[pair] - 1e-9 for f in flipped)
        running = max(running, (reached + 2) / 2**n)
        p[pair] = running if observed[pair] > 0 else 1.0
    return p, sorted(max(f.values()) for f in flipped)


@pytest.mark.parametrize(("n", "m", "seed"), [(4, 3, 0), (5, 2, 1), (6, 3, 2), (6, 4, 3), (7, 3, 4)])
def test_few_samples_are_enumerated_exactly(n, m, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, m)) + np.arange(m)
    x[0, 1] = x[0, 0]  # a tie
    found = all_pairs(x)
    p, maxima = enumerated(x)
    for (i, j), value in p.items():
        d = x[:, i] - x[:, j]
        assert found.p[i, j] == pytest.approx(value), (i, j)
        assert found.difference[i, j] == pytest.approx(np.median(d))
        assert found.wins[i, j] == pytest.approx((d < 0).mean())
    allowed = int(0.05 * 2**n) - 2
    assert found.critical == (pytest.approx(maxima[-1 - allowed], abs=1e-5) if allowed >= 0 else np.inf)


def test_a_family_of_chosen_pairs_by_enumeration():
    """Columns 0 and 1, 2 and 3: the maxima are over these two differences alone, in both orders."""
    x = np.random.default_rng(5).normal(size=(8, 4)) + np.array([0.0, 1.5, 0.0, 0.3])
    found = all_pairs(x, among=[(0, 1), (2, 3)])
    patterns = [np.array(signs) for signs in product((1, -1), repeat=8)]
    observed, i = max((abs(statistic(x[:, i] - x[:, i + 1])), i) for i in (0, 2))
    flipped = [[abs(statistic(s * (x[:, i] - x[:, i + 1]))) for i in (0, 2)] for s in patterns]
    p = sum(max(f) >= observed - 1e-9 for f in flipped) / 2**8
    assert min(found.p[i, i + 1], found.p[i + 1, i]) == pytest.approx(p)
    assert found.p[0, 2] == found.p[1, 3] == found.p[3, 0] == 1.0, "not in the family"
    alone = all_pairs(x[:, :2])
    assert all_pairs(x, among=[(0, 1)]).p[0, 1] == alone.p[0, 1]
    assert all_pairs(x, among=[(0, 1)]).critical == pytest.approx(alone.critical)


def test_random_patterns_agree_with_a_sign_test_of_two():
    from scipy import stats

    x = np.random.default_rng(1).normal(size=(60, 2)) + np.array([0.0, 0.25])
    x[:7, 1] = x[:7, 0]  # ties are left out
    found = all_pairs(x)
    wins = int((x[:, 0] < x[:, 1]).sum())
    # of as many wins some are rarer, by lot: between the chance of so many and that of more
    most, least = (stats.binomtest(k, 53).pvalue for k in (wins, wins + 1))
    assert least - 0.01 <= found.p[0, 1] <= most + 0.01
    assert found.p[1, 0] == 1.0
    assert found.wins[0, 1] == pytest.approx(wins / 60)
    assert found.wins[1, 0] == pytest.approx((53 - wins) / 60)


def test_the_interval_holds_the_shifts_that_are_not_rejected():
    x = np.random.default_rng(8).normal(size=(20, 3)) + np.array([0.0, 0.4, 2.0])
    found = all_pairs(x)
    for i, j in product(range(3), repeat=2):
        if i == j:
            continue
        d = x[:, i] - x[:, j]
        grid = np.linspace(-6, 6, 24_001)
        kept = [shift for shift in grid if abs(statistic(d - shift, plain=True)) <= found.critical + 1e-6]
        assert found.upper[i, j] == pytest.approx(max(kept), abs=1e-3)
        assert -found.upper[j, i] == pytest.approx(min(kept), abs=1e-3)


def test_five_samples_are_too_few_and_six_may_do():
    x = np.random.default_rng(0).normal(0, 1e-3, size=(6, 3)) + np.array([0.0, 5.0, 9.0])
    assert too_few(5)
    assert not all_pairs(x[:5]).better.any()
    assert all_pairs(x[:5]).critical == np.inf
    assert np.isinf(all_pairs(x[:5]).upper[0, 1])
    assert not too_few(6)
    assert all_pairs(x).rank_sets() == [(1, 1), (2, 2), (3, 3)]
    assert all_pairs(x[:1]).rank_sets() == [(1, 3)] * 3
    with pytest.raises(InvalidInput, match="level"):
        all_pairs(x, level=0.0)


def test_equal_columns_are_tied_and_a_shifted_copy_is_certain():
    x = np.random.default_rng(2).normal(size=(10, 1))
    found = all_pairs(np.hstack([x, x, x + 1.0]))
    assert found.rank_sets() == [(1, 2), (1, 2), (3, 3)]
    assert found.p[0, 1] == found.p[1, 0] == 1.0
    assert found.wins[0, 1] == found.wins[1, 0] == 0.0
    assert (found.difference[2, 0], found.upper[2, 0]) == (pytest.approx(1.0), pytest.approx(1.0))


def test_equal_methods_keep_all_their_marks_as_often_as_the_level_says():
    rng = np.random.default_rng(3)
    wrong = np.mean([all_pairs(rng.normal(size=(40, 6)), flips=199).better.any() for _ in range(400)])
    # of 400 the standard error is 1.1 %
    assert 0.025 <= wrong <= 0.085


def test_lots_order_nothing_but_equal_counts():
    for n in (2, 7, 50):
        counts = lots(n, 0)
        assert len(set(counts.tolist())) == n
        assert 0 < (counts - 1).sum() < 1
        assert counts.min() >= 1
    # so a win more is always more, whichever texts are won: of 7, those of the largest lots against any one more
    counts = np.sort(lots(7, 0))
    for won in range(7):
        assert 2 * counts[7 - won :].sum() - counts.sum() < 2 * counts[: won + 1].sum() - counts.sum()


@pytest.mark.parametrize("n", [8, 9, 11])
def test_the_level_of_a_pair_is_exact_whatever_the_sizes_of_its_wins_and_losses(n):
    """Every pattern of wins and losses, equally often: the one wins by much and loses by little.

    What tells equal counts apart by those sizes finds a difference in 11 % of them (n = 9), since it speaks for one
    side alone.
    """
    found = []
    for signs in product((1, -1), repeat=n):
        d = np.array([10.0 if s > 0 else -0.1 for s in signs])
        found.append(all_pairs(np.stack([d, np.zeros(n)], axis=1)).better.any())
    assert np.mean(found) <= 0.05
    # not by finding nothing: a pattern more and its opposite would be above the level, or the counts are too coarse
    assert np.mean(found) > 0.05 - 4 / 2**n


def test_a_few_texts_that_differ_by_much_do_not_separate_methods():
    """Each wins half of the texts, the one by little, the other by much: a test of means calls that different."""
    from scipy import stats

    rng = np.random.default_rng(7)
    ours, means = [], []
    for _ in range(300):
        d = np.where(rng.random(20) < 0.5, -rng.exponential(0.1, 20), rng.lognormal(0, 2, 20))
        ours.append(all_pairs(np.stack([d, np.zeros(20)], axis=1), flips=199).better.any())
        means.append(stats.ttest_1samp(d, 0).pvalue < 0.05)
    # at most 5 % nominal; of 300 the standard error is 1.3 %
    assert np.mean(ours) <= 0.09
    assert np.mean(means) > 0.15


def test_rank_sets_hold_the_truth_beside_methods_that_are_far_off():
    rng = np.random.default_rng(4)
    truth = [(1, 3), (1, 3), (1, 3), (4, 5), (4, 5)]
    held, narrow = [], []
    for _ in range(300):
        sets = all_pairs(rng.standard_t(3, size=(30, 5)) + np.array([0, 0, 0, 6, 6]), flips=199).rank_sets()
        held.append(all(low <= a and b <= high for (low, high), (a, b) in zip(sets, truth, strict=True)))
        narrow.append(sets == truth)
    # at least 95 % nominal; of 300 the standard error is 1.3 %. They do not hold by saying nothing: most are exact
    assert np.mean(held) >= 0.915
    assert np.mean(narrow) > 0.8


def test_a_higher_level_separates_more_and_no_less():
    x = np.random.default_rng(5).normal(size=(20, 8)) + np.linspace(0, 1.5, 8)
    found = [all_pairs(x, level=level) for level in (0.01, 0.05, 0.2)]
    for strict, loose in pairwise(found):
        assert not (strict.better & ~loose.better).any()
        assert strict.critical >= loose.critical
        assert all(a <= b and d <= c for (a, c), (b, d) in zip(strict.rank_sets(), loose.rank_sets(), strict=True))
    assert found[0].better.sum() < found[2].better.sum()


def test_step_down_separates_what_a_single_step_does_and_more():
    extra = 0
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(50, 12)) + np.array([0, 0.4, 0.8, *range(8, 80, 8)])
        found = all_pairs(x)
        single = -found.upper.T > 0  # the lower end of column minus row is above zero
        assert not (single.T & ~found.better).any()
        extra += int((found.better & ~single.T).sum())
    assert extra > 0


def test_the_same_scores_and_seed_give_the_same_numbers():
    x = np.random.default_rng(6).normal(size=(20, 4)) + np.array([0, 0, 1, 1])
    assert (all_pairs(x).p == all_pairs(x).p).all()
    assert (all_pairs(x).p != all_pairs(x, seed=1).p).any()
    # order, shift and unit of the methods do not matter
    assert all_pairs(x[:, ::-1]).critical == pytest.approx(all_pairs(x).critical)
    assert (all_pairs(7 * x + 5).p == all_pairs(x).p).all()


def test_a_thousand_methods_take_memory_for_their_pairs_and_no_more():
    m, n = 400, 30
    x = np.random.default_rng(0).normal(size=(n, m))
    x[:, 0] -= 9.0
    tracemalloc.start()
    found = all_pairs(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # signs of every pair once in each order of them, and a few tables of m x m; n x m x m numbers are never held
    assert peak < 0.9 * n * m * m * 8
    assert found.better[0, 1:].all()
    assert not found.better[1:, 0].any()


@pytest.mark.parametrize(("n", "m", "apart"), [(9, 12, 1.5), (25, 12, 0.0), (25, 12, 0.7), (25, 30, 2.0)])
def test_pairs_in_parts_are_pairs_at_once(n, m, apart, monkeypatch):
    """The smallest parts have one pair; in others whole parts are below every pattern's largest and are passed over."""
    x = np.random.default_rng(n + m).normal(size=(n, m)) + apart * np.arange(m) / m
    whole = all_pairs(x, flips=199)
    for block in (1, 3000, 20_000):
        monkeypatch.setattr(separation, "BLOCK", block)
        found = all_pairs(x, flips=199)
        # single precision may round a pattern to the other side
        assert np.abs(found.p - whole.p).max() <= 1.01 * max(1 / 200, 2 / 2**n)
        assert found.critical == pytest.approx(whole.critical, rel=1e-6)
        assert (found.upper == whole.upper).all()


def test_many_texts_take_memory_for_some_of_the_patterns_and_no_more(monkeypatch):
    x = np.random.default_rng(0).normal(size=(500, 4)) + np.array([0.0, 0.0, 0.1, 0.4])
    whole = all_pairs(x)
    monkeypatch.setattr(separation, "HELD", 200_000)
    assert np.abs(all_pairs(x).p - whole.p).max() <= 1.01 / 5000
    x = np.random.default_rng(0).normal(size=(20_000, 3))
    tracemalloc.start()
    all_pairs(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5000 * 20_000 * 4 / 4  # of all patterns at once a quarter, in single precision


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 120), seed=st.integers(0, 10**6))
def test_suffix_maxima_are_those_of_row_after_row(rows, seed):
    rng = np.random.default_rng(seed)
    drawn, after = rng.normal(size=(rows, 5)), rng.normal(size=5)
    wanted = np.maximum(np.maximum.accumulate(drawn[::-1])[::-1], after)
    found = drawn.copy()
    np.testing.assert_array_equal(separation._suffix_maxima(found, after), wanted[0])
    np.testing.assert_array_equal(found, wanted)


def test_a_family_without_pairs_separates_nothing():
    p, critical = separation.against_flips(np.zeros((0, 20), np.int8), 3, (np.zeros(0, int),) * 2, 0.05, 0, 99)
    assert (p == 1).all()
    assert critical == np.inf


def test_no_pairs_to_compare():
    x = np.random.default_rng(0).normal(size=(20, 3))
    found = all_pairs(x, among=[])
    assert (found.p == 1).all()
    assert found.critical == np.inf


def test_with_few_patterns_equal_methods_are_still_told_apart_in_one_run_of_twenty_at_most():
    # what a table of a thousand rows is left with
    wrong = sum(
        bool(all_pairs(np.random.default_rng(seed).normal(size=(20, 8)), seed=seed, flips=FEWEST).better.any())
        for seed in range(300)
    )
    assert wrong <= 27  # 15 are expected at most, with a standard deviation of 3.8
