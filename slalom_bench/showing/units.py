"""Tokens as a reader sees them: pieces of the original text that never cut a character in two."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import regex  # type: ignore[import-untyped]

from slalom_bench.core.safe_text import visible
from slalom_bench.core.types import Floats, Sample


@dataclass(frozen=True)
class Unit:
    """One or more tokens that share a piece of text, and the text between the unit before and this one."""

    text: str
    gap: str
    positions: tuple[int, ...]

    @property
    def label(self) -> str:
        """The text on one line, for tables and plots."""
        shown = " ".join(self.text.split()) or self.text.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")
        return shown or "∅"


@dataclass(frozen=True)
class Reading:
    """A sample as units, and what stands after the last of them."""

    units: tuple[Unit, ...]
    tail: str = ""

    def sums(self, scores: Floats) -> Floats:
        """One score for each unit: the sum over its tokens."""
        owner = np.repeat(np.arange(len(self.units)), [len(unit.positions) for unit in self.units])
        positions = [position for unit in self.units for position in unit.positions]
        return np.bincount(owner, weights=scores[positions], minlength=len(self.units)).astype(np.float64)


def read(sample: Sample, words: Sequence[str]) -> Reading:
    """Units by offsets into the text; without offsets, the tokenizer's words with spaces between them.

    A token without text of its own (a trimmed space, say) belongs to the unit before it.
    """
    if sample.text is None or sample.offsets is None or not (sample.offsets[:, 1] > sample.offsets[:, 0]).any():
        units = [Unit(visible(word), " " if i else "", (i,)) for i, word in enumerate(words)]
        return Reading(tuple(units))
    text = sample.text
    edges = [match.start() for match in regex.finditer(r"\X", text)] + [len(text)]
    spans: list[tuple[int, int, list[int]]] = []
    waiting: list[int] = []
    for position, (start, end) in enumerate(sample.offsets.tolist()):
        start, end = _widen(*_trim(text, start, end), edges)
        if spans and (start == end or start < spans[-1][1]):
            first, last, positions = spans[-1]
            spans[-1] = (first, max(last, end) if start < end else last, [*positions, position])
        elif start == end:
            waiting.append(position)
        else:
            spans.append((start, end, [*waiting, position]))
            waiting = []
    units, done = [], 0
    for start, end, positions in spans:
        units.append(Unit(visible(text[start:end]), visible(text[done:start]), tuple(positions)))
        done = end
    return Reading(tuple(units), visible(text[done:]))


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without white space at its ends, unless it is nothing else."""
    inner = text[start:end].strip()
    if not inner:
        return start, end
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return start, start + len(inner)


def _widen(start: int, end: int, edges: list[int]) -> tuple[int, int]:
    """The span out to the edges of the characters (grapheme clusters) that it touches."""
    if start >= end:
        return start, start
    return edges[bisect_right(edges, start) - 1], edges[bisect_left(edges, end)]
