"""Insertion and deletion: what happens to the prediction when the top-ranked tokens alone stay, or go (AOPC)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Explanation, Ints, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)
PAPER_STEP, PAPER_LIMIT = 5, 512


class Curve:
    """Probability of a class along a ranking of the tokens, the top ones kept or deleted.

    bench (ERASER): the predicted class, mean over fractions of p(x) - p(what is kept).
    paper: the true class, 1 - mean of p(what is kept) at 5, 10, 15, ... tokens.
    """

    deletes: bool

    def __init__(self, fractions: Sequence[float] = FRACTIONS) -> None:
        """`fractions` of the content tokens, each rounded up to whole tokens."""
        self.fractions = tuple(fractions)

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        paper = context.protocol == "paper"
        counts = paper_counts(len(sample)) if paper else self.counts(len(sample), classifier.empty_allowed)
        if reason := undefined.too_few_points(len(sample), len(counts)):
            return undefined.everywhere(explanation.scores, reason)
        full = None if paper else classifier.probabilities([sample.ids])[0]
        towards = sample.label if full is None else int(full.argmax())
        if reason := undefined.not_rankable(towards, explanation.target, len(classifier.class_names)):
            return undefined.everywhere(explanation.scores, reason)
        results: dict[str, float | str | None] = {
            name: undefined.constant_scores(values) for name, values in explanation.scores.items()
        }
        ranked = [name for name, why in results.items() if why is None]
        masks = []
        for name in ranked:
            # the paper turns unsigned scores round with the label too: part of what it published
            turn = towards != explanation.target and (paper or name not in explanation.unsigned)
            places = undefined.descending_ranks(-explanation.scores[name] if turn else explanation.scores[name])
            masks.append(self.keep(places, counts, paper))
        if not ranked:
            return undefined.as_score(results)
        p = classifier.probabilities(classifier.mask(sample, np.concatenate(masks)))[:, towards]
        start = 1.0 if full is None else float(full[towards])
        results |= dict(zip(ranked, start - p.reshape(len(ranked), -1).mean(axis=1), strict=True))
        return undefined.as_score(results)

    def keep(self, places: Ints, counts: Ints, paper: bool) -> Bools:
        """Keep-masks (counts x n). Where tokens are deleted, the paper's counts say how many stay."""
        if not self.deletes:
            return places < counts[:, None]
        return places >= (len(places) - counts if paper else counts)[:, None]

    def counts(self, n: int, empty_allowed: bool) -> Ints:
        """How many top tokens each fraction means: one at least, and not all where nothing may not be asked."""
        if not self.fractions or min(self.fractions) <= 0 or max(self.fractions) > 1:
            raise InvalidInput(f"fractions must lie in (0, 1]: {self.fractions}")
        # 0.07 * 100 is a little over 7 in floating point, and means 7
        counts = np.ceil(np.asarray(self.fractions) * n - 1e-9).astype(np.int64)
        return np.clip(counts, 1, n if empty_allowed else max(1, n - 1))


@metric("insertion", version=1, order=20, needs={"queries"}, direction="lower", unit="probability", headline="@primary")
class Insertion(Curve):
    """Probability lost when only the top-ranked tokens are kept (sufficiency): lower is better."""

    deletes = False


@metric("deletion", version=1, order=30, needs={"queries"}, direction="higher", unit="probability", headline="@primary")
class Deletion(Curve):
    """Probability lost when the top-ranked tokens are deleted (comprehensiveness): higher is better."""

    deletes = True


def paper_counts(n: int) -> Ints:
    """5, 10, 15, ... up to the length of the text."""
    return np.arange(PAPER_STEP, min(n, PAPER_LIMIT - 1) + 1, PAPER_STEP)
