"""Greedy deletion: a search for the order of deletions that lowers the target most, as a ceiling for methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.orders import beam_search
from slalom_bench.registry import explainer

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier

_STEP = 1e-6
"""What keeps scores of one order apart, as a share of the largest of them."""


def affordable(n: int, queries: int, steps: int, width: int) -> tuple[int, int]:
    """The longest order, and the candidates of each step after the first, that a beam search may ask for.

    The first step asks for n sets, step k + 1 for at most width x (candidates - k), of no fewer candidates than the
    beam and the order need.

    >>> affordable(256, 999, 10, 3)
    (10, 32)
    >>> affordable(256, 256, 10, 3)
    (1, 256)
    """
    for length in range(min(steps, n - 1), 1, -1):
        later = length - 1
        candidates = min(n, ((queries - n) // width + later * (later + 1) // 2) // later)
        if candidates >= min(n, max(length, width)):
            return length, candidates
    return 1, n


def ordered_scores(alone: Floats, order: Ints, drops: Floats) -> Floats:
    """Scores whose ranking begins with `order`: drops, each raised above those that come after it where it must be.

    Args:
        alone: the drop when a position alone is deleted (n); the scores of positions outside of the order.
        order: positions, the first to be deleted first (k).
        drops: the drop when each of them is deleted after those before it (k).

    >>> ordered_scores(np.array([1.0, 0.5, 2.0]), np.array([2, 1]), np.array([2.0, 3.0])).round(5).tolist()
    [1.0, 3.0, 3.0]
    """
    scores = alone.copy()
    rest = np.delete(alone, order)
    least = rest.max() if len(rest) else -np.inf
    apart = _STEP * max(np.abs(alone).max(), np.abs(drops).max())
    for position, drop in zip(order[::-1], drops[::-1], strict=True):
        scores[position] = least = max(drop, least + apart)
    return scores


@explainer("greedy-deletion", version=1, needs={"queries"}, stochastic=False, family="search")
class GreedyDeletion:
    """A search for the deletions that lower the target most: a reference for the others, and never ranked with them.

    The area is that of `deletion-normalised`; width 1 is greedy. The first step tries every token; later ones those
    that lower F most by themselves, as many as the budget allows, and K is less than `steps` where it allows too few.
    The score of o_k is the drop of F when it goes after those before it, raised above the scores of all that come later
    where it is lower; that of a token outside of the order is its drop when it goes alone. So the scores rank as the
    search does.

    Needs queries, a budget of at least n + 1; no randomness, no surrogate. It is no bound: where single deletions say
    little, a method may beat it. Where a sample's only token may not be removed its score is 0.

    Formula:
        max over orders o of the sum over k = 1..K of F(x) - F(x without o_1, ..., o_k), by beam search
        score of o_k: the drop of F when it goes after those before it

    Choose it:
        To see how much a ranking could lower the target, beside the methods; never as one of them.

    Example:
        A bag of words with weights good 2, film 0, dull -1: the first step takes good, which lowers F from 1 to -1
        (score 2); then film (0), then dull (-1).

    Args:
        steps: the longest order that is searched.
        width: of the beam.

    Reference:
        Edin et al. 2025, Normalized AOPC (beam search for the best order); Feng et al. 2018, Pathologies of Neural
        Models Make Interpretations Difficult (deletion step by step).
    """

    def __init__(self, steps: Count = 10, width: Count = 3) -> None:
        self.steps = steps
        self.width = width

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The full input, then one call a step."""
        n = len(sample)
        if self.steps < 1 or self.width < 1:
            raise InvalidInput(f"greedy-deletion: steps={self.steps}, width={self.width}; both are at least 1")
        require_budget("greedy-deletion", budget, n + 1, f"the full input and one for each of {n} tokens")
        full = float(classifier.masked_log_odds(sample, np.ones((1, n), np.bool_))[0])
        if n == 1 and not classifier.empty_allowed:
            return Explanation({"attribution": np.zeros(1)}, "attribution", classifier.target)
        seen: dict[bytes, float] = {}

        def lost(chosen: Bools) -> Floats:
            """F(x) - F(x without the chosen positions), remembered."""
            found = full - classifier.masked_log_odds(sample, ~chosen)
            seen.update(zip((row.tobytes() for row in chosen), found.tolist(), strict=True))
            return found

        steps, candidates = affordable(n, budget - 1, self.steps, self.width)
        best = beam_search(lost, n, steps, self.width, candidates)
        alone = np.array([seen[row.tobytes()] for row in np.eye(n, dtype=np.bool_)])
        deleted = np.zeros(n, np.bool_)
        losses = [0.0]
        for position in best.order:
            deleted[position] = True
            losses.append(seen[deleted.tobytes()])
        return Explanation(
            {"attribution": ordered_scores(alone, best.order, np.diff(losses))},
            "attribution",
            classifier.target,
            diagnostics={"steps": steps, "candidates": candidates, "area": best.total / steps},
        )
