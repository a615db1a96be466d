"""slalom-anchor: SLALOM with an always-present anchor and position shifts, exact at every single deletion.

The model. With an anchor (w_0, v_0) for what is always there (special tokens, the read-out) and a_i = w_i / W,

    F(S) = (w_0 v_0 + sum_S w_i v_i) / (w_0 + sum_S w_i)   so   F(full) - F(full minus R) = sum_R e_i / (1 - sum_R a_i)

with e_i = a_i (v_i - F). Without an anchor sum_i e_i = 0: deleting anything cannot move F in one direction. With it
the e_i are free, and additive deletion effects are the limit a -> 0. What is left on real models is not curvature but
movement: closing the gap reads every later token at an earlier position. So token j moved by m positions gains b_j(m),
and the anchor b_0(k) when k tokens are gone (see `slalom_bench.shifts`).

The design. The full input and all n single deletions, then k ~ Uniform{2..largest} random deletions. The singles
are reproduced exactly whatever else is fitted: a per-position correction takes up what SLALOM and the shifts leave.

The fit. Values, importances and anchor to the true squared error (variable projection), alternating with b by
ridge regression. Its ridge maximises the marginal likelihood; the prior on v has the variance of the observed single
effects, that on s unit variance, both in units of the fit's own noise: on a SLALOM with anchor they vanish, and
it is recovered exactly. With a budget below 2 (n + 1), or one removable token, SLALOM-fidel's deletions are fitted with
an anchor and no shifts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import perturb
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.slalom import Features, explanation, features, need, spread
from slalom_bench.registry import explainer
from slalom_bench.types import Bools, Explanation, Floats, Sample

if TYPE_CHECKING:
    from slalom_bench.classifier import Classifier
    from slalom_bench.fits import SlalomFit
    from slalom_bench.shifts import ShiftedSlalom


@explainer("slalom-anchor", version=1, needs={"queries"}, stochastic=True, family="slalom")
class SlalomAnchor:
    """SLALOM with an anchor token and position shifts, fitted to single and multiple deletions; made for fidelity.

    `largest` is the most positions deleted at once. The primary score is `removal`: with an anchor, values are only
    known relative to F(full), and `removal` is what deleting a token does, cleaned of the shift of those behind it.
    """

    def __init__(self, tie: str = "token", largest: int = 10) -> None:
        self.tie = tie
        self.largest = largest

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        if self.largest < 1:
            raise InvalidInput(f"largest {self.largest}: at least one position must be deleted")
        need(budget, 1, "each is one deletion")
        n, parts = len(sample), features(sample, self.tie)
        largest = min(self.largest, n if classifier.empty_allowed else n - 1)
        if largest < 1 or budget < 2 * (n + 1):
            return self._small(classifier, sample, budget, rng, parts)
        counts = rng.integers(min(2, largest), largest + 1, size=budget - n - 1)
        rows = [np.ones((1, n), np.bool_), ~np.eye(n, dtype=np.bool_), perturb.delete_counts(n, counts, rng)]
        keep = np.vstack(rows)
        outputs = classifier.masked_log_odds(sample, keep)
        surrogate, fit = fit_shifted(parts, keep, outputs, largest if classifier.removal == "delete" else 0)
        report = {**fit.diagnostics(), "features": len(parts), "anchor": list(fit.anchor or ())}
        return explanation(surrogate, classifier, report, primary="removal")

    def _small(
        self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator, parts: Features
    ) -> Explanation:
        """Too few queries for every single deletion: SLALOM-fidel's samples, the prior found from them."""
        from slalom_bench.shifts import PILOT, choose_ridge

        keep = perturb.small_deletions(len(sample), budget, rng)
        outputs = classifier.masked_log_odds(sample, keep)
        removed = (~keep[:PILOT]).astype(np.float64)
        _, effect = choose_ridge(removed @ removed.T, outputs[:PILOT] - outputs.mean())
        fit = fit_anchored(parts, keep, outputs, effect)
        report = {**fit.diagnostics(), "features": len(parts), "anchor": list(fit.anchor or ())}
        return explanation(spread(fit, parts), classifier, report, primary="removal")


def fit_anchored(parts: Features, keep: Bools, outputs: Floats, effect: float, tol: float = 1e-6) -> SlalomFit:
    """Anchored SLALOM with prior variances `effect` for the deletion effects e_i and 1 for the importances.

    a_i is about 1 / (n + 1), so that v_i - F = e_i / a_i has the prior variance (n + 1)^2 effect.
    """
    from slalom_bench.fits import fit_slalom

    m, n = keep.shape
    prior = max((n + 1) ** 2 * effect, np.finfo(float).tiny)
    weights = 1 / np.maximum(n - keep.sum(axis=1) - 1.0, 1.0)
    variance = float(np.average((outputs - np.average(outputs, weights=weights)) ** 2, weights=weights))
    return fit_slalom(
        parts.counts(keep), outputs, weights=weights, anchor=True, ridge_value=variance / (m * prior),
        ridge_importance=1 / m, tol=tol,
    )


def fit_shifted(parts: Features, keep: Bools, outputs: Floats, largest: int) -> tuple[ShiftedSlalom, SlalomFit]:
    """SLALOM, shifts, SLALOM, shifts (more rounds change nothing), then the corrections that make singles exact.

    Rows of `keep`: the full input, the n single deletions, the rest. `largest` 0: nothing moves, no shifts.
    """
    from slalom_bench.shifts import ShiftedSlalom, ShiftTable

    n = keep.shape[1]
    removed = (~keep).astype(np.float64)
    one = slice(1, n + 1)

    def beyond(answers: Floats) -> Floats:
        """What the single deletions of a row do not add up to."""
        return answers - answers[0] - removed @ (answers[one] - answers[0])

    def slalom(clean: Floats, tol: float) -> SlalomFit:
        return fit_anchored(parts, keep, clean, float(np.mean((clean[one] - clean[0]) ** 2)), tol)

    table = np.zeros((n + 1, largest + 1))
    shift = ShiftedSlalom(np.zeros(n), np.zeros(n), (0.0, 0.0), np.zeros(n), table, 0.0)
    fit = slalom(outputs, 1e-3 if largest else 1e-6)
    if largest and len(keep) > n + 1:
        problem = ShiftTable(~keep[n + 1 :], largest)
        for refit in (True, False):
            shift.table = problem.fit(beyond(outputs - spread(fit, parts).predict(keep))[n + 1 :])
            fit = slalom(outputs - shift.predict(keep), 1e-6) if refit else fit
    plain = spread(fit, parts)
    left = outputs - plain.predict(keep) - shift.predict(keep)
    anchor = fit.anchor or (0.0, 0.0)
    whole = ShiftedSlalom(plain.value, plain.importance, anchor, left[0] - left[one], shift.table, float(left[0]))
    return whole, fit
