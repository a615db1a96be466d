"""Strict fidelity: how well an explanation predicts the model's log-odds after random deletions (Fig. 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Explanation, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_MASKS = {"bench": 20, "paper": 100}


@metric(
    "strict-fidelity",
    version=1,
    order=10,
    needs={"queries", "surrogate"},
    direction="lower",
    unit="squared log-odds",
    headline="mean",
    curve="number of deletions",
    scale="log",
    relevant=0.05,
)
class StrictFidelity:
    """Mean squared error of the predicted change of log-odds under k = 1..10 random deletions.

    Mean over masks S of ((g(S) - g(full)) - (F(S) - F(full)))^2, g the surrogate; the same masks for every explainer.
    Values: `k1`..`k10`, their `mean`, and `normalised`: the mean divided by the mean square of the observed change
    (1 = no better than predicting no change). In the paper protocol the masks of one index are nested over k. Needs
    queries and surrogate. Undefined without a surrogate; a text too short for one k has neither mean nor normalised;
    normalised also where no deletion changes the output.

    Args:
        masks: per k; unless given 20, in the paper protocol 100.
        largest: the last k.

    Reference:
        Leemann et al. 2025, section 6.3 and Fig. 6.
    """

    def __init__(self, masks: int | None = None, largest: int = 10) -> None:
        self.masks = masks
        self.largest = largest

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All masks in one call, the same for every explainer of a sample."""
        count = _MASKS[context.protocol] if self.masks is None else self.masks
        if self.largest < 1 or count < 1:
            raise InvalidInput(f"strict-fidelity: masks={count}, largest={self.largest}; both must be at least 1")
        results: dict[str, float | str | None]
        results = {f"k{k}": undefined.too_short(len(sample), k) for k in range(1, self.largest + 1)}
        surrogate = explanation.surrogate
        if surrogate is None:
            return undefined.everywhere([*results, "mean", "normalised"], undefined.NO_SURROGATE)
        possible = [name for name, reason in results.items() if reason is None]
        if not possible:
            return undefined.everywhere([*results, "mean", "normalised"], undefined.TOO_SHORT)
        keep = _shared_masks(context, sample, len(possible), count)
        # the whole grid in one call: every explainer asks for the same set, which the handle computes once
        answers = classifier.targeting(explanation.target).masked_log_odds(sample, keep)
        predictions = surrogate.predict(keep)
        observed = answers[1:] - answers[0]
        errors = ((predictions[1:] - predictions[0] - observed) ** 2).reshape(len(possible), count)
        results |= dict(zip(possible, errors.mean(axis=1), strict=True))
        whole = len(possible) == self.largest
        results["mean"] = float(errors.mean()) if whole else undefined.TOO_SHORT
        results["normalised"] = results["mean"]
        if whole:
            results["normalised"] = undefined.no_change(observed) or float(errors.mean() / np.mean(observed**2))
        return undefined.as_score(results)


def _shared_masks(context: Context, sample: Sample, largest: int, count: int) -> Bools:
    """The full input and a sample's masks: drawn once for all explainers, kept as bits."""
    n = len(sample)

    def draw() -> NDArray[np.uint8]:
        """The masks of the protocol, packed."""
        masks = nested_masks if context.protocol == "paper" else independent_masks
        return np.packbits(masks(n, largest, count, context.rng("strict-fidelity", sample.id)), axis=1)

    bits = context.once(("strict-fidelity", context.protocol, context.seed, sample.id, n, largest, count), draw)
    return np.vstack([np.ones((1, n), np.bool_), np.unpackbits(bits, axis=1, count=n).view(np.bool_)])


def independent_masks(n: int, largest: int, count: int, rng: np.random.Generator) -> Bools:
    """`count` keep-masks for each k = 1..largest in turn, all drawn independently.

    >>> (~independent_masks(9, 2, 3, np.random.default_rng(0))).sum(axis=1).tolist()
    [1, 1, 1, 2, 2, 2]
    """
    return delete_counts(n, np.repeat(np.arange(1, largest + 1), count), rng)


def nested_masks(n: int, largest: int, count: int, rng: np.random.Generator) -> Bools:
    """The paper's masks: the i-th mask of every k deletes the first k entries of the i-th permutation."""
    ranks = rng.random((count, n)).argsort(axis=1).argsort(axis=1)
    return np.concatenate([ranks >= k for k in range(1, largest + 1)])
