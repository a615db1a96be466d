"""Many texts at once have the same ids as one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import slalom_bench.models
from slalom_bench.backends.hf_files import load_tokens
from slalom_bench.backends.random_models import word_tokens
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.tokens import HFTokens, Tokens, distinct_words, encode_all, reads_by_word

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


@pytest.mark.parametrize("name", ["mini-bert", "mini-gpt2"])
def test_distinct_words_have_the_ids_of_the_texts(name: str) -> None:
    tokens = load_tokens(MINIS / name, ModelOptions(progress=False))
    rng = np.random.default_rng(0)
    marks = [
        "a",
        "b1",
        "\u00e9",
        "e\u0301",
        "\u0301",
        "\u0391\u03a3",
        "\u7535",
        "\u2163",
        "\u00bd",
        "\U0001f600",
        "'s",
        "_",
        ".",
        " ",
        "  ",
        "\n",
        "\t",
        "\xa0",
        "\x1c",
        "\x00",
        "<br />",
        "<br",
        "/>",
        "[MASK]",
        "<|endoftext|>",
    ]
    texts = ["".join(rng.choice([*marks, " ", " "], 30)) for _ in range(300)]
    labels = rng.integers(0, 3, len(texts)).tolist()
    parts, times = distinct_words(texts, labels, 3)
    assert reads_by_word(tokens)
    assert sum(map(len, parts)) < sum(map(len, texts))
    expected, found = np.zeros((2, 3, 8000))
    for label, ids in zip(labels, encode_all(tokens, texts), strict=True):
        np.add.at(expected, (label, ids), 1)
    for row, ids in zip(times, encode_all(tokens, parts), strict=True):
        np.add.at(found.T, ids, row)
    assert found.tolist() == expected.tolist()


def test_only_known_pipelines_read_by_word() -> None:
    from tokenizers import normalizers, pre_tokenizers

    tokens = load_tokens(MINIS / "mini-gpt2", ModelOptions(progress=False))
    assert isinstance(tokens, HFTokens)
    assert not reads_by_word(word_tokens())
    rust = tokens.tokenizer.backend_tokenizer
    rust.normalizer = normalizers.Replace("a b", "c")
    assert not reads_by_word(tokens)
    rust.normalizer = None
    assert reads_by_word(tokens)
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    assert not reads_by_word(tokens)
    rust.pre_tokenizer = pre_tokenizers.ByteLevel()
    assert reads_by_word(tokens)
    for added in ("two words", "  ", "foo "):
        tokens = load_tokens(MINIS / "mini-gpt2", ModelOptions(progress=False))
        assert isinstance(tokens, HFTokens)
        tokens.tokenizer.add_tokens([added])
        assert not reads_by_word(tokens)
