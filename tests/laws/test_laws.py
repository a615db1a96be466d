"""Mask laws by their properties: sizes, nothing empty, one seed one draw; runs in one piece, sentences whole."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench import registry
from slalom_bench.core import undefined
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.laws.sentences import sentence_numbers

NAMES = registry.laws.names()
SHORTEST = {"few": 11, "many": 10, "spans": 8, "top": 10, "paper": 11, "mixed": 2}
"""The fewest tokens that each law takes."""


def text_of(n: int, sentence: int = 4) -> Sample:
    """n tokens, every `sentence`-th of them a full stop."""
    text, offsets = "", []
    for i in range(n):
        piece = "." if i % sentence == sentence - 1 else f"w{i}"
        text += "" if piece == "." or not text else " "
        offsets.append((len(text), len(text) + len(piece)))
        text += piece
    return Sample("s", np.arange(n), text, offsets)


def draw(name: str, sample: Sample, count: int, seed: int = 0) -> np.ndarray:
    law = registry.laws.build(name)
    effects = np.random.default_rng(99).random(len(sample)) if law.ranked else None
    return law.draw(sample, count, np.random.default_rng(seed), effects)


def removed(keep: np.ndarray) -> list[int]:
    return (~keep).sum(axis=1).tolist()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 300), count=st.integers(1, 130), seed=st.integers(0, 2**32))
def test_every_mask_removes_something_and_keeps_something(name, n, count, seed):
    sample = text_of(n)
    if registry.laws.build(name).undefined(sample):
        return
    keep = draw(name, sample, count, seed)
    assert keep.dtype == np.bool_
    assert keep.shape[1] == n
    assert len(keep) <= count
    assert keep.any(axis=1).all()
    assert not keep.all(axis=1).any()
    np.testing.assert_array_equal(keep, draw(name, sample, count, seed))


@pytest.mark.parametrize("name", ["few", "many", "spans", "sentences", "top"])
@settings(max_examples=30, deadline=None)
@given(n=st.integers(8, 60), count=st.integers(1, 130), seed=st.integers(0, 2**32))
def test_no_law_that_tests_draws_a_mask_twice(name, n, count, seed):
    sample = text_of(n)
    if not registry.laws.build(name).undefined(sample):
        keep = draw(name, sample, count, seed)
        assert len(np.unique(keep, axis=0)) == len(keep)


def test_short_texts_give_all_masks_there_are():
    # by hand: 7 runs of 2 in 8; subsets of 2 to 5 of 5; removals of 1 to 5 of 10; of 2 to 10 of 11
    assert len(draw("spans", text_of(8), 100)) == 7
    assert len(draw("top", text_of(12), 100)) == 10 + 10 + 5 + 1
    assert len(draw("many", text_of(10), 1000)) == 10 + 45 + 120 + 210 + 252
    assert len(draw("few", text_of(11), 3000)) == 2**11 - 2 - 11


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_draws_other_masks_and_all_that_are_asked_for(name):
    sample = text_of(200)
    keep = draw(name, sample, 100)
    assert not np.array_equal(keep, draw(name, sample, 100, seed=1))
    assert len(keep) == (50 if name == "sentences" else 100)


@pytest.mark.parametrize(("name", "least"), SHORTEST.items())
def test_texts_that_are_too_short_have_a_reason(name, least):
    law = registry.laws.build(name)
    assert law.undefined(text_of(least - 1)) == undefined.TOO_SHORT
    assert law.undefined(text_of(least)) is None
    assert len(draw(name, text_of(least), 20))


def test_few_is_balanced_over_two_to_ten():
    assert sorted(removed(draw("few", text_of(50), 90))) == sorted(10 * list(range(2, 11)))
    counts = np.bincount(removed(draw("few", text_of(50), 100)), minlength=11)
    assert set(counts[2:]) == {11, 12}
    assert not counts[:2].any()


def test_many_is_balanced_over_five_shares():
    assert sorted(removed(draw("many", text_of(60), 50))) == sorted(10 * [6, 12, 18, 24, 30])


def test_positions_are_removed_about_equally_often():
    for name in ("few", "many"):
        often = (~draw(name, text_of(60), 300)).sum(axis=0)
        # balanced draws: the spread is a small part of what independent ones would have
        assert often.std() < 0.5 * np.sqrt(often.mean()), name


def test_spans_are_in_one_piece_and_balanced_in_length():
    for n in (8, 41, 200):
        keep = draw("spans", text_of(n), 120)
        steps = np.diff(np.pad((~keep).astype(int), ((0, 0), (1, 1))), axis=1)
        assert ((steps == 1).sum(axis=1) == 1).all(), "one run each"
        assert min(removed(keep)) == max(2, int(np.ceil(n / 20)))
        assert max(removed(keep)) == n // 4
        counts = np.bincount(removed(keep))
        assert np.ptp(counts[counts > 0]) <= 1


def test_top_removes_the_tokens_of_largest_effect_alone():
    law, sample = registry.laws.build("top"), text_of(80)
    effects = np.zeros(80)
    effects[[3, 10, 11, 40, 41, 60, 70, 79]] = [1, 5, 2, 4, 3, 9, 8, 7]
    keep = law.draw(sample, 70, np.random.default_rng(0), effects)
    assert set(np.flatnonzero((~keep).any(axis=0))) == {3, 10, 11, 40, 41, 60, 70, 79}
    # 8 tokens have one subset of 8 and eight of 7; the other 61 masks are shared by the five other sizes
    assert np.bincount(removed(keep), minlength=9)[7:].tolist() == [8, 1]
    assert set(np.bincount(removed(keep), minlength=9)[2:7]) == {12, 13}
    few = law.draw(text_of(12), 20, np.random.default_rng(0), np.ones(12))
    assert set(np.flatnonzero((~few).any(axis=0))) == set(range(5)), "five at least; ties in the order of the text"
    with pytest.raises(InvalidInput, match="effect of each of its 80 tokens"):
        law.draw(sample, 5, np.random.default_rng(0))


def test_the_papers_masks_are_nested_and_as_many_for_each_k():
    keep = draw("paper", text_of(30), 1000).reshape(10, 100, 30)
    assert ((~keep).sum(axis=2) == np.arange(1, 11)[:, None]).all()
    assert (keep[1:] <= keep[:-1]).all()
    # 100 masks of 10 out of 30: each position is deleted in about a third of them, binomial sd 4.7
    assert np.abs((~keep[9]).sum(axis=0) - 100 / 3).max() < 20


def test_mixed_goes_from_one_token_to_half_the_text_at_random_and_in_spans():
    keep = draw("mixed", text_of(200), 999)
    sizes = np.array(removed(keep))
    assert (sizes.min(), sizes.max()) == (1, 100)
    first, last = keep.argmin(axis=1), 199 - keep[:, ::-1].argmin(axis=1)
    spans = (last - first + 1 == sizes) & (sizes > 3)
    assert 0.2 < spans.mean() < 1 / 3
    assert len(np.unique(keep[spans], axis=0)) == spans.sum(), "no span twice"
    # a third on the log scale (a fifth of its sizes are 1 and 2), a third on the linear one, whose median is 50
    assert 0.05 < np.mean(sizes == 1) < 0.12
    assert np.mean(sizes > 50) == pytest.approx((0.5 + 2 * 0.15) / 3, abs=0.05)
    assert removed(draw("mixed", text_of(2), 5)) == [1] * 5


def test_mixed_leaves_most_spans_of_a_short_text_for_tests():
    keep = draw("mixed", text_of(16), 900)
    cuts = np.abs(np.diff(np.pad((~keep).astype(int), ((0, 0), (1, 1))), axis=1)).sum(axis=1)
    assert len(np.unique(keep[(cuts == 2) & (keep.sum(axis=1) < 14)], axis=0)) < 60
    assert len(keep) == 900


SENTENCES = (
    'He said "Stop."',
    " 3.5 stars at best . . .",
    " Really?!",
    " Hm... <br /><br />",
    "The end",
)
"""What the law should take for sentences, by hand."""


def tokenised(pieces: tuple[str, ...]) -> tuple[Sample, list[int]]:
    """A text in words and marks, and the piece that each of them comes from."""
    offsets, owner, start = [], [], 0
    for number, piece in enumerate(pieces):
        for found in re.finditer(r"\w+|[^\w\s]", piece):
            offsets.append((start + found.start(), start + found.end()))
            owner.append(number)
        start += len(piece)
    return Sample("s", np.arange(len(owner)), "".join(pieces), offsets), owner


def test_sentences_go_whole_each_once():
    sample, owner = tokenised(SENTENCES)
    assert sentence_numbers(sample).tolist() == owner
    keep = draw("sentences", sample, 100)
    assert sorted(map(tuple, ~keep)) == sorted(tuple(np.array(owner) == i) for i in range(5))
    assert len(draw("sentences", sample, 3)) == 3


def test_a_token_with_the_space_before_it_belongs_to_the_sentence_that_it_starts():
    spaced = Sample("s", np.arange(4), "No. No", [(0, 2), (2, 3), (3, 6), (5, 6)])
    assert sentence_numbers(spaced).tolist() == [0, 0, 1, 1]


def test_one_sentence_or_no_text_is_undefined():
    law = registry.laws.build("sentences")
    assert law.undefined(tokenised(("One sentence only.",))[0]) == undefined.ONE_SENTENCE
    assert law.undefined(tokenised(("No end of it",))[0]) == undefined.ONE_SENTENCE
    assert law.undefined(Sample("s", np.arange(9))) == undefined.NO_TEXT
    assert law.undefined(tokenised(("One.", " Two."))[0]) is None
    # what is left of a text that was cut after its first sentence
    cut, _ = tokenised(("One.", " Two."))
    assert law.undefined(Sample("s", cut.ids[:2], cut.text, cut.offsets[:2])) == undefined.ONE_SENTENCE


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"top"}))
def test_what_is_fitted_has_the_full_text_first_with_a_sixth_of_the_weight(name):
    sample = text_of(40)
    keep, weights = fitting_masks(name, registry.laws.build(name), sample, 101, np.random.default_rng(0))
    assert keep[0].all()
    assert not keep[1:].all(axis=1).any()
    assert len(keep) == (11 if name == "sentences" else 101)
    assert weights.sum() == pytest.approx(len(keep))
    assert weights[0] == pytest.approx(len(keep) / 6)
    sizes = np.array(removed(keep[1:]))
    if name == "paper":  # drawn by rising k, fitted in a random order
        assert (np.diff(sizes) < 0).any()


def test_what_cannot_be_fitted_to_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="law top draws among the tokens that matter"):
        fitting_masks("top", registry.laws.build("top"), text_of(40), 100, rng)
    with pytest.raises(InvalidInput, match="law few has no masks for it: text has too few tokens"):
        fitting_masks("few", registry.laws.build("few"), text_of(5), 100, rng)
    keep, weights = fitting_masks("mixed", registry.laws.build("mixed"), text_of(5), 1, rng)
    assert keep.all()
    assert weights.tolist() == [1.0]
