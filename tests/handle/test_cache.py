"""What is remembered within a scope and across scopes, and for how long."""

from __future__ import annotations

import numpy as np

from slalom_bench.core.sequences import Ragged
from slalom_bench.handle.cache import QueryCache


def test_a_scope_knows_what_it_was_told_until_it_is_full():
    cache = QueryCache(limit=5)
    keys = Ragged.of([[i] for i in range(6)]).keys()
    answers = np.random.default_rng(0).normal(size=(6, 2))
    assert cache.known(keys) == {}
    cache.remember(keys[:2], answers[:2])
    cache.remember(keys[3:5], answers[3:5])
    assert cache.known(keys) == {row: answers[row].tolist() for row in (0, 1, 3, 4)}
    cache.remember(keys[:2], answers[:2])
    assert list(cache.known(keys)) == [0, 1]
    cache.new_scope()
    assert cache.known(keys) == {}


def test_whole_sets_are_bounded_the_least_recently_asked_for_go_first():
    cache = QueryCache(limit=30)
    rows = [Ragged.of([[start, i] for i in range(10)]).keys() for start in range(5)]
    for keys in rows:
        cache.put_set(cache.name(keys), np.zeros((10, 2)), 1.0)
        assert cache.get_set(cache.name(rows[0])) is not None
    assert [cache.get_set(cache.name(keys)) is not None for keys in rows] == [True, False, False, True, True]
