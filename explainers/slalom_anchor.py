"""slalom-anchor: SLALOM with an always-present anchor, and what it leaves over: deletion effects and position shifts.

The model. With an anchor (w_0, v_0) for what is always there (special tokens, the read-out) and a_i = w_i / W,

    F(S) = (w_0 v_0 + sum_S w_i v_i) / (w_0 + sum_S w_i)   so   F(full) - F(full minus R) = sum_R e_i / (1 - sum_R a_i)

with e_i = a_i (v_i - F). What it leaves on real models is mostly movement: under `delete` gaps close, and every later
token is read at an earlier position. To first order token j read at q changes F by g_j . (P_q - P_j), g_j = dF/dx_j and
P the position embeddings. A SLALOM has dF/dx_j = a_j dv/dx + a_j (v_j - F) ds/dx: two directions for all tokens. Real
models have few more, so that u_j . (p_q - p_j) with r carriers u_j a token and r places p_q a position is enough, where
a table of all (j, q) would have n^2 / 2 entries. The carriers are the leading left singular vectors of the gradients,
one backward pass, where the model gives gradients; else SLALOM's own two, a_j and a_j (v_j - F). The places are fitted.

The design. The full text, the empty one where it is legal, and the law `mixed`: from single deletions to half the text,
a third of them spans. No mask is special, and none is reproduced exactly.

The fit. SLALOM to the true squared error, values and anchor with a prior as wide as the outputs vary, so that they stay
near what the model says. Deletion effects and places by ridge regression, over 1 - c |R| / n as SLALOM would have it
(`slalom_bench.numerics.shifts`), to what SLALOM leaves over and to all that changes: the surrogate is the one with the
smaller errors of rows left out one by one, on real models mostly the latter. Variances and c are those of largest
marginal likelihood, and all is shrunk towards no change as far as rows left out ask for it. On a SLALOM with an anchor
nothing is left over, and it is recovered exactly. Errors of rows left out give the predictions a standard deviation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.types import Bools, Explanation, Floats, Sample
from slalom_bench.explainers.slalom import slalom_explanation, slalom_scores, surrogate_of_fit
from slalom_bench.numerics.features import Features, tied_features
from slalom_bench.registry import explainer
from slalom_bench.surrogates.shifted_slalom import ShiftedSlalom
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.numerics.designs import Design
    from slalom_bench.numerics.fits import SlalomFit

_CARRIERS = 5
"""Directions of the gradients that are kept."""
_LEAST_BUDGET = 20
"""Queries from which on one of them is spent on gradients."""


@explainer("slalom-anchor", version=6, needs={"queries"}, stochastic=True, family="slalom")
class SlalomAnchor:
    """SLALOM with an anchor token, deletion effects and position shifts, fitted to removals of every size.

    `value` and `importance` are SLALOM's; where it foretells worse than a level, the surrogate has the level instead
    (`mean` in the diagnostics). `removal`, the primary score, is what the surrogate says that removing a token alone
    takes away, without what moving the others does. Needs queries, a budget of at least 1. Where the model gives
    gradients and tokens move, one query of 20 or more is a backward pass. `shapley` is there where nothing moves.

    Formula:
        F(S) = (w_0 v_0 + sum_S w_i v_i) / (w_0 + sum_S w_i), w = exp(s)
        plus what `slalom_bench.surrogates.shifted_slalom` adds

    Choose it:
        For a surrogate that holds from single deletions to half the text, with a budget of some hundred queries or
        more; gradients help it and are not needed.

    Example:
        Values 2 and -1, weights 1 and 2, anchor of value 0 and weight 1: F(full) = (2 - 2 + 0) / 4 = 0, without the
        second 2 / 2 = 1, without the first -2 / 3 = -0.67, without both 0. Removal scores 0.67 and -1.

    Args:
        tie: `token` (positions of one token id share v and s) or `position`.
        law: a registered mask law to be fitted to in the place of its own, so that methods can be compared at one law:
            its masks alone, without gradients and the empty text.

    Reference:
        This package's own; SLALOM is Leemann et al. 2025, equation 4.
    """

    def __init__(self, tie: str = "token", law: str = "") -> None:
        self.tie = tie
        self.law = law

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The masks of the law, perhaps a backward pass and the empty text, and the fits."""
        require_budget("slalom-anchor", budget, 1, "the full input is one")
        features, moves = tied_features(sample, self.tie), classifier.removal.closes_gaps
        own = not self.law
        if own and len(sample) == 1:
            keep = np.ones((1, 1), np.bool_)
        else:
            law = self.law or "mixed"
            keep, _ = fitting_masks(law, registry.laws.build(law), sample, budget, rng)
        enough = own and budget >= _LEAST_BUDGET and len(sample) > 1
        use = enough and moves and "gradients" in classifier.capabilities
        keep = keep[: budget - use]
        if enough and classifier.empty_allowed:
            keep[-1] = False
        carriers = gradient_carriers(classifier, sample) if use else None
        outputs = classifier.masked_log_odds(sample, keep)
        surrogate, slalom, fit = _fit(features, keep, outputs, carriers, moves)
        report = {
            **fit.diagnostics(),
            "features": len(features),
            "anchor": list(fit.anchor or ()),
            "law": self.law or "mixed and the empty text",
        }
        report |= {"mse": float(np.mean((surrogate.predict(keep) - outputs) ** 2)), "gradients": use}
        report |= {"curvature": surrogate.curvature, "spread": list(surrogate.spread)}
        report |= {"mean": "slalom" if np.ptp(surrogate.value) else "level"}
        scores = slalom_scores(slalom)
        chosen = SlalomSurrogate(surrogate.value, surrogate.importance, surrogate.anchor)
        of_mean = slalom_scores(chosen)
        scores["removal"] = of_mean["removal"] + surrogate.effects
        scores["shapley"] = of_mean["shapley"] + shapley_of_effects(surrogate.effects, surrogate.curvature)
        if moves:
            del scores["shapley"]
        explained = slalom_explanation(slalom, classifier, report)
        return replace(explained, scores=scores, primary="removal", surrogate=surrogate)


def gradient_carriers(classifier: Classifier, sample: Sample) -> Floats:
    """The leading left singular vectors of dF/d(word embedding), times their values (n+1 x r): one query.

    The last row is that of the first token behind the text, 0 where there is none.
    """
    words = classifier.embed(sample)
    _, gradients = classifier.gradients(words[None])
    start = len(classifier.tokens.prefix)
    rows = gradients[0, start : start + len(sample) + 1].double().cpu().numpy()
    rows = np.vstack([rows, np.zeros((len(sample) + 1 - len(rows), rows.shape[1]))])
    left, size, _ = np.linalg.svd(rows, full_matrices=False)
    return left[:, :_CARRIERS] * size[:_CARRIERS]


def slalom_carriers(surrogate: SlalomSurrogate) -> Floats:
    """A SLALOM's own: the share a_j and a_j (v_j - F) of each token, and last the anchor (n+1 x 2)."""
    value, anchor = surrogate.value, surrogate.anchor or (0.0, -np.inf)
    every, values = np.append(surrogate.importance, anchor[1]), np.append(value, anchor[0])
    share = np.exp(every - every.max())
    share /= share.sum()
    both = np.stack([share, share * (values - share @ values)], axis=1)
    return both / np.maximum(np.linalg.norm(both, axis=0), 1e-300)


def shapley_of_effects(effects: Floats, curvature: float) -> Floats:
    """Shapley values (n) of the game -sum over removed i of effect_i / (1 - c |R| / n).

    Token i comes when r tokens are missing, itself among them, r uniform in 1..n: it brings its own effect at r
    back, and for the others, each missing with probability (r - 1) / (n - 1), the scale falls from r to r - 1.

    >>> shapley_of_effects(np.array([1.0, 3.0]), 0.0).tolist()
    [1.0, 3.0]
    """
    n = len(effects)
    scale = 1 / (1 - curvature * np.arange(n + 1) / n)
    others = np.mean(np.arange(n) / max(n - 1, 1) * np.diff(scale))
    return effects * scale[1:].mean() + (effects.sum() - effects) * others


def _five_digits(numbers: Floats) -> Floats:
    """Rounded to five significant digits: a third of the space in JSON, and far finer than the fit."""
    size = 10.0 ** (4 - np.floor(np.log10(np.maximum(np.abs(numbers), 1e-12))))
    return np.round(numbers * size) / size


def _fit_slalom(design: Design, outputs: Floats, removals: Floats) -> SlalomFit:
    """Anchored SLALOM, a row's noise as its number of removals; values vary a priori as the outputs do."""
    from slalom_bench.numerics.fits import fit_slalom

    weights = 1 / np.maximum(removals, 1.0)
    return fit_slalom(
        design,
        outputs,
        weights=weights * len(weights) / weights.sum(),
        anchor=True,
        prior_value=float(np.var(outputs)),
        prior_importance=1.0,
        tol=1e-6,
    )


def _fit(
    features: Features, keep: Bools, outputs: Floats, carriers: Floats | None, moves: bool
) -> tuple[ShiftedSlalom, SlalomSurrogate, SlalomFit]:
    """The surrogate, on SLALOM or on the full text's output, whichever leaves less; the SLALOM; and how it was fitted.

    Errors of rows left out compare the two. SLALOM was fitted to these rows too, hence its factor: that of generalised
    cross-validation, two parameters a token.
    """
    from slalom_bench.numerics.shifts import fit_correction

    n, design = keep.shape[1], features.design(keep)
    removals = n - keep.sum(axis=1).astype(np.float64)
    fit = _fit_slalom(design, outputs, removals)
    slalom = surrogate_of_fit(fit, features)
    full = float(outputs[0])
    level = SlalomSurrogate(np.full(n, full), np.zeros(n), (full, 0.0))
    used = np.zeros((n + 1, 0)) if not moves else slalom_carriers(slalom) if carriers is None else carriers
    free = max(1 - 2 * design.tokens / len(keep), 0.0)
    candidates = [(1.0, level), (free**-2, slalom)] if free else [(1.0, level)]
    best = np.inf
    for factor, mean in candidates:
        said = mean.predict(keep)
        residual = (outputs - full - said + said[0])[1:]
        tried = fit_correction(~keep[1:], residual, used)
        cost = factor * float(np.sum(tried.errors**2 / removals[1:]))
        if cost < best:
            best, found, chosen = cost, tried, mean
    share = _shrinkage((outputs - full)[1:], found.errors, removals[1:])
    value, anchor = chosen.value, chosen.anchor or (full, 0.0)
    start = float(chosen.predict(keep[:1])[0])
    surrogate = ShiftedSlalom(
        full + share * (value - start),
        chosen.importance,
        (full + share * (anchor[0] - start), anchor[1]),
        share * found.effects,
        _five_digits(used),
        _five_digits(share * found.places),
        found.curvature,
        0.0,
        found.spread,
    )
    return surrogate, slalom, fit


def _shrinkage(change: Floats, errors: Floats, removals: Floats) -> float:
    """The factor in [0, 1] by which changes, predicted for rows left out, fit best: 0 where no change is as good."""
    said = change - errors
    square = float(np.sum(said**2 / removals))
    return float(np.clip(np.sum(said * change / removals) / square, 0, 1)) if square else 1.0
