"""slalom-anchor: SLALOM with an always-present anchor, inside a Gaussian process over removals.

SLALOM. With an anchor (w_0, v_0) for what is always there (special tokens, the read-out)

    F(S) = (w_0 v_0 + sum_S w_i v_i) / (w_0 + sum_S w_i),

so that first-order effects need not sum to zero. `value` and `importance` are its v and s = log w; values and anchor
have a prior as wide as the outputs vary, and stay near what the model says.

The process. What a transformer does when tokens go is a sum of few things: each token's own effect, which one backward
pass foretells in part; what moving the others does, where gaps close; a bend, for effects grow or fade the more is
gone; what SLALOM says; and interactions among the tokens that matter. Each is a kernel on removals
(`slalom_bench.surrogates.mask_process`), and how much there is of each is a variance: those of largest marginal
likelihood. The surrogate is the posterior mean. What the data do not speak of stays no change, and the posterior
deviation says how far off a prediction may be.

The design. The full text, the empty one where it is legal and queries are many, and the law `mixed`: from single
deletions to half the text, a third of them spans. Where the model gives gradients, one query is a backward pass.

To first order token j, read at q, changes F by g_j . (P_q - P_j), g_j the gradient at the token and P the position
embeddings. Gradients of one text lie in few directions: a few carriers u_j a token are enough. Where there are no
gradients, the effects carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.explainers.slalom import slalom_scores, surrogate_of_fit
from slalom_bench.numerics.features import tied_features
from slalom_bench.registry import explainer

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.numerics.designs import Design
    from slalom_bench.numerics.fits import SlalomFit

_CARRIERS = 5
"""Directions of the gradients that are kept."""
_LEAST_BUDGET = 20
"""Queries from which on one of them is spent on gradients."""
_EMPTY_FROM = 2
"""Queries a token from which on one of them is spent on the empty text: among few rows it would rule the others."""
_PERMUTATIONS = 16
"""Orders, each with its reverse, that Shapley values of a longer text are averaged over."""


@explainer("slalom-anchor", version=7, needs={"queries"}, stochastic=True, family="slalom")
class SlalomAnchor:
    """SLALOM with an anchor token inside a Gaussian process over removals, fitted to removals of every size.

    `value` and `importance` are SLALOM's. The surrogate adds each token's own effect, what moving the others does, a
    bend and interactions, as much of each as the marginal likelihood says (`parts` in the diagnostics), and gives each
    prediction a standard deviation. `removal`, the primary score, is what it says that a token brings, without what
    moving the others does. Where nothing moves, `shapley` are its Shapley values, which sum to what it says of the full
    text less the empty one. Needs queries, a budget of at least 1; of 20 or more one is a backward pass where the model
    gives gradients.

    Formula:
        SLALOM: F(S) = (w_0 v_0 + sum_S w_i v_i) / (w_0 + sum_S w_i), w = exp(s)
        surrogate: F(S) = F(full) + sum over stored masks j of a_j k(S, j), k as in `surrogates.mask_process`

    Choose it:
        To foretell what any removal does, from single tokens to half the text; gradients help it where queries are
        few, and are not needed.

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
        from slalom_bench.numerics.processes import fit_process
        from slalom_bench.numerics.shapley import shapley_values

        require_budget("slalom-anchor", budget, 1, "the full input is one")
        n, features, moves = len(sample), tied_features(sample, self.tie), classifier.removal.closes_gaps
        law = self.law or "mixed"
        keep = np.ones((1, n), np.bool_)
        if self.law or n > 1:
            keep, _ = fitting_masks(law, registry.laws.build(law), sample, budget, rng)
        enough = not self.law and budget >= _LEAST_BUDGET and n > 1
        use = enough and "gradients" in classifier.capabilities
        keep = keep[: budget - use]
        if enough and classifier.empty_allowed and budget >= _EMPTY_FROM * n:
            keep[-1] = False
        hints, directions = gradient_hints(classifier, sample) if use else (np.zeros((n, 0)), None)
        outputs = classifier.masked_log_odds(sample, keep)
        fit = fit_anchored(features.design(keep), outputs, n - keep.sum(axis=1))
        slalom = surrogate_of_fit(fit, features)
        process = fit_process(
            ~keep[1:],
            outputs[1:],
            float(outputs[0]),
            hints,
            directions if moves else np.zeros((n + 1, 0)),
            slalom if len(keep) > len(features) else None,
        )
        scores = slalom_scores(slalom) | {
            "removal": process.full - process.without("shift").predict(~np.eye(n, dtype=bool))
        }
        del scores["shapley"]
        if not moves:
            scores["shapley"] = shapley_values(process, rng, _PERMUTATIONS)
        report = {
            **fit.diagnostics(),
            "features": len(features),
            "anchor": list(fit.anchor or ()),
            "law": self.law or "mixed and the empty text",
            "mse": float(np.mean((process.predict(keep) - outputs) ** 2)),
            "gradients": use,
            "parts": process.shares(~keep[1:201]),
        }
        return Explanation(scores, "removal", classifier.target, frozenset({"importance"}), process, report)


def gradient_hints(classifier: Classifier, sample: Sample) -> tuple[Floats, Floats]:
    """One backward pass: columns that effects may be in proportion to (n x 1+r), and carriers (n+1 x r).

    The columns are gradient x input and the leading left singular vectors of dF/d(word embedding), times their values.
    These carry as well; the last row is that of the first token behind the text, 0 where there is none.
    """
    words = classifier.embed(sample)
    _, gradients = classifier.gradients(words[None])
    start, n = len(classifier.tokens.prefix), len(sample)
    rows = gradients[0, start : start + n + 1].double().cpu().numpy()
    product = np.sum(rows[:n] * words[start : start + n].detach().double().cpu().numpy(), axis=1)
    rows = np.vstack([rows, np.zeros((n + 1 - len(rows), rows.shape[1]))])
    left, size, _ = np.linalg.svd(rows, full_matrices=False)
    directions = _scaled(left[:, :_CARRIERS] * size[:_CARRIERS])
    return np.hstack([_scaled(product[:, None]), directions[:n]]), directions


def _scaled(columns: Floats) -> Floats:
    """Of norm 1, to five digits: a third of the space in JSON, and far finer than the fit."""
    return np.round(columns / max(float(np.linalg.norm(columns)), 1e-300), 6)


def fit_anchored(design: Design, outputs: Floats, removals: Floats) -> SlalomFit:
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
