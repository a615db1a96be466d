"""A Python callable as a classifier: what it is asked, what it may return, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from slalom_bench.backends.callable_backend import PUNCTUATION, HashedWords, wrap
from slalom_bench.backends.random_models import word_tokens
from slalom_bench.core.types import Example
from slalom_bench.errors import InvalidInput, Unsupported

WEIGHTS = {"good": 1.5, "bad": -2.0, "film": 0.25}


def linear(texts: list[str]) -> list[float]:
    return [0.5 + sum(WEIGHTS.get(word, 0.0) for word in text.split()) for text in texts]


def sigmoid(values: Any) -> np.ndarray:
    return 1 / (1 + np.exp(-np.asarray(values)))


def test_whitespace_words_and_log_odds() -> None:
    classifier = wrap(linear, identity="v1")
    sample = classifier.encode(Example("a", "a good  film bad"))
    keep = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]], bool)
    assert classifier.masked_log_odds(sample, keep).tolist() == [0.25, 2.25, -1.5]
    assert classifier.tokens.words(sample.ids) == ["a", "good", "film", "bad"]
    assert classifier.capabilities == {"queries"}
    with pytest.raises(InvalidInput, match="keep at least one"):
        classifier.masked_log_odds(sample, np.zeros((1, 4), bool))


@pytest.mark.parametrize(
    ("output", "shape"),
    [
        ("log_odds", lambda f: f[:, None]),
        ("probabilities", sigmoid),
        ("probabilities", lambda f: np.stack([1 - sigmoid(f), sigmoid(f)], 1)),
        ("logits", lambda f: f),
        ("logits", lambda f: np.stack([7 - f / 2, 7 + f / 2], 1)),
    ],
)
def test_every_output_gives_the_same_log_odds(output: str, shape: Any) -> None:
    classifier = wrap(lambda texts: shape(np.array(linear(texts))), output=output)
    sample = classifier.encode(Example("a", "good film bad good"))
    assert classifier.log_odds([sample.ids, sample.ids[:1]]) == pytest.approx([1.75, 2.0], abs=1e-12)


def test_three_classes() -> None:
    classifier = wrap(
        lambda texts: np.tile([0.2, 0.3, 0.5], (len(texts), 1)), class_names=("a", "b", "c"), output="probabilities"
    )
    sample = classifier.encode(Example("a", "x"))
    assert classifier.log_odds([sample.ids], target=2)[0] == pytest.approx(0.0, abs=1e-12)
    assert classifier.log_odds([sample.ids], target=0)[0] == pytest.approx(np.log(0.2 / 0.8), abs=1e-12)


def test_ids_come_with_the_tokenizers_template_and_text_without() -> None:
    tokens = word_tokens(10)
    seen: list[Any] = []

    def record(inputs: list[Any]) -> np.ndarray:
        seen.extend(inputs)
        return np.zeros(len(inputs))

    ids = wrap(record, tokens, takes="ids")
    sample = ids.encode(Example("a", "w3 w4"))
    ids.log_odds([sample.ids, sample.ids[:0]])
    text = wrap(record, tokens)
    text.log_odds([sample.ids, sample.ids[:0]])
    cls, sep = tokens.prefix[0], tokens.suffix[0]
    assert seen == [[cls, *sample.ids.tolist(), sep], [cls, sep], "w3 w4", ""]


def test_a_transformers_tokenizer() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1, "film": 2, "a": 3}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    classifier = wrap(linear, PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", pad_token="[UNK]"))
    sample = classifier.encode(Example("a", "good film"))
    assert sample.ids.tolist() == [1, 2]
    assert classifier.log_odds([sample.ids])[0] == 2.25


@pytest.mark.parametrize(
    ("answer", "options", "message"),
    [
        (lambda n: np.zeros(n + 1), {}, r"shape \(3,\) for 2 inputs, not \(2,\)"),
        (lambda n: np.zeros((n, 2)), {}, r"log_odds of shape \(2, 2\)"),
        (lambda n: np.zeros((n, 3)), {"output": "logits"}, r"not \(2,\) or \(2, 2\)"),
        (lambda n: [0.0, np.nan], {}, "1 of 2 values that are not finite"),
        (lambda n: [0.0, np.inf], {}, "not finite"),
        (lambda n: [0.5, 1.5], {"output": "probabilities"}, "must lie in"),
        (lambda n: [0.5, 1.0], {"output": "probabilities"}, "exactly 0 or 1"),
        (lambda n: np.full((n, 2), 0.4), {"output": "probabilities"}, "sum to 1"),
        (lambda n: ["yes", "no"], {}, "not an array of numbers"),
        (lambda n: None, {}, "NoneType|shape"),
    ],
)
def test_bad_answers_are_named(answer: Any, options: dict[str, Any], message: str) -> None:
    classifier = wrap(lambda texts: answer(len(texts)), **options)
    sample = classifier.encode(Example("a", "x y"))
    with pytest.raises(InvalidInput, match=message):
        classifier.log_odds([sample.ids[:1], sample.ids[1:]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "scores"}, "unknown output 'scores'"),
        ({"takes": "tensors"}, "not 'tensors'"),
        ({"takes": "ids"}, "needs the tokenizer"),
        ({"class_names": ("a",)}, "two or more"),
        ({"class_names": ("a", "b", "c")}, "two classes, not 3"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        wrap(linear, **options)


def test_no_callable_and_no_attention_mask() -> None:
    with pytest.raises(InvalidInput, match="needs a callable, not int"):
        wrap(3)  # type: ignore[arg-type]
    classifier = wrap(linear, removal="pad")
    sample = classifier.encode(Example("a", "good bad"))
    with pytest.raises(Unsupported, match="delete or mask"):
        classifier.masked_log_odds(sample, np.array([[True, False]]))
    with pytest.raises(Unsupported, match="gradients"):
        classifier.embed(sample)


def test_mask_removal_puts_a_mask_word() -> None:
    seen: list[str] = []
    classifier = wrap(lambda texts: [seen.append(text) or 0.0 for text in texts], removal="mask")
    classifier.masked_log_odds(classifier.encode(Example("a", "good bad")), np.array([[True, False]]))
    assert seen == ["good [MASK]"]


def test_identity_is_what_was_given_and_never_shared_without() -> None:
    assert wrap(linear, identity="1").identity() == wrap(linear, identity="1").identity()
    others = [{"identity": "2"}, {"identity": "1", "name": "b"}, {"identity": "1", "output": "logits"}, {}, {}]
    assert len({wrap(linear, **other).identity() for other in ({"identity": "1"}, *others)}) == 6


def test_word_ids_are_the_same_in_every_process_and_order() -> None:
    here = HashedWords(PUNCTUATION)
    here.encode("other words first")
    ids, offsets = here.encode("It's fine, really fine!")
    assert here.words(ids) == ["It's", "fine", ",", "really", "fine", "!"]
    assert offsets is not None
    assert offsets.tolist()[0] == [0, 4]
    assert ids[1] == ids[4]
    code = (
        "from slalom_bench.backends.callable_backend import *; t = HashedWords(PUNCTUATION);"
        'print(t.encode("It\'s fine, really fine!")[0].tolist())'
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert there.strip() == str(ids.tolist())
    with pytest.raises(InvalidInput, match="never seen"):
        HashedWords().words(ids)


def test_words_that_agree_in_their_low_bits_are_not_mixed_up() -> None:
    """Ids are 62 bits wide; the handle's cache must not look at fewer of them."""
    classifier = wrap(lambda texts: [float(text) for text in texts])
    ids = classifier.encode(Example("a", "51862 79375")).ids
    assert ids[0] & 0xFFFFFFFF == ids[1] & 0xFFFFFFFF
    assert classifier.log_odds([ids[:1], ids[1:]]).tolist() == [51862.0, 79375.0]
