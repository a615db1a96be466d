"""Many texts at once have the same ids as one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

import slalom_bench.models
from slalom_bench.backends.hf_files import load_tokens
from slalom_bench.models.base import ModelOptions
from slalom_bench.testing import word_tokens
from slalom_bench.tokens import HFTokens, Tokens, encode_all

MINIS = Path(slalom_bench.models.__file__).parent / "mini"


@pytest.mark.parametrize("name", ["mini-bert", "mini-gpt2", "words"])
def test_encode_all(name: str) -> None:
    tokens: Tokens = word_tokens() if name == "words" else load_tokens(MINIS / name, ModelOptions(progress=False))
    texts = ["w1 w2 w3", "A dull start,   but what a finish!", "w1", "naïve café"]
    assert [ids.tolist() for ids in encode_all(tokens, texts)] == [tokens.encode(text)[0].tolist() for text in texts]
    assert encode_all(tokens, []) == []


def test_encode_all_cuts_and_pads_nothing_though_an_earlier_call_did() -> None:
    tokens = load_tokens(MINIS / "mini-bert", ModelOptions(progress=False))
    assert isinstance(tokens, HFTokens)
    texts = ["a film", "a very long and very dull film"]
    expected = [tokens.encode(text)[0].tolist() for text in texts]
    tokens.tokenizer(texts, truncation=True, max_length=4, padding="max_length")
    assert [ids.tolist() for ids in encode_all(tokens, texts)] == expected
