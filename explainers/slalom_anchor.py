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

The fit. SLALOM to the true squared error; to what it leaves, deletion effects and places by ridge regression, over
1 - c |R| / n as SLALOM would have it (`slalom_bench.numerics.shifts`); once more each. Variances and c are those of
largest marginal likelihood, so that what the data do not say is no change. On a SLALOM with an anchor nothing is left
over, and it is recovered exactly. Errors of rows left out one by one give the predictions a standard deviation.
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


@explainer("slalom-anchor", version=5, needs={"queries"}, stochastic=True, family="slalom")
class SlalomAnchor:
    """SLALOM with an anchor token, deletion effects and position shifts, fitted to removals of every size.

    F(S) = (w_0 v_0 + sum_S w_i v_i) / (w_0 + sum_S w_i) plus what `slalom_bench.surrogates.shifted_slalom` adds.
    `value` and `importance` are SLALOM's. `removal`, the primary score, is what the surrogate says that removing a
    token alone takes away, without what moving the others does. Needs queries, a budget of at least 1. Where the model
    gives gradients and tokens move, one query of 20 or more is a backward pass. `shapley` is there where nothing moves.
    Where the empty text is not legal nothing says what the anchor is alone, and its value may be far out of range.

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
        surrogate, fit = _fit(features, keep, outputs, carriers, moves)
        report = {
            **fit.diagnostics(),
            "features": len(features),
            "anchor": list(fit.anchor or ()),
            "law": self.law or "mixed and the empty text",
        }
        report |= {"mse": float(np.mean((surrogate.predict(keep) - outputs) ** 2)), "gradients": use}
        report |= {"curvature": surrogate.curvature, "spread": list(surrogate.spread)}
        plain = SlalomSurrogate(surrogate.value, surrogate.importance, surrogate.anchor)
        scores = slalom_scores(plain)
        scores["removal"] = scores["removal"] + surrogate.effects
        if moves:
            del scores["shapley"]
        explained = slalom_explanation(plain, classifier, report)
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


def _five_digits(numbers: Floats) -> Floats:
    """Rounded to five significant digits: a third of the space in JSON, and far finer than the fit."""
    size = 10.0 ** (4 - np.floor(np.log10(np.maximum(np.abs(numbers), 1e-12))))
    return np.round(numbers * size) / size


def _fit_anchored(design: Design, outputs: Floats, removals: Floats, tol: float) -> SlalomFit:
    """Anchored SLALOM, a row's noise as its number of removals; values vary a priori by the outputs' range."""
    from slalom_bench.numerics.fits import fit_slalom

    weights = 1 / np.maximum(removals, 1.0)
    return fit_slalom(
        design,
        outputs,
        weights=weights * len(weights) / weights.sum(),
        anchor=True,
        prior_value=float(np.ptp(outputs)) ** 2,
        prior_importance=1.0,
        tol=tol,
    )


def _fit(
    features: Features, keep: Bools, outputs: Floats, carriers: Floats | None, moves: bool
) -> tuple[ShiftedSlalom, SlalomFit]:
    """SLALOM and what it leaves over, then SLALOM without the shifts and what it leaves over; the full text exact."""
    from slalom_bench.numerics.shifts import fit_correction

    n, design = keep.shape[1], features.design(keep)
    removals, none = n - keep.sum(axis=1).astype(np.float64), np.zeros((n + 1, 0))
    shifts = np.zeros(len(keep))
    for tol in (1e-4, 1e-9):
        fit = _fit_anchored(design, outputs - shifts, removals, tol)
        plain = surrogate_of_fit(fit, features)
        residual = outputs - plain.predict(keep)
        used = none if not moves else slalom_carriers(plain) if carriers is None else carriers
        found = fit_correction(~keep[1:], (residual - residual[0])[1:], used)
        anchor = fit.anchor or (0.0, 0.0)
        surrogate = ShiftedSlalom(
            plain.value,
            plain.importance,
            anchor,
            found.effects,
            _five_digits(used),
            _five_digits(found.places),
            found.curvature,
            float(residual[0]),
            found.spread,
        )
        shifts = surrogate.shifts(keep)
    return surrogate, fit
