"""Keep-masks to sequences, by hand and by property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench import registry
from slalom_bench.core.removal import HIDDEN
from slalom_bench.core.tokens import WordTokens
from slalom_bench.errors import InvalidInput, UnknownName, Unsupported
from slalom_bench.numerics.masks import balanced_subsets, delete_counts, small_deletions

IDS = np.array([7, 8, 7, 9])
KEEP = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)


def apply_masks(ids, keep, rule="delete", mask_id=None):
    tokens = WordTokens(["a"])
    tokens.mask_id = mask_id
    return registry.removals.build(rule).apply(ids, keep, tokens)


def test_the_three_rules_by_hand():
    assert [s.tolist() for s in apply_masks(IDS, KEEP, "delete")] == [[7, 8, 7, 9], [8, 7], []]
    assert [s.tolist() for s in apply_masks(IDS, KEEP, "mask", 3)] == [[7, 8, 7, 9], [3, 8, 7, 3], [3, 3, 3, 3]]
    hidden = [[7, 8, 7, 9], [HIDDEN, 8, 7, HIDDEN], [HIDDEN] * 4]
    assert [s.tolist() for s in apply_masks(IDS, KEEP, "pad")] == hidden
    assert list(apply_masks(IDS, KEEP[:0])) == []


def test_bad_calls_are_named():
    with pytest.raises(InvalidInput, match=r"shape \(1, 3\); expected \(m, 4\)"):
        apply_masks(IDS, np.ones((1, 3), bool))
    with pytest.raises(Unsupported, match="no mask token"):
        apply_masks(IDS, KEEP, "mask")
    with pytest.raises(UnknownName, match="known: delete, gap, mask, pad"):
        registry.removals.get("drop")
    with pytest.raises(InvalidInput, match=r"cannot delete 5..5 of 4"):
        delete_counts(4, np.array([5]), np.random.default_rng(0))


@settings(max_examples=50, deadline=None)
@given(keep=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=8))
def test_deletion_equals_plain_indexing(keep):
    masks = np.array(keep)
    ids = np.arange(20, 26)
    assert [s.tolist() for s in apply_masks(ids, masks)] == [ids[row].tolist() for row in masks]


def test_deletions_have_the_asked_sizes_and_are_uniform():
    rng = np.random.default_rng(0)
    keep = delete_counts(10, np.full(20_000, 3), rng)
    assert ((~keep).sum(axis=1) == 3).all()
    np.testing.assert_allclose((~keep).mean(axis=0), 0.3, atol=0.015)
    pairs = (~keep[:, 0] & ~keep[:, 1]).mean()
    assert pairs == pytest.approx(3 / 10 * 2 / 9, abs=0.01)


def test_small_deletions_are_uniform_in_number_and_keep_a_token():
    keep, weights = small_deletions(30, 1000, np.random.default_rng(0))
    sizes = (~keep).sum(axis=1)
    assert keep.shape == (1000, 30)
    assert np.flatnonzero(sizes == 0).tolist() == [0]
    np.testing.assert_allclose(np.bincount(sizes, weights, minlength=6) / 1000, 1 / 6, atol=0.001)
    assert weights.sum() == pytest.approx(1000)
    assert small_deletions(3, 500, np.random.default_rng(0))[0].any(axis=1).all()
    for n, count in ((1, 5), (9, 1)):
        keep, weights = small_deletions(n, count, np.random.default_rng(0))
        assert (keep.tolist(), weights.tolist()) == ([[True] * n], [count])


def test_small_deletions_hold_every_position_equally_often_for_each_size():
    keep, _ = small_deletions(40, 401, np.random.default_rng(3))
    for k in range(1, 6):
        rows = ~keep[(~keep).sum(axis=1) == k]
        assert len(rows) == 80
        assert np.ptp(rows.sum(axis=0)) <= 1 + (40 % k > 0)


@given(n=st.integers(1, 12), count=st.integers(1, 60), seed=st.integers(0, 99), data=st.data())
def test_balanced_subsets_are_distinct_and_hold_every_item_about_equally_often(n, count, seed, data):
    size = data.draw(st.integers(1, n))
    drawn = balanced_subsets(n, count, size, np.random.default_rng(seed))
    assert drawn.shape == (count, size)
    assert all(len(set(subset)) == size for subset in drawn.tolist())
    permutations = -(-count // (n // size))
    assert np.bincount(drawn.ravel(), minlength=n).max() <= permutations


def test_a_balanced_subset_is_a_uniform_draw():
    rng = np.random.default_rng(0)
    drawn = np.sort(np.array([balanced_subsets(5, 3, 2, rng) for _ in range(6000)]), axis=2)[:, 1]
    shares = np.unique(drawn, axis=0, return_counts=True)[1] / 6000
    np.testing.assert_allclose(shares, np.full(10, 0.1), atol=0.02)
