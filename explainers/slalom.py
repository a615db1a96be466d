"""SLALOM (Leemann et al.): a value and an importance for each token, F(S) = sum_S w_i v_i / sum_S w_i, w = exp(s).

Positions of one token id share their parameters (`tie="token"`, as published) or have their own (`tie="position"`).
Importances are centred over the distinct tokens (or the positions) that are fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.parameters import Length
from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics import masks
from slalom_bench.numerics.features import Features, tied_features
from slalom_bench.numerics.shapley import shapley_values
from slalom_bench.registry import explainer
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.numerics.designs import Design
    from slalom_bench.numerics.fits import SlalomFit

_BOTH_ORDERS = 7
"""Queries per feature from which on SLALOM-eff asks each sequence in both orders: fewer would leave too few rows."""


def slalom_scores(surrogate: SlalomSurrogate) -> dict[str, Floats]:
    """Every score of a fitted SLALOM, per position; alpha is the softmax over positions, so multiplicity counts.

    Args:
        surrogate: the fitted SLALOM.

    Returns:
        `value` v_i and `importance` s_i; `lin` exp(s_i) v_i (section 5.4, as published); `gradient`
        alpha_i (v_i - F), the derivative at the full input (equation 64, from which 65 does not follow); `removal`
        F(full) - F(without i) = alpha_i (v_i - F) / (1 - alpha_i), 0 for a lone token without an anchor; `shapley`, the
        Shapley values of the surrogate.

    >>> slalom_scores(SlalomSurrogate([2.0, 0.0], [0.0, 0.0]))["gradient"].tolist()
    [0.5, -0.5]
    """
    n = len(surrogate)
    value, importance = surrogate.value, surrogate.importance
    full = surrogate.predict(np.ones((1, n), np.bool_))[0]
    every = np.append(importance, [] if surrogate.anchor is None else surrogate.anchor[1])
    weight, total = np.exp(importance - every.max()), np.exp(every - every.max()).sum()
    top = np.arange(n) == importance.argmax()  # 1 - alpha would lose digits: the others may weigh next to nothing
    removal = np.divide(weight * (value - full), total - weight, out=np.zeros(n), where=~top)
    if len(every) > 1:
        removal[top] = full - surrogate.predict(~top[None])
    return {
        "value": value,
        "importance": importance,
        "lin": np.exp(importance) * value,
        "gradient": weight / total * (value - full),
        "removal": removal,
        "shapley": shapley_values(surrogate),
    }


def slalom_explanation(
    surrogate: SlalomSurrogate, classifier: Classifier, diagnostics: Mapping[str, Any]
) -> Explanation:
    """A fitted SLALOM as an explanation of the handle's target."""
    unsigned = frozenset({"importance"})
    return Explanation(slalom_scores(surrogate), "lin", classifier.target, unsigned, surrogate, diagnostics)


def surrogate_of_fit(fit: SlalomFit, features: Features) -> SlalomSurrogate:
    """The surrogate over positions whose features have the fit's parameters."""
    return SlalomSurrogate(fit.value[features.of_position], fit.importance[features.of_position], fit.anchor)


@dataclass(frozen=True)
class ShortSequences:
    """SLALOM-eff's samples: `orders` times as many sequences as the design has rows, an order after the other.

    Args:
        sequences: token ids (orders m x length).
        design: the token counts of the m rows.
        weights: how many of the sequences that were to be drawn each row stands for (m).
        orders: 1, or 2 where each row is queried forwards and backwards.
    """

    sequences: Ints
    design: Design
    weights: Floats
    orders: int

    def means(self, outputs: Floats) -> tuple[Floats, float]:
        """The mean output for each row of the design, and the mean variance (outputs summed) within a row's orders."""
        each = outputs.reshape(self.orders, self.design.length, -1)
        within = float(np.average(each.var(axis=0).sum(axis=1), weights=self.weights))
        return each.mean(axis=0).reshape(self.design.length, *outputs.shape[1:]), within


def short_sequences(features: Features, count: int, length: int, rng: np.random.Generator) -> ShortSequences:
    """Sequences of `length` features drawn uniformly with replacement, at most `count`.

    Each element of the sequences is drawn balanced (`masks.balanced_subsets`), so that all features come about equally
    often. A multiset that was drawn before, in whatever order, would get the same answer: another draw replaces it.
    SLALOM is invariant to order and transformers are not: where there are queries enough (`_BOTH_ORDERS`), each
    sequence is queried forwards and backwards, and the effect of the order cancels in the mean.

    Args:
        features: what is drawn from.
        count: the most queries.
        length: of a sequence, at least 1.
        rng: the generator.
    """
    from slalom_bench.numerics.designs import Design

    if length < 1:
        raise InvalidInput(f"length {length}: a sequence needs at least one token")
    orders = 2 if length > 1 and count >= _BOTH_ORDERS * len(features) else 1
    rows = count // orders
    drawn = np.hstack([masks.balanced_subsets(len(features), 2 * rows, 1, rng) for _ in range(length)])
    drawn, shares = _distinct_multisets(drawn, rows, len(features))
    queries = np.vstack([drawn, drawn[:, ::-1]]) if orders == 2 else drawn
    design = Design.of_sequences(drawn, len(features))
    return ShortSequences(features.ids[queries], design, rows * shares, orders)


def _distinct_multisets(drawn: Ints, rows: int, features: int) -> tuple[Ints, Floats]:
    """The first draws (at most `rows`) whose multisets differ from all before, and their Horvitz-Thompson weights.

    A multiset of probability p that was seen among N draws stands for p / (1 - (1 - p)^N) of the distribution: all
    count alike where few were seen, and as often as they would come where all were.
    """
    length = drawn.shape[1]
    if length * np.log2(features) > 62:  # codes would overflow, and few come twice
        return drawn[:rows], np.full(rows, 1 / rows)
    ordered = np.sort(drawn, axis=1)
    _, first = np.unique(ordered @ features ** np.arange(length), return_index=True)
    first = np.sort(first)[:rows]
    draws = first[-1] + 1 if len(first) == rows else len(drawn)
    ordered, run, orderings = ordered[first], np.ones(len(first)), np.ones(len(first))
    for i in range(1, length):
        run = np.where(ordered[:, i] == ordered[:, i - 1], run + 1, 1.0)
        orderings *= (i + 1) / run
    p = orderings / float(features) ** length
    shares = p / -np.expm1(draws * np.log1p(-np.minimum(p, 1 - 1e-12)))
    return drawn[first], shares / shares.sum()


@explainer("slalom-eff", version=4, needs={"queries"}, stochastic=True, family="slalom")
class SlalomEff:
    """SLALOM fitted to `budget` short random sequences of the sample's tokens (algorithm 1, n = 2).

    Sequences have `length` tokens; fitted to convergence. Needs queries, a budget of at least 1. From seven queries per
    feature on, half as many sequences in both orders. None is drawn twice: an odd query, and what a small text has no
    other sequences for, is not made.

    Formula:
        min over v, s of the mean over sequences t of (F(t) - sum_i w_i v_i / sum_i w_i)^2, w = exp(s)

    Choose it:
        Where queries must be cheap (two tokens each, whatever the text's length) and the question is what tokens say by
        themselves.

    Example:
        F(good good) = 2, F(dull dull) = -1, F(good dull) = 0: v = 2 and -1, and 0 = (2 w_g - w_d) / (w_g + w_d) gives
        w_d = 2 w_g: s = -0.35 and 0.35 (log 2 apart, centred).

    Args:
        tie: `token` (as published: positions of one token id share v and s) or `position`.
        length: of the sequences.

    Reference:
        Leemann et al. 2025, equation 4, section 5.3 and Algorithm 1 (which fits by SGD).
    """

    def __init__(self, tie: str = "token", length: Length = 2) -> None:
        self.tie = tie
        self.length = length

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """As many short sequences as the budget allows, and one fit."""
        from slalom_bench.numerics.fits import fit_slalom

        require_budget("slalom-eff", budget, 1, "each is one random sequence")
        features = tied_features(sample, self.tie)
        queries = short_sequences(features, budget, self.length, rng)
        targets, order_variance = queries.means(classifier.log_odds(queries.sequences))
        fit = fit_slalom(queries.design, targets, weights=queries.weights)
        report = {**fit.diagnostics(), "mse": fit.mse + order_variance, "features": len(features)}
        report["law"] = f"random sequences of {self.length} tokens"
        return slalom_explanation(surrogate_of_fit(fit, features), classifier, report)


@explainer("slalom-fidel", version=5, needs={"queries"}, stochastic=True, family="slalom")
class SlalomFidel:
    """SLALOM fitted to `budget` deletions of 0 to 5 random positions (algorithm 2), true prediction error minimised.

    The masks are those of `slalom_bench.numerics.masks.small_deletions`; fitted to convergence. Needs queries, a budget
    of at least 1.

    Formula:
        min over v, s of the mean over masks S of (F(S) - sum_S w_i v_i / sum_S w_i)^2, w = exp(s)

    Choose it:
        For SLALOM as published. Its first-order effects sum to zero; where deleting anything moves F one way,
        `slalom-anchor` or `linear-deletion` predict better.

    Example:
        Values 2, -1, 0, weights 1, 2, 1: F(full) = (2 - 2 + 0) / 4 = 0, without the second 2 / 2 = 1, without the first
        -2 / 3 = -0.67. From such answers v and s are found again.

    Args:
        tie: `token` (as published: positions of one token id share v and s) or `position`.
        law: a registered mask law to be fitted to in the place of its own, so that methods can be compared at one law.

    Reference:
        Leemann et al. 2025, section 5.3 and Algorithm 2 (whose equation 77 minimises an algebraic residual instead).
    """

    def __init__(self, tie: str = "token", law: str = "") -> None:
        self.tie = tie
        self.law = law

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """As many deletions as the budget allows, and one fit."""
        from slalom_bench.numerics.fits import fit_slalom

        require_budget("slalom-fidel", budget, 1, "each is one random deletion")
        if self.law:
            keep, weights = fitting_masks(self.law, registry.laws.build(self.law), sample, budget, rng)
        else:
            keep, weights = masks.small_deletions(len(sample), budget, rng)
        features = tied_features(sample, self.tie)
        outputs = classifier.masked_log_odds(sample, keep)
        prior = _deletion_prior(keep, outputs - np.average(outputs, weights=weights))
        fit = fit_slalom(features.design(keep), outputs, weights=weights, prior_value=prior, prior_importance=1.0)
        report = {**fit.diagnostics(), "features": len(features), "law": self.law or "0 to 5 random deletions"}
        return slalom_explanation(surrogate_of_fit(fit, features), classifier, report)


def _deletion_prior(keep: Bools, centred: Floats) -> float:
    """A prior variance of v: n^2 times that of additive deletion effects, which maximises the marginal likelihood.

    A token has a share of about 1/n, so that deleting it changes F by (F - v) / n.
    """
    from slalom_bench.numerics.ridges import PILOT, choose_ridge

    removed = (~keep[:PILOT]).astype(np.float64)
    return keep.shape[1] ** 2 * choose_ridge(removed @ removed.T, centred[:PILOT])[1]


@explainer("slalom-exact", version=2, needs={"queries"}, stochastic=False, family="slalom")
class SlalomExact:
    """SLALOM read off 2U-1 queries of one and two tokens (proposition 5.2, equations 55, 56 and 58 corrected).

    The tokens of largest and smallest value are the references; every other token is paired with the one whose value is
    further from its own. Where g leaves (0, 1) no importance exists: the token is listed in the diagnostics (`outside`,
    positions `outside_positions`) and its difference to the reference is set to the smallest (g <= 0) or largest (g >=
    1) difference that could be measured, or 0 if none could or the two values are equal.

    Needs queries, a budget of at least 2U-1 for U features.

    Formula:
        v(t) = F([t])
        g = (F([t, ref]) - F([ref])) / (F([t]) - F([ref]));  s(t) - s(ref) = log(g / (1 - g))

    Choose it:
        Where the model is a SLALOM or nearly so, and to see where it is not: the tokens listed as `outside` have no
        importance.

    Example:
        F(good) = 2, F(dull) = -1, F(good dull) = 0: g = (0 + 1) / (2 + 1) = 1/3, so s(good) - s(dull) = log(1/2) =
        -0.69; centred -0.35 and 0.35.

    Args:
        tie: `token` (as published) or `position`.

    Reference:
        Leemann et al. 2025, proposition 5.2 and appendix B.6. Equation 55 has the sign reversed, 56 a minus for a plus,
        58 lacks gamma and has the sign reversed.
    """

    def __init__(self, tie: str = "token") -> None:
        self.tie = tie

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """Every feature alone and with a reference; the parameters in closed form."""
        features = tied_features(sample, self.tie)
        u = len(features)
        require_budget("slalom-exact", budget, 2 * u - 1, f"2U-1 for the {u} features of this sample")
        value = classifier.log_odds(features.ids[:, None])
        high, low = int(value.argmax()), int(value.argmin())
        if high == low:  # all values equal: any two tokens
            high, low = 0, u - 1
        reference = np.where(np.abs(value - value[high]) >= np.abs(value - value[low]), high, low)
        reference[[high, low]] = high
        compared = np.delete(np.arange(u), high)
        pairs = np.stack([features.ids[compared], features.ids[reference[compared]]], axis=1)
        pair_outputs = classifier.log_odds(pairs) if u > 1 else np.empty(0)
        difference, outside = np.zeros(u), np.zeros(u, np.bool_)
        difference[compared], outside[compared] = importance_differences(
            pair_outputs, value[compared], value[reference[compared]]
        )
        importance = difference + difference[low] * (reference == low)
        importance[[high, low]] = difference[[high, low]]
        importance -= importance.mean()
        surrogate = SlalomSurrogate(value[features.of_position], importance[features.of_position])
        where = np.flatnonzero(outside[features.of_position])
        report = {"features": u, "outside": int(outside.sum()), "outside_positions": where.tolist()}
        report["law"] = "single tokens and pairs"
        return slalom_explanation(surrogate, classifier, report)


def importance_differences(pair: Floats, own: Floats, reference: Floats) -> tuple[Floats, Bools]:
    """d = s(tau) - s(ref) = log(g / (1 - g)) of equation 55 (sign corrected), and where g leaves (0, 1).

    Args:
        pair: F([tau, ref]) of each token.
        own: F([tau]).
        reference: F([ref]).
    """
    gap = own - reference
    g = np.divide(pair - reference, gap, out=np.full(len(gap), np.nan), where=gap != 0)
    inside = (g > 0) & (g < 1)
    d = np.zeros(len(gap))
    d[inside] = np.log(g[inside] / (1 - g[inside]))
    if inside.any():
        d[g <= 0] = d[inside].min()
        d[g >= 1] = d[inside].max()
    return d, ~inside
