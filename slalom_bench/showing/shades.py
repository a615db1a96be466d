"""From scores to shades: which scores to show, on which scale, and how strong each token's colour is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom_bench.core.types import Explanation, Floats
from slalom_bench.showing.units import Reading

TOWARDS, AGAINST, MUCH = "towards", "against", "much"
"""The three hues: for the class, against it, and of unsigned scores."""


@dataclass(frozen=True)
class Layer:
    """One score of an explanation over the units of a text."""

    name: str
    scores: Floats
    strengths: Floats
    """0 (no colour) to 1 (the strongest of this layer)."""
    signed: bool
    low: float
    high: float

    def hue(self, i: int) -> str:
        """The colour class of one unit."""
        if not self.signed:
            return MUCH
        return TOWARDS if self.scores[i] > 0 else AGAINST


def layer(explanation: Explanation, name: str, reading: Reading) -> Layer:
    """Signed scores on a scale symmetric about 0, unsigned ones from the smallest (from 0 if none is negative)."""
    scores = reading.sums(explanation.scores[name])
    if name not in explanation.unsigned:
        high = float(np.abs(scores).max())
        return Layer(name, scores, np.abs(scores) / (high or 1.0), True, 0.0 - high, high)
    low, high = min(0.0, float(scores.min())), float(scores.max())
    return Layer(name, scores, (scores - low) / ((high - low) or 1.0), False, low, high)


def contribution(explanation: Explanation) -> str:
    """The score that says what a token contributes: `removal` (log-odds) where there is one, else the primary one."""
    return "removal" if "removal" in explanation.scores else explanation.primary


def columns(explanation: Explanation) -> list[str]:
    """The scores of a table: what a token contributes, then SLALOM's value and importance if there are."""
    both = [name for name in ("value", "importance") if name in explanation.scores]
    first = contribution(explanation)
    return [first, *(name for name in both if name != first and len(both) == 2)]


def layers(explanation: Explanation, reading: Reading) -> list[Layer]:
    """What is shown of an explanation: the attribution map, and both scores of SLALOM."""
    return [layer(explanation, name, reading) for name in columns(explanation)]


def strongest(explanation: Explanation, reading: Reading, count: int) -> list[int]:
    """The units that contribute most, ties in reading order."""
    scores = np.abs(reading.sums(explanation.scores[contribution(explanation)]))
    return [int(i) for i in np.argsort(-scores, kind="stable")[:count]]
