"""What the metrics that delete along a ranking share: scores as ranks towards a class, and how many tokens to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.answering import log_odds

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier

FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class Ranking:
    """Ranks of the tokens towards a class by every score of an explanation that ranks them.

    Args:
        towards: the class.
        ranks: by score, each position's rank, 0 for the highest score towards the class; ties in the order of the text.
        reasons: why the other scores rank nothing.
    """

    towards: int
    ranks: dict[str, Ints]
    reasons: dict[str, str]

    def logits(self, classifier: Classifier, sample: Sample, keep: Callable[[Ints], Bools]) -> Floats:
        """Logits (scores x masks x classes) of the keep-masks that `keep` makes of each score's ranks, in one call."""
        masks = np.concatenate([keep(ranks) for ranks in self.ranks.values()])
        return classifier.logits(classifier.mask(sample, masks)).reshape(
            len(self.ranks), -1, len(classifier.class_names)
        )

    def log_odds(self, classifier: Classifier, sample: Sample, keep: Callable[[Ints], Bools]) -> Floats:
        """Log-odds of the class (scores x masks), asked as `logits` does."""
        logits = self.logits(classifier, sample, keep)
        return log_odds(logits.reshape(-1, logits.shape[2]), self.towards).reshape(logits.shape[:2])

    def score(self, values: Sequence[float] | Floats = ()) -> Score:
        """A value for every score that ranks, and the reasons of the others."""
        return Score(dict(zip(self.ranks, values, strict=True)), self.reasons)


def rank(explanation: Explanation, towards: int | None, classes: int, *, turn_unsigned: bool = False) -> Ranking:
    """Rank the tokens towards a class.

    Signed scores for the other one of two classes are negated. Unsigned scores say how much and not in which
    direction: they rank from the largest down, whatever the class.

    Args:
        explanation: its scores.
        towards: the class; None where the class would be a label that the text does not have.
        classes: how many the model has.
        turn_unsigned: whether unsigned scores are negated like signed ones.

    Returns:
        Ranks, or reasons why there are none.
    """
    if (reason := undefined.not_rankable(towards, explanation.target, classes)) or towards is None:
        return Ranking(-1, {}, dict.fromkeys(explanation.scores, reason or undefined.NO_LABEL))
    ranks, reasons = {}, {}
    for name, values in explanation.scores.items():
        if why := undefined.constant_scores(values):
            reasons[name] = why
            continue
        negate = towards != explanation.target and (turn_unsigned or name not in explanation.unsigned)
        ranks[name] = undefined.descending_ranks(-values if negate else values)
    return Ranking(towards, ranks, reasons)


def rank_towards_prediction(
    classifier: Classifier, sample: Sample, explanation: Explanation, points: int = 1
) -> tuple[Ranking, float]:
    """Rank the tokens towards the class that the model predicts for the whole text.

    Args:
        classifier: one query, which is the same for every explainer and metric.
        sample: the text; one of a single token has no ranking.
        explanation: its scores.
        points: how many points a curve along the ranking has.

    Returns:
        The ranking (without ranks where the metric is undefined), and the log-odds of the class for the whole text.
    """
    if reason := undefined.too_few_points(len(sample), points):
        return Ranking(-1, {}, dict.fromkeys(explanation.scores, reason)), 0.0
    full = classifier.logits([sample.ids])
    towards = int(full[0].argmax())
    return rank(explanation, towards, full.shape[1]), float(log_odds(full, towards)[0])


def fraction_counts(fractions: Sequence[float], n: int, empty_allowed: bool) -> Ints:
    """How many top tokens each fraction means: one at least, and not all where the empty input is not allowed.

    >>> fraction_counts([0.01, 0.07, 0.5, 1.0], 100, empty_allowed=False).tolist()
    [1, 7, 50, 99]
    """
    if not fractions or min(fractions) <= 0 or max(fractions) > 1:
        raise InvalidInput(f"fractions must lie in (0, 1]: {tuple(fractions)}")
    # 0.07 * 100 is a little over 7 in floating point, and means 7
    counts = np.ceil(np.asarray(fractions) * n - 1e-9).astype(np.int64)
    return np.clip(counts, 1, n if empty_allowed else max(1, n - 1))
