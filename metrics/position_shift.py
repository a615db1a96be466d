"""Position shift: how much of what a deletion does is that the other tokens move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import registry
from slalom_bench.core import undefined
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Explanation, Floats, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

NAMES = ("shift", "missing", "joint", "change")


@metric(
    "position-shift",
    version=2,
    order=85,
    needs={"queries"},
    direction="lower",
    unit="share of the mean square change",
    headline="shift",
    level="model",
    bounds=(0, None),
)
class PositionShift:
    """Share of the change of log-odds under random deletions that comes from the others moving, not from what is gone.

    Deleting tokens (rule `delete`) does two things: they are missing, and those behind them move to earlier positions.
    Under the rule `gap` they are missing alone. Over random deletions S of k = 2..10 tokens, D(S) = F_delete(S) -
    F(full) is the sum of what moving does, F_delete(S) - F_gap(S), and of what missing does, F_gap(S) - F(full).
    Values, divided by the mean of D^2: `shift` and `missing`, the mean squares of the two; `joint`, twice the mean of
    their product, so that the three sum to 1 (it is negative where moving undoes what missing does, and then `shift`
    and `missing` may each exceed 1); and undivided `change`, the mean of D^2 in squared log-odds. A property of the
    model, not of the explanation: every explainer has the same scores, whatever the run's removal rule. Needs queries.
    Undefined where the model has no absolute positions, for texts of fewer than `largest` + 1 tokens, and where no
    deletion changes the output beyond rounding (but for `change`).

    Formula:
        shift = mean of (F_delete(S) - F_gap(S))^2 / mean of (F_delete(S) - F(full))^2 over random deletions S

    Choose it:
        Before `delete` results of a model are trusted: the larger the share, the more they are about positions.

    Example:
        One deletion changes F by -2, of which moving makes -1.5 and missing -0.5: shift 2.25 / 4 = 0.56, missing 0.25 /
        4 = 0.06, joint 2 x 0.75 / 4 = 0.38; they sum to 1.

    Args:
        masks: for each k.
        smallest: the first k.
        largest: the last k.

    Reference:
        This project's own; the rules are `delete` and `gap`.
    """

    def __init__(self, masks: Count = 20, smallest: Count = 2, largest: Count = 10) -> None:
        self.masks = masks
        self.smallest = smallest
        self.largest = largest

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """The same deletions under both rules, and the full text."""
        if self.masks < 1 or not 1 <= self.smallest <= self.largest:
            raise InvalidInput(
                f"position-shift: masks={self.masks}, smallest={self.smallest}, largest={self.largest}; at least 1 "
                "mask, and 1 <= smallest <= largest"
            )
        if "positions" not in classifier.capabilities:
            return undefined.everywhere(NAMES, undefined.NO_POSITIONS)
        n = len(sample)
        if reason := undefined.too_short(n, self.largest):
            return undefined.everywhere(NAMES, reason)
        counts = np.repeat(np.arange(self.smallest, self.largest + 1), self.masks)
        keep = delete_counts(n, counts, context.rng("position-shift", sample.id))
        keep = np.vstack([np.ones((1, n), np.bool_), keep])
        view = classifier.targeting(explanation.target)
        full, *delete = view.under(registry.removals.build("delete")).masked_log_odds(sample, keep)
        gap = view.under(registry.removals.build("gap")).masked_log_odds(sample, keep)[1:]
        return _decomposed(np.array(delete) - gap, gap - full, classifier.rounding(full))


def _decomposed(moving: Floats, missing: Floats, rounding: float) -> Score:
    """The shares of two parts of a change in its mean square."""
    change = moving + missing
    square = float(np.mean(change**2))
    if reason := undefined.no_change(change, rounding):
        return undefined.as_score({**dict.fromkeys(NAMES, reason), "change": square})
    return Score(
        {
            "shift": float(np.mean(moving**2)) / square,
            "missing": float(np.mean(missing**2)) / square,
            "joint": float(2 * np.mean(moving * missing)) / square,
            "change": square,
        }
    )
