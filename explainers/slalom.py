"""SLALOM (Leemann et al.): a value and an importance for each token, F(S) = sum_S w_i v_i / sum_S w_i, w = exp(s).

Positions of one token id share their parameters (`tie="token"`, as published) or have their own (`tie="position"`).
Importances are centred over the distinct tokens (or the positions) that are fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics import masks
from slalom_bench.numerics.shapley import shapley_values
from slalom_bench.registry import explainer
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.numerics.designs import Design
    from slalom_bench.numerics.fits import SlalomFit


BOTH_ORDERS = 7
"""Queries per feature from which on SLALOM-eff asks each sequence in both orders: fewer would leave too few rows."""


@dataclass(frozen=True)
class Features:
    """What is fitted: the id of each feature, and the feature of each position."""

    ids: Ints
    of: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def design(self, keep: Bools) -> Design:
        """How often each feature is kept, as a fit wants it."""
        from slalom_bench.numerics.designs import Design

        return Design.of_deletions(keep, self.of, len(self))


def features(sample: Sample, tie: str) -> Features:
    """Distinct token ids, or positions."""
    if tie == "token":
        ids, of = np.unique(sample.ids, return_inverse=True)
        return Features(ids, of)
    if tie == "position":
        return Features(sample.ids, np.arange(len(sample)))
    raise InvalidInput(f"tie must be token or position, not {tie!r}")


def need(budget: int, least: int, why: str) -> None:
    if budget < least:
        raise InvalidInput(f"a budget of {budget} queries; at least {least} are needed: {why}")


def slalom_scores(surrogate: SlalomSurrogate) -> dict[str, Floats]:
    """Every score of a fitted SLALOM, per position; alpha is the softmax over positions, so multiplicity counts.

    `gradient` is alpha_i (v_i - F), the derivative at the full input (equation 65 corrected). `removal` is
    F(full) - F(without i) = alpha_i (v_i - F) / (1 - alpha_i); a lone token without an anchor has none: 0.
    """
    n = len(surrogate)
    value, importance = surrogate.value, surrogate.importance
    full = surrogate.predict(np.ones((1, n), np.bool_))[0]
    others = np.append(importance, [] if surrogate.anchor is None else surrogate.anchor[1])
    weight, total = np.exp(importance - others.max()), np.exp(others - others.max()).sum()
    top = np.arange(n) == importance.argmax()  # 1 - alpha would lose digits: the others may weigh next to nothing
    removal = np.divide(weight * (value - full), total - weight, out=np.zeros(n), where=~top)
    if len(others) > 1:
        removal[top] = full - surrogate.predict(~top[None])
    return {
        "value": value,
        "importance": importance,
        "lin": np.exp(importance) * value,
        "gradient": weight / total * (value - full),
        "removal": removal,
        "shapley": shapley_values(surrogate),
    }


def explanation(surrogate: SlalomSurrogate, classifier: Classifier, diagnostics: Mapping[str, Any]) -> Explanation:
    """A fitted SLALOM as an explanation of the handle's target."""
    unsigned = frozenset({"importance"})
    return Explanation(slalom_scores(surrogate), "lin", classifier.target, unsigned, surrogate, diagnostics)


def spread(fit: SlalomFit, parts: Features) -> SlalomSurrogate:
    """The fit's parameters at each position."""
    return SlalomSurrogate(fit.value[parts.of], fit.importance[parts.of], fit.anchor)


@dataclass(frozen=True)
class ShortSequences:
    """SLALOM-eff's samples: `orders` times as many sequences as the design has rows, an order after the other."""

    sequences: Ints
    design: Design
    weights: Floats
    """How many of the sequences that were to be drawn each row stands for."""
    orders: int

    def means(self, answers: Floats) -> tuple[Floats, float]:
        """The mean answer for each row of the design, and the mean square (outputs summed) by which orders differ."""
        each = answers.reshape(self.orders, self.design.length, -1)
        within = float(np.average(each.var(axis=0).sum(axis=1), weights=self.weights))
        return each.mean(axis=0).reshape(self.design.length, *answers.shape[1:]), within


def short_sequences(parts: Features, count: int, length: int, rng: np.random.Generator) -> ShortSequences:
    """Sequences of `length` features drawn uniformly with replacement, at most `count`.

    Each place in the sequence is dealt from decks of its own, so that all features come about equally often. What comes
    again, in whatever order, would be answered as before: another draw takes its place. SLALOM is blind to order and
    transformers are not: where there are queries enough (BOTH_ORDERS), each sequence is asked forwards and backwards,
    and what the order does drops out of the mean.
    """
    from slalom_bench.numerics.designs import Design

    if length < 1:
        raise InvalidInput(f"length {length}: a sequence needs at least one token")
    orders = 2 if length > 1 and count >= BOTH_ORDERS * len(parts) else 1
    rows = count // orders
    drawn = np.hstack([masks.dealt(len(parts), 2 * rows, 1, rng) for _ in range(length)])
    drawn, shares = distinct(drawn, rows, len(parts))
    asked = np.vstack([drawn, drawn[:, ::-1]]) if orders == 2 else drawn
    design = Design.of_sequences(drawn, len(parts))
    return ShortSequences(parts.ids[asked], design, rows * shares, orders)


def distinct(drawn: Ints, rows: int, features: int) -> tuple[Ints, Floats]:
    """The first draws (at most `rows`) that hold other features than any before, and the share of the law of each.

    A multiset of probability p that was found among N draws stands for p / (1 - (1 - p)^N) of the law (Horvitz and
    Thompson): all count alike where few were found, and as often as they would come where all were.
    """
    length = drawn.shape[1]
    if length * np.log2(features) > 62:  # codes would overflow, and few come twice
        return drawn[:rows], np.full(rows, 1 / rows)
    ordered = np.sort(drawn, axis=1)
    _, first = np.unique(ordered @ features ** np.arange(length), return_index=True)
    first = np.sort(first)[:rows]
    draws = first[-1] + 1 if len(first) == rows else len(drawn)
    ordered, run, orderings = ordered[first], np.ones(len(first)), np.ones(len(first))
    for place in range(1, length):
        run = np.where(ordered[:, place] == ordered[:, place - 1], run + 1, 1.0)
        orderings *= (place + 1) / run
    p = orderings / float(features) ** length
    shares = p / -np.expm1(draws * np.log1p(-np.minimum(p, 1 - 1e-12)))
    return drawn[first], shares / shares.sum()


@explainer("slalom-eff", version=4, needs={"queries"}, stochastic=True, family="slalom")
class SlalomEff:
    """SLALOM fitted to `budget` short random sequences of the sample's tokens (algorithm 1, n = 2).

    From BOTH_ORDERS queries per feature on, half as many sequences in both orders. None is drawn twice: an odd query,
    and what a small text has no other sequences for, is left unasked.
    """

    def __init__(self, tie: str = "token", length: int = 2) -> None:
        self.tie = tie
        self.length = length

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        from slalom_bench.numerics.fits import fit_slalom

        need(budget, 1, "each is one random sequence")
        parts = features(sample, self.tie)
        asked = short_sequences(parts, budget, self.length, rng)
        targets, within = asked.means(classifier.log_odds(asked.sequences))
        fit = fit_slalom(asked.design, targets, weights=asked.weights)
        report = {**fit.diagnostics(), "mse": fit.mse + within, "features": len(parts)}
        return explanation(spread(fit, parts), classifier, report)


@explainer("slalom-fidel", version=4, needs={"queries"}, stochastic=True, family="slalom")
class SlalomFidel:
    """SLALOM fitted to `budget` deletions of 0 to 5 random positions (algorithm 2), true prediction error minimised."""

    def __init__(self, tie: str = "token") -> None:
        self.tie = tie

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        from slalom_bench.numerics.fits import fit_slalom

        need(budget, 1, "each is one random deletion")
        keep, weights = masks.small_deletions(len(sample), budget, rng)
        parts = features(sample, self.tie)
        outputs = classifier.masked_log_odds(sample, keep)
        prior = deletion_prior(keep, outputs - np.average(outputs, weights=weights))
        fit = fit_slalom(parts.design(keep), outputs, weights=weights, prior_value=prior, prior_importance=1.0)
        return explanation(spread(fit, parts), classifier, {**fit.diagnostics(), "features": len(parts)})


def deletion_prior(keep: Bools, centred: Floats) -> float:
    """The variance of v that deletions suggest: n^2 times that of additive effects, found by marginal likelihood.

    A token has a share of about 1/n, so that deleting it changes F by (F - v) / n.
    """
    from slalom_bench.numerics.shifts import PILOT, choose_ridge

    removed = (~keep[:PILOT]).astype(np.float64)
    return keep.shape[1] ** 2 * choose_ridge(removed @ removed.T, centred[:PILOT])[1]


@explainer("slalom-exact", version=2, needs={"queries"}, stochastic=False, family="slalom")
class SlalomExact:
    """SLALOM read off 2U-1 queries of one and two tokens (proposition 5.2, equations 55, 56 and 58 corrected).

    The tokens of largest and smallest value are the references; every other token is paired with the one whose value
    is further from its own. Where g leaves (0, 1) no importance exists: the token is listed in the diagnostics
    (`outside`, positions `outside_positions`) and its difference to the reference is set to the smallest (g <= 0) or
    largest (g >= 1) difference that could be measured, or 0 if none could or the two values are equal.
    """

    def __init__(self, tie: str = "token") -> None:
        self.tie = tie

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        parts = features(sample, self.tie)
        u = len(parts)
        need(budget, 2 * u - 1, f"2U-1 for the {u} features of this sample")
        value = classifier.log_odds(parts.ids[:, None])
        high, low = int(value.argmax()), int(value.argmin())
        if high == low:  # all values equal: any two tokens
            high, low = 0, u - 1
        reference = np.where(np.abs(value - value[high]) >= np.abs(value - value[low]), high, low)
        reference[[high, low]] = high
        compared = np.delete(np.arange(u), high)
        pairs = np.stack([parts.ids[compared], parts.ids[reference[compared]]], axis=1)
        together = classifier.log_odds(pairs) if u > 1 else np.empty(0)
        difference, outside = np.zeros(u), np.zeros(u, np.bool_)
        difference[compared], outside[compared] = differences(together, value[compared], value[reference[compared]])
        importance = difference + difference[low] * (reference == low)
        importance[[high, low]] = difference[[high, low]]
        importance -= importance.mean()
        surrogate = SlalomSurrogate(value[parts.of], importance[parts.of])
        where = np.flatnonzero(outside[parts.of])
        report = {"features": u, "outside": int(outside.sum()), "outside_positions": where.tolist()}
        return explanation(surrogate, classifier, report)


def differences(together: Floats, own: Floats, reference: Floats) -> tuple[Floats, Bools]:
    """d = s(tau) - s(ref) = log(g / (1 - g)) of equation 55 (sign corrected), and where g leaves (0, 1)."""
    gap = own - reference
    g = np.divide(together - reference, gap, out=np.full(len(gap), np.nan), where=gap != 0)
    inside = (g > 0) & (g < 1)
    d = np.zeros(len(gap))
    d[inside] = np.log(g[inside] / (1 - g[inside]))
    if inside.any():
        d[g <= 0] = d[inside].min()
        d[g >= 1] = d[inside].max()
    return d, ~inside
