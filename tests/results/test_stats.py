"""Statistics against scipy, against hand-worked cases, and against simulation."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from slalom_bench.errors import InvalidInput
from slalom_bench.results import statistics as stats


def test_summary_of_known_numbers():
    summary = stats.summarise([1.0, None, 2.0, 3.0, 4.0, None])
    assert (summary.n, summary.undefined, summary.mean) == (4, 2, 2.5)
    assert summary.standard_error == pytest.approx(scipy_stats.sem([1, 2, 3, 4]))
    assert summary.low < 2.5 < summary.high


def test_too_few_numbers_have_no_interval():
    assert stats.summarise([]) == stats.Summary(0, 0, None, None, None, None)
    assert stats.summarise([None]) == stats.Summary(0, 1, None, None, None, None)
    assert stats.summarise([3.0]) == stats.Summary(1, 0, 3.0, None, None, None)
    two = stats.summarise([1.0, 3.0])
    assert (two.low, two.high) == (pytest.approx(1.0), pytest.approx(3.0))
    same = stats.summarise([0.1] * 7)
    assert (same.low, same.high) == (pytest.approx(0.1), pytest.approx(0.1))
    assert same.standard_error == pytest.approx(0.0, abs=1e-15)
    with pytest.raises(InvalidInput, match="finite"):
        stats.summarise([1.0, float("nan")])


def test_many_rows_at_once_are_what_each_is_alone():
    rng = np.random.default_rng(6)
    rows = [rng.normal(size=n).tolist() for n in (20, 3, 20, 1, 0, 20)] + [[0.1] * 20, [None, 1.0, None, 4.0, 2.0]]
    rows += [[1e-110 * x for x in rows[0]], [1e100 * x for x in rows[2]], [0.0] * 20]
    for found, row in zip(stats.summaries(rows), rows, strict=True):
        alone = stats.summarise(row)
        assert (found.n, found.undefined) == (alone.n, alone.undefined)
        for name in ("mean", "standard_error", "low", "high"):
            one, other = getattr(found, name), getattr(alone, name)
            assert one == (None if other is None else pytest.approx(other, rel=1e-12, abs=1e-300)), (row, name)
    tiny, plain = stats.summarise(rows[8]), stats.summarise(rows[0])
    assert (1e110 * tiny.low, 1e110 * tiny.high) == (pytest.approx(plain.low), pytest.approx(plain.high))


@pytest.mark.parametrize("draw", ["normal", "exponential", "lognormal"])
def test_interval_agrees_with_scipy_bca(draw, monkeypatch):
    monkeypatch.setattr(stats, "RESAMPLES", 20000)
    x = getattr(np.random.default_rng(1), draw)(size=40)
    low, high = stats.bca_interval(x, 0.95)
    theirs = scipy_stats.bootstrap((x,), np.mean, method="BCa", n_resamples=20000, rng=0).confidence_interval
    width = theirs.high - theirs.low
    assert low == pytest.approx(theirs.low, abs=0.05 * width)
    assert high == pytest.approx(theirs.high, abs=0.05 * width)


def test_small_samples_have_intervals_as_wide_as_students():
    x = np.random.default_rng(3).normal(size=10)
    low, high = stats.bootstrap_interval(x)
    student = scipy_stats.t(9).ppf(0.975) * scipy_stats.sem(x)
    assert (high - low) / 2 == pytest.approx(student, rel=0.1)
    assert stats.widened(0.95, 10) > stats.widened(0.95, 100) > 0.95
    assert stats.widened(0.95, 10**6) == pytest.approx(0.95, abs=1e-5)


@pytest.mark.parametrize(("draw", "n", "truth"), [("normal", 10, 0.0), ("normal", 30, 0.0), ("exponential", 50, 1.0)])
def test_interval_covers_the_truth_as_often_as_it_says(draw, n, truth):
    rng = np.random.default_rng(2)
    intervals = [stats.bootstrap_interval(getattr(rng, draw)(size=n)) for _ in range(1000)]
    covered = np.mean([low <= truth <= high for low, high in intervals])
    # 95 % nominal; over 12,000 replicates 94.1, 94.6 and 94.2 %; of 1,000 the standard error is 0.7 %
    assert 0.92 <= covered <= 0.98


def test_many_samples_come_in_blocks_that_do_not_repeat(monkeypatch):
    x = np.random.default_rng(9).normal(size=300)
    whole = stats.bootstrap_interval(x)
    monkeypatch.setattr(stats, "BLOCK", 30_000)
    assert stats.blocks(300, 250) == [(0, 100), (1, 100), (2, 50)]
    means = stats.resampled_means(x, 0)
    assert len(means) == len(np.unique(means)) == stats.RESAMPLES
    assert means.std() == pytest.approx(x.std() / np.sqrt(300), rel=0.05)
    assert stats.bootstrap_interval(x) == pytest.approx(whole, abs=0.02)


def test_a_wider_confidence_is_wider():
    x = np.random.default_rng(3).normal(size=25)
    narrow, wide = stats.bootstrap_interval(x, 0.5), stats.bootstrap_interval(x, 0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_students_interval_agrees_with_scipy():
    x = np.random.default_rng(4).normal(size=15)
    theirs = scipy_stats.t.interval(0.9, 14, loc=x.mean(), scale=scipy_stats.sem(x))
    assert stats.student_interval(x, 0.9) == pytest.approx(theirs)


def test_seeds_are_averaged_within_samples_and_their_spread_kept_apart():
    average = stats.average_seeds([{"a": 1.0, "b": 3.0, "c": None}, {"a": 2.0, "b": 6.0, "c": 5.0}])
    assert average.values == {"a": 1.5, "b": 4.5, "c": 5.0}
    # seed means on the common samples a, b: 2 and 4; standard deviation sqrt(2)
    assert average.spread == pytest.approx(np.sqrt(2))
    assert stats.average_seeds([{"a": 1.0}]) == stats.SeedAverage({"a": 1.0}, 1, None)
    assert stats.average_seeds([{"a": None}, {"a": None}]) == stats.SeedAverage({"a": None}, 2, None)


def test_same_scores_same_numbers():
    x = np.random.default_rng(7).normal(size=30).tolist()
    assert stats.summarise(x) == stats.summarise(x)
    assert stats.summarise(x).low != stats.summarise(x, seed=1).low
