"""Rankings: marks, rank sets, effects, the log scale, and what is not ranked."""

import numpy as np
import pytest

from slalom_bench.errors import InvalidInput
from slalom_bench.results.ranking import FLOOR, ROUNDED, log_floor, rank
from slalom_bench.results.statistics import summarise


def table(rng, offsets, n=40, noise=0.1):
    """Rows that share the samples' difficulty, so that pairing matters."""
    base = rng.normal(0, 5, size=n)
    return {
        name: {f"s{i}": float(base[i] + offset + rng.normal(0, noise)) for i in range(n)}
        for name, offset in offsets.items()
    }


def test_ranking_sees_paired_differences_and_ties():
    rows = table(np.random.default_rng(6), {"worst": 2.0, "twin-a": 0.0, "middle": 1.0})
    # differs from its twin on every sample, by nothing on average
    rows["twin-b"] = {key: x + 0.1 * (-1) ** i for i, (key, x) in enumerate(rows["twin-a"].items())}
    ranking = rank(rows, "lower")
    ranked = ranking.rows
    assert {r.name for r in ranked[:2]} == {"twin-a", "twin-b"}
    assert [r.name for r in ranked[2:]] == ["middle", "worst"]
    assert [r.verdict for r in ranked] == ["best", "not separable", "worse", "worse"]
    assert [r.tied_with_best for r in ranked] == [True, True, False, False]
    assert [(r.rank_low, r.rank_high) for r in ranked] == [(1, 2), (1, 2), (3, 3), (4, 4)]
    assert [r.rank for r in ranked] == [1, 1, 3, 4]
    assert ranked[0].to_best is None
    assert ranked[3].to_best.value == pytest.approx(2.0, abs=0.1)
    assert ranked[3].to_best.low < 2.0 < ranked[3].to_best.high
    assert ranked[3].p_adjusted < 0.001
    # unpaired, the samples' difficulty (sd 5) would hide a difference of 1
    assert summarise(rows[ranked[0].name].values()).high > summarise(rows["middle"].values()).low
    assert ranking.separates
    upwards = rank(rows, "higher").rows
    assert [r.name for r in upwards][:2] == ["worst", "middle"]
    assert upwards[1].to_best.value == pytest.approx(-1.0, abs=0.1)
    assert upwards[1].to_best.low < upwards[1].to_best.value < upwards[1].to_best.high < 0


def test_what_is_certainly_smaller_than_matters_is_marked_with_the_best():
    rows = table(np.random.default_rng(0), {"a": 0.0, "b": 0.3, "c": 2.0})
    assert [r.verdict for r in rank(rows, "lower").rows] == ["best", "worse", "worse"]
    some = rank(rows, "lower", relevant=0.5)
    assert [r.verdict for r in some.rows] == ["best", "no practical difference", "worse"]
    assert some.rows[1].rank_low == 2  # it is separable, and the rank set says so
    assert some.separates
    nothing = rank(rows, "lower", relevant=3.0)
    assert not nothing.separates
    # 0.3 below a relevant difference of 0.31 is not certain: the interval reaches beyond
    assert rank(rows, "lower", relevant=0.31).rows[1].verdict == "worse"


def test_equal_methods_are_not_told_apart():
    wrong = []
    for seed in range(100):
        rows = table(np.random.default_rng(seed), dict.fromkeys("abcdef", 0.0), n=20)
        wrong.append(rank(rows, "lower").separates)
    # 5 % nominal; of 100 the standard error is 2.2 %
    assert np.mean(wrong) <= 0.12


def test_a_mean_that_one_text_made_is_first_by_place_and_not_marked():
    """`lucky` is worse on 19 of 20 texts and far better on one."""
    rng = np.random.default_rng(3)
    steady = {f"s{i}": float(x) for i, x in enumerate(rng.normal(0, 1, 20))}
    lucky = {key: x + (0.5 if i else -50.0) for i, (key, x) in enumerate(steady.items())}
    ranked = rank({"steady": steady, "lucky": lucky}, "lower").rows
    assert [(r.name, r.rank, r.verdict) for r in ranked] == [("lucky", 1, "worse"), ("steady", 2, "best")]
    assert ranked[0].to_best.value == pytest.approx(0.5)
    assert (ranked[0].to_best.wins, ranked[0].to_best.losses) == (0.05, 0.95)
    assert (ranked[0].rank_low, ranked[1].rank_high) == (2, 1)


def test_identical_rows_share_a_place():
    row = {f"s{i}": 0.1 * i for i in range(10)}
    ranked = rank({"b": row, "a": dict(row), "c": {key: x + 1 for key, x in row.items()}}, "lower").rows
    assert [(r.name, r.rank) for r in ranked] == [("a", 1), ("b", 1), ("c", 3)]
    assert [(r.rank_low, r.rank_high) for r in ranked] == [(1, 2), (1, 2), (3, 3)]
    assert ranked[1].p_adjusted == 1.0
    assert (ranked[2].to_best.low, ranked[2].to_best.high) == (pytest.approx(1), pytest.approx(1))


def test_few_samples_cannot_separate():
    ranking = rank({"a": {"s": 0.0, "t": 0.0}, "b": {"s": 9.0, "t": 9.5}}, "lower")
    assert [r.tied_with_best for r in ranking.rows] == [True, True]
    assert not ranking.separates
    single = rank({"a": {"s": 0.0}, "b": {"s": 9.0}}, "lower").rows
    assert [(r.rank, r.tied_with_best) for r in single] == [(1, True), (2, True)]
    assert (single[1].to_best.value, single[1].to_best.low, single[1].to_best.high) == (9.0, None, None)
    alone = rank({"a": {"s": 0.0, "t": 1.0}}, "lower")
    assert [r.rank for r in alone.rows] == [1]
    assert not alone.separates


def test_rows_with_too_few_scores_come_last_without_a_rank():
    rows = {
        "never": {f"s{i}": None for i in range(10)},
        "rarely": {f"s{i}": -9.0 if i < 2 else None for i in range(10)},
        "mostly": {f"s{i}": 1.0 + i if i < 9 else None for i in range(10)},
        "always": {f"s{i}": 0.0 + i for i in range(10)},
    }
    ranked = rank(rows, "lower").rows
    assert [(r.name, r.rank) for r in ranked] == [("always", 1), ("mostly", 2), ("never", None), ("rarely", None)]
    assert ranked[3].verdict == "not ranked"
    # own means would be 4.5 and 5: the missing sample is the hardest one; on common samples they are 4 and 5
    assert ranked[1].to_best.value == pytest.approx(1.0)
    assert rank({}, "lower").rows == []
    assert [r.rank for r in rank({"a": {"s": 1.0}, "b": {"t": 1.0}}, "lower").rows] == [None, None]
    assert [r.rank for r in rank({"a": {"s": None}}, "lower", scale="log").rows] == [None]
    with pytest.raises(InvalidInput, match="sideways"):
        rank(rows, "sideways")


def test_missing_hard_samples_do_not_win_a_ranking():
    # "lazy" fails on the two hardest samples: its own mean is lower, on common samples it is worse everywhere
    honest = {f"s{i}": 10.0 if i > 7 else 1.0 for i in range(10)}
    lazy = {f"s{i}": None if i > 7 else 1.5 for i in range(10)}
    assert [r.name for r in rank({"lazy": lazy, "honest": honest}, "lower").rows] == ["honest", "lazy"]


def test_the_log_scale_compares_geometric_means_and_gives_ratios():
    # geometric means 2 and 3; one bad text gives the better one the larger mean
    a = {"s0": 1.0, "s1": 1.0, "s2": 8.0, "s3": 2.0}
    b = {"s0": 3.0, "s1": 3.0, "s2": 3.0, "s3": 3.0}
    ranked = rank({"b": b, "a": a}, "lower", scale="log").rows
    assert [r.name for r in ranked] == ["a", "b"]
    assert [r.geometric.value for r in ranked] == pytest.approx([2.0, 3.0])
    assert (ranked[1].geometric.low, ranked[1].geometric.high) == (pytest.approx(3), pytest.approx(3))
    assert ranked[1].to_best.ratio
    # of the ratios 3, 3, 3/8 and 3/2 the median on the log scale is sqrt(3 * 3/2)
    assert ranked[1].to_best.value == pytest.approx(np.sqrt(4.5))
    assert (ranked[1].to_best.wins, ranked[1].to_best.losses) == (0.25, 0.75)
    assert [r.name for r in rank({"b": b, "a": a}, "lower").rows] == ["a", "b"]  # means 3 and 3: by name
    # logarithms 0, 0, log 8, log 2: Student's interval by hand
    logs = np.log([1, 1, 8, 2])
    half = 3.182446 * logs.std(ddof=1) / 2
    assert ranked[0].geometric.high == pytest.approx(2 * np.exp(half), rel=1e-5)


def test_ratios_and_shares_of_what_matters():
    rng = np.random.default_rng(1)
    base = rng.lognormal(0, 2, size=40)
    rows = {
        name: {f"s{i}": float(x * factor * np.exp(rng.normal(0, 0.01))) for i, x in enumerate(base)}
        for name, factor in {"one": 1.0, "three percent": 1.03, "double": 2.0}.items()
    }
    ranked = rank(rows, "lower", scale="log", relevant=0.05).rows
    assert [r.verdict for r in ranked] == ["best", "no practical difference", "worse"]
    assert ranked[2].to_best.value == pytest.approx(2.0, rel=0.01)
    assert ranked[2].to_best.low < 2.0 < ranked[2].to_best.high
    assert ranked[1].to_best.low > 1.0


def test_zeros_and_rounding_are_tied_on_the_log_scale():
    rng = np.random.default_rng(2)
    rows = {
        "zero": {f"s{i}": 0.0 for i in range(20)},
        "rounding": {f"s{i}": float(x) for i, x in enumerate(rng.uniform(1e-30, 1e-28, 20))},
        "off": {f"s{i}": float(x) for i, x in enumerate(rng.uniform(0.5, 2, 20))},
        "far off": {f"s{i}": float(x) for i, x in enumerate(rng.uniform(5, 20, 20))},
    }
    ranked = rank(rows, "lower", scale="log").rows
    assert [r.verdict for r in ranked] == ["best", "not separable", "worse", "worse"]
    assert ranked[0].geometric.value == ranked[1].geometric.value == pytest.approx(FLOOR, rel=1)
    assert log_floor(np.zeros((3, 2)), np.zeros(6)) < 1e-300
    assert log_floor(np.full((3, 2), 1e-16)) == ROUNDED
    assert log_floor(np.zeros((3, 2)), np.array([0.0, 0.4])) == pytest.approx(0.4 * FLOOR)
    # errors that share no sample, or are 0 on most, keep their size: they are not taken for 1
    apart = rank({"a": {"s": 0.01, "t": 0.02}, "b": {"u": 0.2, "v": 0.3}}, "lower", scale="log").rows
    assert {row.name: round(row.geometric.value, 3) for row in apart} == {"a": 0.014, "b": 0.245}
    exact = rank({"a": {"s": 0.0, "t": 0.0}}, "lower", scale="log").rows
    assert exact[0].geometric.value == 0.0
    assert not rank({"a": {"s": 0.0, "t": 0.0}, "b": {"s": 0.0, "t": 0.0}}, "lower", scale="log").separates
    with pytest.raises(InvalidInput, match="no logarithm"):
        rank({"a": {"s": -1.0}}, "lower", scale="log")


def test_a_reference_is_listed_and_changes_no_place():
    rows = table(np.random.default_rng(3), {"a": 0.0, "b": 1.0, "c": 1.0})
    ceiling = {key: None if key == "s0" else x - 5 for key, x in rows["a"].items()}
    without, with_it = rank(rows, "lower"), rank({"ceiling": ceiling, **rows}, "lower", references={"ceiling"})
    *methods, last = with_it.rows
    assert methods == list(without.rows)  # not even the common samples shrink
    assert (last.name, last.rank, last.verdict, last.tied_with_best) == ("ceiling", None, "not ranked", False)
    np.testing.assert_array_equal(with_it.scores, without.scores)
    assert rank({"ceiling": ceiling, **rows}, "lower").rows[0].name == "ceiling"


def test_among_rows_that_are_exact_rounding_orders_nothing():
    """On a task's own law most methods are exact: 2e-16 is not better than 5e-16, and both are better than 0.1."""
    rng = np.random.default_rng(0)
    sizes = {"a": 2e-16, "b": 5e-16, "c": 0.0, "d": 0.1}
    table = {name: {f"s{i}": size * float(rng.uniform(0.9, 1.1)) for i in range(20)} for name, size in sizes.items()}
    rows = {row.name: row for row in rank(table, "lower", scale="log").rows}
    assert {name for name, row in rows.items() if row.tied_with_best} == {"a", "b", "c"}
    assert rows["a"].rank == rows["b"].rank == rows["c"].rank == 1
