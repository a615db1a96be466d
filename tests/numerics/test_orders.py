"""Beam search against every order there is; grids of counts by hand."""

from itertools import permutations

import numpy as np
import pytest

from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.orders import beam_search, count_grid


def random_gain(n, seed):
    """A table with an unrelated gain for every set of positions: nothing a search could be lucky with."""
    table = np.random.default_rng(seed).normal(size=2**n)
    return lambda chosen: table[chosen @ 2 ** np.arange(n)]


def total(gain, n, order):
    """The sum of gains of an order's prefixes, one set at a time."""
    chosen, out = np.zeros((1, n), bool), 0.0
    for position in order:
        chosen[0, position] = True
        out += gain(chosen)[0]
    return out


@pytest.mark.parametrize(("n", "steps", "seed"), [(1, 1, 0), (4, 4, 1), (6, 3, 2), (7, 7, 3), (7, 5, 4)])
def test_a_wide_beam_finds_the_best_of_all_orders(n, steps, seed):
    gain = random_gain(n, seed)
    best = max(total(gain, n, order) for order in permutations(range(n), steps))
    found = beam_search(gain, n, steps, width=35)
    assert found.total == pytest.approx(best)
    assert total(gain, n, found.order) == pytest.approx(found.total)
    assert len(set(found.order.tolist())) == steps


def test_a_narrow_beam_is_greedy_and_misses_what_needs_two():
    # 0 alone is worth most, but 1 and 2 together far more
    value = {(0,): 2.0, (1,): 1.0, (2,): 0.0, (0, 1): 2.0, (0, 2): 2.0, (1, 2): 9.0}

    def gain(chosen):
        return np.array([value[tuple(np.flatnonzero(row).tolist())] for row in chosen])

    assert beam_search(gain, 3, 2, width=1).order.tolist() == [0, 1]
    assert beam_search(gain, 3, 2, width=1).total == 4.0
    assert beam_search(gain, 3, 2, width=2).order.tolist() == [1, 2]
    assert beam_search(gain, 3, 2, width=2).total == 10.0


@pytest.mark.parametrize("seed", range(20))
def test_found_totals_are_those_of_an_order_and_bounded_by_the_best(seed):
    gain = random_gain(6, seed)
    best = max(total(gain, 6, order) for order in permutations(range(6), 4))
    for width in (1, 2, 5):
        found = beam_search(gain, 6, 4, width)
        assert total(gain, 6, found.order) == pytest.approx(found.total)
        assert found.total <= best + 1e-12


def test_no_set_is_asked_for_twice_and_candidates_bound_the_cost():
    asked = []
    weights = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])

    def gain(chosen):
        asked.append([tuple(np.flatnonzero(row).tolist()) for row in chosen])
        return chosen @ weights

    best = beam_search(gain, 6, 3, width=3, candidates=3)
    assert best.order.tolist() == [0, 2, 4]
    assert [len(sets) for sets in asked] == [6, 3, 1]
    assert all(len(set(sets)) == len(sets) for sets in asked)
    assert set().union(*map(set, asked[1])) == {0, 2, 4}
    # fewer candidates than steps would end the order early
    assert len(beam_search(gain, 6, 3, width=1, candidates=1).order) == 3


def test_ties_go_to_the_earlier_position():
    assert beam_search(lambda chosen: chosen.sum(axis=1) * 1.0, 4, 4).order.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"steps": 4}, {"steps": 1, "width": 0}, {"steps": 1, "candidates": 0}])
def test_what_cannot_be_searched_is_refused(wrong):
    with pytest.raises(InvalidInput, match="beam search of 3 positions"):
        beam_search(lambda chosen: chosen.sum(axis=1) * 1.0, 3, **wrong)


@pytest.mark.parametrize("largest", [0, 1, 63, 64, 65, 66, 100, 255, 509, 5000])
def test_grids_have_the_counts_they_promise(largest):
    grid = count_grid(largest, 64)
    assert len(grid) == min(largest, 64)
    if largest:
        assert (grid[0], grid[-1]) == (1, largest)
        assert (np.diff(grid) >= 1).all()
    if largest > 64:
        # no step is longer than the scale's own, but for rounding
        assert (grid[1:] <= np.maximum(grid[:-1] + 1, np.ceil(grid[:-1] * largest ** (1 / 63) + 1))).all()
    with pytest.raises(InvalidInput):
        count_grid(10, 1)
