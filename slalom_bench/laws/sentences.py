"""The mask law `sentences`: one whole sentence at a time."""

from __future__ import annotations

import re

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Floats, Ints, Sample
from slalom_bench.registry import law

_STOP, _TAG = r"""[.!?…]+["'\u201d\u2019)\]]*""", r"<br\s*/?>"
_END = re.compile(rf"(?:{_STOP}(?=\s|<|$)|\n|{_TAG})(?:\s*(?:{_STOP}|{_TAG}))*")
"""Full stops with what closes behind them, before a space, a tag or the end; line breaks, also those of HTML; and
further ones of these behind, which are no sentence by themselves."""


def sentence_numbers(sample: Sample) -> Ints:
    """The sentence of each token, from 0, without gaps; a token belongs to the sentence that it starts in.

    A sentence ends with full stops, question or exclamation marks before a space, or with a line break. Abbreviations
    end one too.

    >>> text = "Good. Not bad!"
    >>> sentence_numbers(Sample("a", [1, 2, 3, 4, 5], text, [[0, 4], [4, 5], [6, 9], [10, 13], [13, 14]])).tolist()
    [0, 0, 1, 1, 1]
    """
    if sample.text is None or sample.offsets is None:
        return np.zeros(len(sample), np.int64)
    ends = np.array([found.end() for found in _END.finditer(sample.text)], np.int64)
    return np.unique(np.searchsorted(ends, sample.offsets[:, 0], side="right"), return_inverse=True)[1]


@law("sentences", version=1)
class Sentences:
    """One sentence removed at a time: each of them once, or so many of them, drawn at random, as masks are asked for.

    Undefined for a text of one sentence and for a sample without text and offsets. Where sentences end: see
    `sentence_numbers`.

    Choose it:
        Where sentences are what is moved or dropped.

    Example:
        A text of three sentences has three masks, each without one of them.
    """

    ranked = False

    def undefined(self, sample: Sample) -> str | None:
        """Where nothing would be left, or where no text says what a sentence is."""
        if sample.text is None or sample.offsets is None:
            return undefined.NO_TEXT
        return undefined.ONE_SENTENCE if sentence_numbers(sample).max() < 1 else None

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """The sentences in a random order, no one twice."""
        number = sentence_numbers(sample)
        return number != rng.permutation(number.max() + 1)[:count, None]
