"""Tokens as a reader sees them, on a terminal: nothing lost, nothing cut in two, nothing read as markup."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from slalom_bench.core.safe_text import visible
from slalom_bench.core.tokens import HFTokens, WordTokens, encode
from slalom_bench.core.types import Cost, Example, Explanation, Sample
from slalom_bench.showing import display
from slalom_bench.showing.explained import Result
from slalom_bench.showing.explaining import Explained
from slalom_bench.showing.labels import Box, place
from slalom_bench.showing.shades import AGAINST, MUCH, TOWARDS, columns, layer, layers, strongest
from slalom_bench.showing.units import read

FAMILY = "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"


@pytest.fixture(scope="module")
def byte_tokens():
    """A byte-level tokenizer without merges: one token a byte, the hardest case for display."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    return HFTokens(PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=alphabet[0]))


def reading_of(tokens, text, max_tokens=None):
    sample = encode(tokens, Example("x", text), max_tokens)
    return sample, read(sample, tokens.words(sample.ids))


def whole(reading):
    return "".join(unit.gap + unit.text for unit in reading.units) + reading.tail


def test_an_emoji_of_many_tokens_is_one_unit_with_the_summed_score(byte_tokens):
    sample, reading = reading_of(byte_tokens, f"a {FAMILY}b")
    assert [unit.text for unit in reading.units] == ["a", FAMILY, "b"]
    family = reading.units[1]
    assert len(family.positions) > 10
    scores = np.arange(len(sample), dtype=float)
    assert reading.sums(scores)[1] == scores[list(family.positions)].sum()
    assert reading.sums(scores).sum() == scores.sum()


def test_an_accent_stays_on_its_letter():
    tokens = WordTokens(["caf", "e"])
    text = "cafe\N{COMBINING ACUTE ACCENT} au lait"
    sample = Sample("x", tokens.encode("caf e e e")[0], text, [(0, 3), (3, 4), (4, 5), (6, 8)])
    reading = read(sample, tokens.words(sample.ids))
    assert [unit.text for unit in reading.units] == ["caf", "e\N{COMBINING ACUTE ACCENT}", "au"]
    assert [unit.positions for unit in reading.units] == [(0,), (1, 2), (3,)]
    assert reading.tail == " lait"


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40))
def test_every_text_is_shown_whole_and_no_character_is_cut(byte_tokens, text):
    if not text.strip():
        return
    sample, reading = reading_of(byte_tokens, text)
    assert whole(reading) == visible(text)
    positions = [p for unit in reading.units for p in unit.positions]
    assert sorted(positions) == list(range(len(sample)))
    edges = {m.start() for m in regex.finditer(r"\X", text)} | {len(text)}
    at = 0
    for unit in reading.units:
        assert at + len(unit.gap) in edges
        at += len(unit.gap) + len(unit.text)
        assert at in edges


def test_unknown_words_markup_and_gaps_are_shown_as_written():
    tokens = WordTokens(["good"])
    text = "good <b>unheard-of</b>\n\n  [bold]good[/bold]\t:smile: مرحبا שלום"
    _, reading = reading_of(tokens, text)
    assert whole(reading) == text
    assert [unit.text for unit in reading.units] == text.split()
    assert reading.units[2].gap == "\n\n  "


def test_what_was_cut_is_the_tail():
    _, reading = reading_of(WordTokens(["a"]), "a b c d", max_tokens=2)
    assert [unit.text for unit in reading.units] == ["a", "b"]
    assert reading.tail == " c d"


def test_a_sample_without_text_shows_its_tokens():
    tokens = WordTokens(["a", "b"])
    sample = Sample("x", tokens.encode("b a b")[0])
    assert whole(read(sample, tokens.words(sample.ids))) == "b a b"


def test_control_codes_cannot_steer_a_terminal():
    assert visible("\x1b[31mred\x07\r\nok\t") == "␛[31mred␇\nok\t"
    assert visible("\x9b\N{RIGHT-TO-LEFT OVERRIDE}") == 2 * "\N{REPLACEMENT CHARACTER}"


def explained(text="good [bold]bad[/bold] film", **scores) -> Explained:
    tokens = WordTokens(["good", "film"])
    sample = encode(tokens, Example("x", text), None)
    n = len(sample)
    named = {name: np.asarray(values, float) for name, values in scores.items()} or {"attribution": np.arange(n) - 1.0}
    explanation = Explanation(named, next(reversed(named)), unsigned=frozenset({"importance"} & named.keys()))
    results = (
        Result("method", explanation, Cost(queries=1, seconds=0.5)),
        Result("other", reason="model m gives no gradients"),
    )
    return Explained(
        "m", ("no", "yes"), 1, 0.25, 0.56, sample, tuple(tokens.words(sample.ids)), results, seed=0, budget=10
    )


def printed(what: Explained, colour: bool, **options) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=colour, color_system="truecolor" if colour else None, width=100, highlight=False
    )
    display.show(what, console, **options)
    return out.getvalue()


def test_plain_output_has_no_codes_and_the_text_once():
    out = printed(explained(), colour=False)
    assert "\x1b" not in out
    assert out.count("good [bold]bad[/bold] film") == 1
    assert "log-odds of yes +0.250" in out
    assert "1 query, 0.50 s" in out
    assert "other  not run: model m gives no gradients" in out
    assert re.search(r"\[bold\]bad\[/bold\] +\+0\.0000", out)


def test_colours_follow_the_sign_and_the_largest_is_strongest():
    out = printed(explained(attribution=[-2.0, 0.0, 1.0]), colour=True, top=0)
    against, towards = display.style(AGAINST, 1.0), display.style(TOWARDS, 0.5)
    assert against.render("good") in out
    assert towards.render("film") in out
    assert " [bold]bad[/bold] " in out


def test_both_slalom_scores_are_shown():
    scores = {"value": [1.0, -1.0, 0.5], "importance": [0.1, 2.0, -2.1], "lin": [1.1, -7.4, 0.06]}
    what = explained(**scores, removal=[0.1, -0.8, 0.3])
    out = re.sub(r"\x1b\[[0-9;]*m", "", printed(what, colour=True))
    assert out.count("good [bold]bad[/bold] film") == 3
    assert re.search(r"token +removal +value +importance", out)
    assert "lin" not in out.replace("line", "")
    row = r"\[bold\]bad\[/bold\] +-0\.8000 +-1\.0000 +\+2\.0000"
    assert re.search(row, out)
    assert re.search(row, printed(what, colour=False))
    assert "value: the log-odds that the token pulls" in " ".join(out.split())


def test_scales():
    what = explained(value=[1.0, -4.0, 0.0], importance=[0.0, 2.0, -2.0], lin=[1.0, -4.0, 0.0])
    explanation, reading = what.results[0].explanation, what.reading()
    lin, value, importance = layers(explanation, reading)
    assert lin.name == "lin"
    assert (value.low, value.high, value.signed) == (-4.0, 4.0, True)
    np.testing.assert_allclose(value.strengths, [0.25, 1.0, 0.0])
    assert [value.hue(i) for i in range(2)] == [TOWARDS, AGAINST]
    assert (importance.low, importance.high, importance.hue(0)) == (-2.0, 2.0, MUCH)
    np.testing.assert_allclose(importance.strengths, [0.5, 1.0, 0.0])
    assert columns(explanation) == ["lin", "value", "importance"]
    assert strongest(explanation, reading, 2) == [1, 0]
    flat = layer(Explanation({"zero": np.zeros(3)}, "zero"), "zero", reading)
    np.testing.assert_array_equal(flat.strengths, [0, 0, 0])


def test_small_scores_keep_their_digits():
    assert display.number(-1.5e-7, np.array([2e-6])) == "-1.50e-07"
    assert display.number(0.25, np.array([2.0])) == "+0.2500"


@settings(max_examples=50, deadline=None)
@given(
    points=st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), min_size=1, max_size=25),
    width=st.floats(5, 80),
)
def test_labels_never_overlap_and_stay_inside(points, width):
    area = Box(0, 0, 300, 200)
    boxes = place(points, [(width, 12.0)] * len(points), area)
    placed = [box for box in boxes if box is not None]
    assert all(box.inside(area) for box in placed)
    assert not any(a.overlaps(b) for i, a in enumerate(placed) for b in placed[:i])
