"""What the engine needs of a tokenizer: ids with offsets, the special-token template, and readable tokens."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, Protocol

import numpy as np

from slalom_bench.core.types import Bools, Example, Ints, Sample
from slalom_bench.errors import InvalidInput

_WORD_START = re.compile(r" (?=\w)")
"""Where texts are cut into words: inside no match of the normalisers and pre-tokenisers that `reads_by_word` knows."""


class Tokens(Protocol):
    """A tokenizer as the handle uses it. `prefix` and `suffix` are the special ids put round every sequence."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    pad_id: int
    mask_id: int | None

    def encode(self, text: str) -> tuple[Ints, Ints | None]:
        """Content ids and their (start, end) character offsets."""
        ...

    def words(self, ids: Ints) -> list[str]:
        """One readable string for each id."""
        ...

    def decode(self, ids: Ints) -> str:
        """The text of a sequence of content ids."""
        ...

    def identity(self) -> str:
        """A string that changes whenever the same text could give other ids."""
        ...


class HFTokens:
    """A transformers fast tokenizer as `Tokens`.

    Args:
        tokenizer: a fast one (it has offsets); its special-token template is read off the encoding of one letter.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise InvalidInput(f"{type(tokenizer).__name__} has no offsets; a fast one (tokenizer.json) is needed")
        self.tokenizer = tokenizer
        bare = tokenizer("a", add_special_tokens=False)["input_ids"]
        full = tokenizer("a")["input_ids"]
        start = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), None)
        if not bare or start is None:
            raise InvalidInput(f"cannot read the special-token template of {type(tokenizer).__name__}")
        self.prefix = tuple(full[:start])
        self.suffix = tuple(full[start + len(bare) :])
        fallback = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else 0
        self.pad_id = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else fallback)
        self.mask_id = tokenizer.mask_token_id
        self.unk_id = int(tokenizer.unk_token_id if tokenizer.unk_token_id is not None else self.pad_id)

    def encode(self, text: str) -> tuple[Ints, Ints | None]:
        """Content ids and their (start, end) character offsets."""
        out = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return np.asarray(out["input_ids"], np.int64), np.asarray(out["offset_mapping"], np.int64).reshape(-1, 2)

    def words(self, ids: Ints) -> list[str]:
        """One readable string for each id."""
        return [self.tokenizer.decode([int(i)]) for i in ids]

    def decode(self, ids: Ints) -> str:
        """The text of a sequence of content ids."""
        return str(self.tokenizer.decode([int(i) for i in ids]))

    def identity(self) -> str:
        """A string that changes whenever the same text could give other ids."""
        return str(self.tokenizer.backend_tokenizer.to_str())


def encode(tokens: Tokens, example: Example, max_tokens: int | None) -> Sample:
    """An example in a model's tokens; a cut is recorded in `truncated`, marks follow their words by offsets."""
    ids, offsets = tokens.encode(example.text)
    if not len(ids):
        raise InvalidInput(f"example {example.id}: no tokens left of {example.text[:40]!r}")
    marks = None
    if example.word_marks is not None:
        if offsets is None:
            raise InvalidInput(f"example {example.id}: marks need a tokenizer with offsets")
        marks = marks_by_offset(example.text, example.word_marks, offsets)
    cut = len(ids) if max_tokens is None else min(len(ids), max_tokens)
    return Sample(
        id=example.id,
        ids=ids[:cut],
        text=example.text,
        offsets=None if offsets is None else offsets[:cut],
        label=example.label,
        marks=None if marks is None else marks[:cut],
        truncated=len(ids) - cut,
        marks_cut=0 if marks is None else int(marks[cut:].sum()),
    )


def encode_all(tokens: Tokens, texts: Sequence[str]) -> list[Ints]:
    """Content ids of many texts; transformers tokenizers take them in one call, on all cores, without offsets."""
    if not isinstance(tokens, HFTokens) or not texts:
        return [tokens.encode(text)[0] for text in texts]
    tokens.encode("")  # sets the shared Rust tokenizer as `encode` wants it: nothing cut, nothing padded
    rows = tokens.tokenizer.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [np.asarray(row.ids, np.int64) for row in rows]


def reads_by_word(tokens: Tokens) -> bool:
    """Whether the ids of a text are those of its words (cut before each _WORD_START), one after the other.

    So it is under BERT's and GPT-2's pre-tokenisers, which never join across a space before a letter or digit, unless
    another normaliser than theirs and the minis', an added token with a space or chance (BPE dropout) may look across.
    """
    if not isinstance(tokens, HFTokens):
        return False
    rust = tokens.tokenizer.backend_tokenizer
    parts = (rust.pre_tokenizer, rust.normalizer)
    splitter, normaliser = (json.loads(part.__getstate__()) if part else {} for part in parts)
    breaks = {"type": "Replace", "pattern": {"Regex": r"<br\s*/?>"}, "content": " "}
    known = [breaks, {"type": "NFC"}, {"type": "Lowercase"}]
    added = rust.get_added_tokens_decoder().values()
    return (
        (splitter.get("type") == "BertPreTokenizer" or (splitter.get("type") == "ByteLevel" and splitter["use_regex"]))
        and all(n in known or n["type"] == "BertNormalizer" for n in normaliser.get("normalizers", [normaliser]) if n)
        and not any(token.lstrip or token.rstrip or re.search(r"\s", token.content) for token in added)
        and getattr(rust.model, "dropout", None) is None
    )


def distinct_words(texts: Sequence[str], labels: Sequence[int], classes: int) -> tuple[list[str], Ints]:
    """Shorter texts of the same words, and how often each counts in every class: for tokenizers that read by word.

    Each distinct word stands in one of them only, beside those that are as frequent in all classes: tokenising the
    training texts' words once is several times faster than tokenising them all. First words have no space before.
    """
    first, later = ([Counter[str]() for _ in range(classes)] for _ in range(2))
    for text, label in zip(texts, labels, strict=True):
        head, *words = _WORD_START.split(text)
        first[label][head] += 1
        later[label].update(words)
    alike: dict[tuple[int, ...], list[str]] = {}
    for word, times in _table(later).items():
        alike.setdefault(times, [""]).append(word)
    heads = _table(first)
    parts = [*heads, *map(" ".join, alike.values())]
    return parts, np.array([*heads.values(), *alike], np.int64).reshape(len(parts), classes)


def _table(counters: Sequence[Counter[str]]) -> dict[str, tuple[int, ...]]:
    """Every word's counts, side by side."""
    words = list(dict.fromkeys(chain(*counters)))
    columns = [map(counter.get, words, repeat(0)) for counter in counters]
    return dict(zip(words, zip(*columns, strict=True), strict=True))


def marks_by_offset(text: str, word_marks: Sequence[bool], offsets: Ints) -> Bools:
    """Each sub-token inherits the mark of the whitespace word that its last character lies in."""
    return np.asarray(word_marks, np.bool_)[word_of_token(text, offsets)]


def word_of_token(text: str, offsets: Ints) -> Ints:
    """The whitespace word, by number, that the last character of each token lies in.

    >>> word_of_token("so good!", np.array([[0, 2], [3, 7], [7, 8]])).tolist()
    [0, 1, 1]
    """
    space = np.array([c.isspace() for c in text], dtype=np.bool_)
    starts = ~space & np.concatenate([[True], space[:-1]])
    word_of_char = np.cumsum(starts) - 1
    last = np.clip(offsets[:, 1] - 1, 0, len(text) - 1)
    return np.clip(word_of_char[last], 0, None)


class WordTokens:
    """Whitespace words over a fixed vocabulary: what the synthetic tasks and the test models read.

    Args:
        vocabulary: the words, each once; all others are [UNK].
        prefix: special tokens put before every sequence, e.g. ["[CLS]"].
        suffix: special tokens put behind it.

    >>> tokens = WordTokens(["good", "film"])
    >>> tokens.words(tokens.encode("good old film")[0])
    ['good', '[UNK]', 'film']
    """

    def __init__(self, vocabulary: Sequence[str], *, prefix: Sequence[str] = (), suffix: Sequence[str] = ()) -> None:
        specials = [*dict.fromkeys(["[PAD]", "[UNK]", "[MASK]", *prefix, *suffix])]
        if repeated := set(specials) & set(vocabulary) or {w for w in vocabulary if list(vocabulary).count(w) > 1}:
            raise InvalidInput(f"vocabulary words used twice: {sorted(repeated)}")
        self.strings = [*specials, *vocabulary]
        self.index = {word: i for i, word in enumerate(self.strings)}
        self.pad_id, self.unk_id = 0, 1
        self.mask_id: int | None = 2
        self.prefix = tuple(self.index[word] for word in prefix)
        self.suffix = tuple(self.index[word] for word in suffix)

    def __len__(self) -> int:
        return len(self.strings)

    def encode(self, text: str) -> tuple[Ints, Ints | None]:
        """Content ids and their (start, end) character offsets."""
        words = list(re.finditer(r"\S+", text))
        ids = np.array([self.index.get(word.group(), self.unk_id) for word in words], np.int64)
        return ids, np.array([word.span() for word in words], np.int64).reshape(-1, 2)

    def words(self, ids: Ints) -> list[str]:
        """One readable string for each id."""
        return [self.strings[int(i)] for i in ids]

    def decode(self, ids: Ints) -> str:
        """The text of a sequence of content ids."""
        return " ".join(self.words(ids))

    def identity(self) -> str:
        """A string that changes whenever the same text could give other ids."""
        return f"words {self.strings} {self.prefix} {self.suffix}"
