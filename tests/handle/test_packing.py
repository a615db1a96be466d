"""Batches against their rule, one sequence after another; a token budget that is halved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench.errors import InvalidInput
from slalom_bench.handle.packing import ENOUGH, TokenBudget, pack


def packed(lengths: list[int], token_budget: int, pads: bool) -> list[slice]:
    """The rule, one sequence after another."""
    found, start, real = [], 0, 0
    for i, length in enumerate(lengths):
        size = lengths[start] * (i - start + 1) if pads else real + length
        full = size > token_budget
        padded = size > real + length and real >= ENOUGH * token_budget
        if i > start and (full or padded):
            found.append(slice(start, i))
            start, real = i, 0
        real += length
    return [*found, slice(start, len(lengths))] if lengths else []


@settings(max_examples=300)
@given(
    lengths=st.lists(st.integers(1, 60) | st.integers(50, 60), max_size=200).map(lambda xs: sorted(xs, reverse=True)),
    token_budget=st.integers(1, 3000),
    pads=st.booleans(),
)
def test_batches_are_those_of_the_rule(lengths, token_budget, pads):
    assert list(pack(lengths, token_budget, pads=pads)) == packed(lengths, token_budget, pads)
    assert list(pack(np.array(lengths, np.int64), token_budget, pads=pads)) == packed(lengths, token_budget, pads)


def test_a_token_budget_halves_what_did_not_fit_and_is_never_nothing():
    budget = TokenBudget(1000)
    budget.halve([10, 10, 8])
    assert budget.tokens == 15
    budget.halve([100] * 9)
    assert budget.tokens == 7
    for _ in range(5):
        budget.halve([1, 1])
    assert budget.tokens == 1
    with pytest.raises(InvalidInput, match="must be positive, not 0"):
        budget.tokens = 0
