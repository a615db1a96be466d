"""Outside text stays text: on a terminal, in Markdown, in a name."""

from __future__ import annotations

import pytest

from slalom_bench.core.safe_text import disguised, line, markdown, strange


@pytest.mark.parametrize("text", ["a\u200bb", "a\u00adb", "a\u3164b", "a\ufe0fb", "a\u202eb", "a\x1bb", "a\u00a0b"])
def test_what_shows_nothing_or_steers_is_found_in_a_name(text):
    assert strange(text)
    assert not strange("lime (v1, seeds 0) ü 中")


@pytest.mark.parametrize("text", ["l\u0456me", "\uff4cime", "\u03bfcclusion"])
def test_a_name_that_looks_like_another_is_found(text):
    assert disguised(text)
    assert not disguised("résumé Москва lime")


def test_an_error_is_one_line_without_escape_codes():
    assert line("bad \x1b[2Jkey\nerror: none") == "bad \u241b[2Jkey error: none"


def test_an_address_is_no_link_in_markdown():
    assert markdown("see https://x.y and www.x.y") == r"see https\://x.y and www\.x.y"
