"""Fidelity: how well an explanation predicts the model's log-odds when parts of the text are removed, law by law.

`strict-fidelity` is the paper's measure (Fig. 6). The `fidelity-LAW` metrics are a profile: each tests the surrogate on
masks of another law (`slalom_bench.laws`), and none on masks that the explainer has itself asked the model for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom_bench import registry
from slalom_bench.core import undefined
from slalom_bench.core.halves import half_names
from slalom_bench.core.parameters import Count
from slalom_bench.core.sequences import short_keys
from slalom_bench.core.types import Bools, Explanation, Floats, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.interfaces import MaskLaw

_MASKS = {"bench": 20, "paper": 100}
"""Masks of each k of the paper's law."""
_WHOLE = ("mean", "normalised", "missing", "moving")
"""Values of strict fidelity over all k."""
_LEAST_LEFT = 2
"""Masks, at least, that an explainer must not have asked for, beside half of them."""


@metric(
    "strict-fidelity",
    version=4,
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
    """Mean squared error of the predicted change of log-odds under k = 1..10 random deletions; the paper's law.

    The masks are the same for every explainer, those of one index nested over k. Kept for comparison with the paper:
    masks that an explainer has itself asked for count too, so that k1 is a training error for whoever asks for all
    single deletions (`fidelity-few` leaves them out). Values: `k1`..`k10`, their `mean`, also on either half of the
    masks, and `normalised`: the mean over the mean square of the observed change (1 = no better than predicting no
    change). The mean is the sum of `missing`, the error against the same deletions under the rule `gap` (nothing
    moves), and of `moving`, what it is more or less because the other tokens move up; `moving` is 0 under a rule that
    closes no gaps. Needs queries and surrogate. Undefined without a surrogate; a text too short for one k has k1, k2,
    ... alone; normalised also where no deletion changes the output, and the two parts where the model has no positions
    to keep.

    Formula:
        mean over masks S of ((g(S) - g(full)) - (F(S) - F(full)))^2, g: the surrogate

    Choose it:
        To compare with Fig. 6 of the paper. For everything else the `fidelity-*` metrics: relative, and on masks that
        nobody asked for.

    Example:
        The log-odds change by -2 and 2 under two masks, the surrogate says -1 and 2: (1 + 0) / 2 = 0.5 squared
        log-odds.

    Args:
        masks: per k; unless given 20, in the paper protocol 100.
        largest: the last k.

    Reference:
        Leemann et al. 2025, section 6.3 and Fig. 6.
    """

    def __init__(self, masks: Count | None = None, largest: Count = 10) -> None:
        self.masks = masks
        self.largest = largest

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All masks in one call, the same for every explainer of a sample."""
        count = _MASKS[context.protocol] if self.masks is None else self.masks
        if self.largest < 1 or count < 1:
            raise InvalidInput(f"strict-fidelity: masks={count}, largest={self.largest}; both must be at least 1")
        results: dict[str, float | str | None]
        results = {f"k{k}": undefined.too_short(len(sample), k) for k in range(1, self.largest + 1)}
        if explanation.surrogate is None:
            return undefined.everywhere([*results, *_WHOLE], undefined.NO_SURROGATE)
        possible = [name for name, reason in results.items() if reason is None]
        if not possible:
            return undefined.everywhere([*results, *_WHOLE], undefined.TOO_SHORT)
        law = registry.laws.get("paper").build({"largest": len(possible)})
        keep = _shared_masks("strict-fidelity", law, sample, len(possible) * count, context)
        found = changes(classifier, sample, explanation, keep)
        errors = ((found.predicted - found.observed) ** 2).reshape(len(possible), count)
        results |= dict(zip(possible, errors.mean(axis=1), strict=True))
        if len(possible) < self.largest:
            return undefined.as_score(results | dict.fromkeys(_WHOLE, undefined.TOO_SHORT))
        results |= {"mean": float(errors.mean()), "normalised": found.normalised()}
        results |= _movement(classifier, sample, explanation, keep, found)
        if count > 1:
            halves = (errors[:, ::2].mean(), errors[:, 1::2].mean())
            results |= dict(zip(half_names("mean"), map(float, halves), strict=True))
        return undefined.as_score(results)


class Fidelity:
    """Error of the predicted change of log-odds under one mask law, on masks that the explainer has not asked for.

    `normalised` is 0 where all is predicted and 1 where it is no better than predicting no change; it is given on
    either half of the masks too. `excluded` is the share of the masks that were left out because the explainer itself
    had asked the model for what they leave of the text. The masks are the same for every explainer. Undefined without a
    surrogate; where the law has no masks for the text; where fewer than half of the masks, or fewer than two of
    several, are left; normalised also where no mask changes the output. Of an explanation whose queries were not
    recorded (one from a file) no mask is excluded, and `excluded` is undefined: its error may be that of masks it was
    fitted to.

    Formula:
        raw = mean over masks S of ((g(full) - g(S)) - (F(full) - F(S)))^2, g: the surrogate
        normalised = raw / mean over masks of (F(full) - F(S))^2

    Example:
        The model's log-odds change by -2 and 2 under two masks, the surrogate says -1 and 2: raw (1 + 0) / 2 = 0.5, the
        mean square of the change is 4, normalised 0.5 / 4 = 0.125.

    Args:
        masks: how many; a law that has fewer for a text gives all that it has.

    Reference:
        Leemann et al. 2025, section 6.3 (strict fidelity); relative to no change, by law and on unasked masks: this
        project's own.
    """

    law: str

    def __init__(self, masks: Count = 100) -> None:
        self.masks = masks

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All masks in one call, the same for every explainer of a sample; then what does not count is left out."""
        if self.masks < 1:
            raise InvalidInput(f"fidelity-{self.law}: masks={self.masks}; at least 1 is needed")
        law: MaskLaw = registry.laws.build(self.law)
        names = ("normalised", "raw", "excluded")
        reason = undefined.no_surrogate(explanation) or law.undefined(sample)
        if reason:
            return undefined.everywhere(names, reason)
        view = classifier.targeting(explanation.target)
        effects = reference_effects(view, sample, context) if law.ranked else None
        keep = _shared_masks(f"fidelity-{self.law}", law, sample, self.masks, context, effects)
        found = changes(view, sample, explanation, keep)
        left = unasked(view, sample, explanation, keep)
        share = undefined.NOT_RECORDED if explanation.asked is None else 1 - float(left.mean())
        results: dict[str, float | str] = {"excluded": share}
        if left.sum() < max(min(_LEAST_LEFT, len(keep)), len(keep) / 2):
            return undefined.as_score({"normalised": undefined.ASKED, "raw": undefined.ASKED, **results})
        results |= {"raw": found.only(left).raw(), "normalised": found.only(left).normalised()}
        odd = np.arange(len(keep)) % 2 == 1
        halves = [found.only(left & half).normalised() for half in (~odd, odd)]
        # a law that gives all the masks it has was not drawn from
        if len(keep) == self.masks and not any(isinstance(half, str) for half in halves):
            results |= dict(zip(half_names("normalised"), halves, strict=True))
        return undefined.as_score(results)


_PROFILE: dict[str, Any] = {
    "version": 3,
    "needs": {"queries", "surrogate"},
    "direction": "lower",
    "unit": "share of the mean square change",
    "headline": "normalised",
    "scale": "log",
    "relevant": 0.05,
}


@metric("fidelity-few", order=4, **_PROFILE)
class FidelityFew(Fidelity):
    """Error of the predicted change when 2 to 10 random tokens are removed; 1 = predicting no change.

    Choose it:
        First among the fidelities: it asks about small edits, where attributions are usually read.
    """

    law = "few"


@metric("fidelity-many", order=5, **_PROFILE)
class FidelityMany(Fidelity):
    """Error of the predicted change when 10 to 50 % of the tokens are removed; 1 = predicting no change.

    Choose it:
        Where explanations are read as "without all this": masks far from the text, where extrapolation shows.
    """

    law = "many"


@metric("fidelity-spans", order=6, **_PROFILE)
class FidelitySpans(Fidelity):
    """Error of the predicted change when a run of neighbouring tokens is removed; 1 = predicting no change.

    Choose it:
        Where passages are edited or cut: neighbouring tokens interact.
    """

    law = "spans"


@metric("fidelity-sentences", order=7, **_PROFILE)
class FidelitySentences(Fidelity):
    """Error of the predicted change when one sentence is removed; 1 = predicting no change.

    Choose it:
        Where sentences are what is moved or dropped, as in summaries and reviews.
    """

    law = "sentences"


@metric("fidelity-top", order=8, **_PROFILE)
class FidelityTop(Fidelity):
    """Error of the predicted change when several of the most influential tokens go; 1 = predicting no change.

    Choose it:
        To test a method where most is at stake, on the tokens that matter most to the model.
    """

    law = "top"


class Changes(NamedTuple):
    """F(S) - F(full) of m masks."""

    observed: Floats
    predicted: Floats
    rounding: float
    """What an observed one may be by rounding alone."""

    def only(self, chosen: Bools) -> Changes:
        """Those of the chosen masks (m)."""
        return Changes(self.observed[chosen], self.predicted[chosen], self.rounding)

    def raw(self) -> float:
        """The mean squared error."""
        return float(np.mean((self.predicted - self.observed) ** 2))

    def normalised(self) -> float | str:
        """The error over the mean square of the observed change, or why there is none."""
        return undefined.no_change(self.observed, self.rounding) or self.raw() / float(np.mean(self.observed**2))


def changes(classifier: Classifier, sample: Sample, explanation: Explanation, keep: Bools) -> Changes:
    """The changes of keep-masks (m x n) as the model says and as the surrogate predicts."""
    if explanation.surrogate is None:
        raise InvalidInput("an explanation without a surrogate predicts nothing")
    whole = np.vstack([np.ones((1, len(sample)), np.bool_), keep])
    # all in one call: every explainer asks for the same set, which the handle computes once
    answers = classifier.targeting(explanation.target).masked_log_odds(sample, whole)
    predictions = explanation.surrogate.predict(whole)
    return Changes(answers[1:] - answers[0], predictions[1:] - predictions[0], classifier.rounding(answers[0]))


def _movement(
    classifier: Classifier, sample: Sample, explanation: Explanation, keep: Bools, found: Changes
) -> dict[str, float | str]:
    """The two parts of the error of changes: against what missing tokens do, and what moving the others adds."""
    if not classifier.removal.closes_gaps:
        return {"missing": found.raw(), "moving": 0.0}
    if "positions" not in classifier.capabilities:
        return dict.fromkeys(("missing", "moving"), undefined.NO_POSITIONS)
    still = changes(classifier.under(registry.removals.build("gap")), sample, explanation, keep)
    return {"missing": still.raw(), "moving": found.raw() - still.raw()}


def unasked(classifier: Classifier, sample: Sample, explanation: Explanation, keep: Bools) -> Bools:
    """Which keep-masks (m x n) leave a sequence that the explainer has not itself asked the model for (m)."""
    if explanation.asked is None:
        return np.ones(len(keep), np.bool_)
    # by sorting: hashes span all of 64 bits, for which numpy 2.0's other way overflows
    return ~np.isin(short_keys(classifier.mask(sample, keep)), explanation.asked, kind="sort")


def reference_effects(classifier: Classifier, sample: Sample, context: Context) -> Floats:
    """|F(full) - F(without i)| of each token (n): the model's own ranking, asked for once a sample for all methods."""

    def ask() -> Floats:
        """The full text and every text without one token."""
        n = len(sample)
        answers = classifier.masked_log_odds(sample, np.vstack([np.ones((1, n), np.bool_), ~np.eye(n, dtype=bool)]))
        return np.abs(answers[0] - answers[1:])

    rule = classifier.removal
    told = (type(rule).__qualname__, repr(sorted(vars(rule).items())), classifier.identity(), classifier.target)
    return context.once(("reference-effects", *told, *_told(sample)), ask, asking=classifier)


def _told(sample: Sample) -> tuple[str, bytes]:
    """What tells one sample from all others, another model's tokens of the same text included."""
    return sample.id, sample.ids.tobytes()


def _shared_masks(
    name: str, law: MaskLaw, sample: Sample, count: int, context: Context, effects: Floats | None = None
) -> Bools:
    """A sample's masks (m x n) for the metric of that name: drawn once for all explainers, kept as bits."""

    def draw() -> NDArray[np.uint8]:
        """Masks of the law, packed."""
        return np.packbits(law.draw(sample, count, context.rng(name, sample.id), effects), axis=1)

    ranking = b"" if effects is None else effects.tobytes()
    told = (repr(sorted(vars(law).items())), count, context.seed, ranking)
    bits = context.once((name, *told, *_told(sample)), draw)
    return np.unpackbits(bits, axis=1, count=len(sample)).view(np.bool_)
