"""Keep-masks to sequences, by hand and by property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.perturb import HIDDEN, apply_masks, delete_counts, small_deletions

IDS = np.array([7, 8, 7, 9])
KEEP = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)


def test_the_three_rules_by_hand():
    assert [s.tolist() for s in apply_masks(IDS, KEEP, "delete")] == [[7, 8, 7, 9], [8, 7], []]
    assert [s.tolist() for s in apply_masks(IDS, KEEP, "mask", 3)] == [[7, 8, 7, 9], [3, 8, 7, 3], [3, 3, 3, 3]]
    hidden = [[7, 8, 7, 9], [HIDDEN, 8, 7, HIDDEN], [HIDDEN] * 4]
    assert [s.tolist() for s in apply_masks(IDS, KEEP, "pad")] == hidden
    assert apply_masks(IDS, KEEP[:0]) == []


def test_bad_calls_are_named():
    with pytest.raises(InvalidInput, match=r"shape \(1, 3\); expected \(m, 4\)"):
        apply_masks(IDS, np.ones((1, 3), bool))
    with pytest.raises(Unsupported, match="no mask token"):
        apply_masks(IDS, KEEP, "mask")
    with pytest.raises(InvalidInput, match="one of delete, mask, pad"):
        apply_masks(IDS, KEEP, "drop")
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
    sizes = (~small_deletions(30, 12_000, np.random.default_rng(0))).sum(axis=1)
    np.testing.assert_allclose(np.bincount(sizes, minlength=6) / 12_000, 1 / 6, atol=0.02)
    assert small_deletions(3, 500, np.random.default_rng(0)).any(axis=1).all()
    assert small_deletions(1, 5, np.random.default_rng(0)).all()
