"""slalom-anchor: SLALOM with an always-present anchor and position shifts, exact at every single deletion.

The model. With an anchor (w_0, v_0) for what is always there (special tokens, the read-out) and a_i = w_i / W,

    F(S) = (w_0 v_0 + sum_S w_i v_i) / (w_0 + sum_S w_i)   so   F(full) - F(full minus R) = sum_R e_i / (1 - sum_R a_i)

with e_i = a_i (v_i - F). Without an anchor sum_i e_i = 0: deleting anything cannot move F in one direction. With it
the e_i are free, and additive deletion effects are the limit a -> 0. What is left on real models is not curvature but
movement: closing the gap reads every later token at an earlier position. So token j moved by m positions gains b_j(m),
and the anchor b_0(k) when k tokens are removed (see `slalom_bench.numerics.shifts`).

The design. The full input and all n single deletions, then k ~ Uniform{2..largest} random deletions. The singles
are reproduced exactly whatever else is fitted: a per-position correction takes up what SLALOM and the shifts leave.
With a budget below 2 (n + 1) the singles are left out, k starts at 1, and the correction is fitted too.

The fit. Values, importances and anchor to the true squared error (variable projection), alternating with b (and the
correction) by ridge regression, its variances chosen by marginal likelihood. The prior on v has the variance of the
single effects, that on s is 1, both in units of the fit's own noise: on a SLALOM with an anchor they vanish, and it is
recovered exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.types import Bools, Explanation, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.slalom import slalom_explanation, surrogate_of_fit
from slalom_bench.numerics import masks
from slalom_bench.numerics.features import Features, tied_features
from slalom_bench.registry import explainer
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.numerics.designs import Design
    from slalom_bench.numerics.fits import SlalomFit
    from slalom_bench.surrogates.shifted_slalom import ShiftedSlalom


@explainer("slalom-anchor", version=4, needs={"queries"}, stochastic=True, family="slalom")
class SlalomAnchor:
    """SLALOM with an anchor token and position shifts, fitted to single and multiple deletions; made for fidelity.

    F(S) = (w_0 v_0 + sum_S w_i v_i) / (w_0 + sum_S w_i) plus the position shifts of
    `slalom_bench.surrogates.shifted_slalom`. The scores are those of the SLALOM part: a token's own effect without the
    shift of those behind it. The surrogate predicts with the shifts. Needs queries, a budget of at least 1; from
    2 (n + 1) on, every single deletion is queried and reproduced exactly.

    Args:
        tie: `token` (positions of one token id share v and s) or `position`.
        largest: the most positions deleted at once.
        law: a registered mask law to be fitted to in the place of its own, so that methods can be compared at one law.
            Single deletions are then not asked for by themselves, nor reproduced exactly.

    Reference:
        This package's own; SLALOM is Leemann et al. 2025, equation 4.
    """

    def __init__(self, tie: str = "token", largest: int = 10, law: str = "") -> None:
        self.tie = tie
        self.largest = largest
        self.law = law

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The full input, the single deletions where they fit, random deletions for the rest; and the fits."""
        if self.largest < 1:
            raise InvalidInput(f"largest {self.largest}: at least one position must be deleted")
        require_budget("slalom-anchor", budget, 1, "the full input is one")
        features = tied_features(sample, self.tie)
        if self.law:
            keep, _ = fitting_masks(self.law, registry.laws.build(self.law), sample, budget, rng)
            singles, largest, law = False, int((~keep).sum(axis=1).max()), self.law
        else:
            keep, singles, largest, law = self._own_masks(len(sample), budget, classifier.empty_allowed, rng)
        outputs = classifier.masked_log_odds(sample, keep)
        largest_shift = largest if classifier.removal.closes_gaps else 0
        surrogate, fit = _fit_shifted(features, keep, outputs, largest_shift, singles=singles)
        report = {**fit.diagnostics(), "features": len(features), "anchor": list(fit.anchor or ()), "singles": singles}
        report["law"] = law
        plain = SlalomSurrogate(surrogate.value, surrogate.importance, surrogate.anchor)
        return replace(slalom_explanation(plain, classifier, report), surrogate=surrogate)

    def _own_masks(
        self, n: int, budget: int, empty_allowed: bool, rng: np.random.Generator
    ) -> tuple[Bools, bool, int, str]:
        """Its masks (m x n), whether all single deletions are among them, the most removals, and all that in words."""
        largest = min(self.largest, n if empty_allowed else n - 1)
        singles = largest >= 1 and budget >= 2 * (n + 1)
        rows = [np.ones((1, n), np.bool_)] + [~np.eye(n, dtype=np.bool_)] * singles
        least = min(2 if singles else 1, largest)
        counts = rng.integers(least, largest + 1, size=budget - sum(map(len, rows)))
        law = f"{'all single and ' if singles else ''}{least} to {largest} random deletions"
        return np.vstack([*rows, masks.delete_counts(n, counts, rng)]), singles, largest, law


def _fit_anchored(design: Design, keep: Bools, outputs: Floats, effect: float, tol: float) -> SlalomFit:
    """Anchored SLALOM with prior variances `effect` for the deletion effects e_i and 1 for the importances.

    a_i is about 1 / (n + 1), so that v_i - F = e_i / a_i has the prior variance (n + 1)^2 effect.
    """
    from slalom_bench.numerics.fits import fit_slalom

    n = keep.shape[1]
    weights = 1 / np.maximum(n - keep.sum(axis=1) - 1.0, 1.0)
    return fit_slalom(
        design,
        outputs,
        weights=weights * len(weights) / weights.sum(),
        anchor=True,
        prior_value=(n + 1) ** 2 * effect,
        prior_importance=1.0,
        tol=tol,
    )


def _fit_shifted(
    features: Features, keep: Bools, outputs: Floats, largest: int, *, singles: bool
) -> tuple[ShiftedSlalom, SlalomFit]:
    """SLALOM and shifts in turn (two rounds; more change nothing), then what makes the full input and singles exact.

    Rows of `keep`: the full input, with `singles` the n single deletions, the rest. `largest` 0: nothing moves.
    """
    from slalom_bench.numerics.shifts import ShiftTable
    from slalom_bench.surrogates.shifted_slalom import ShiftedSlalom

    n, design = keep.shape[1], features.design(keep)
    one, rest = slice(1, n + 1), slice(n + 1 if singles else 1, None)
    shift = ShiftedSlalom(np.zeros(n), np.zeros(n), (0.0, 0.0), np.zeros(n), np.zeros((n + 1, largest + 1)), 0.0)
    has_table = keep[rest].size and (largest or not singles)
    problem = ShiftTable(~keep[rest], largest, singles=singles) if has_table else None

    def fit_values(effects: Floats, tol: float) -> SlalomFit:
        """Refit SLALOM to what the shifts leave."""
        unshifted = outputs - shift.predict(keep)
        effects = unshifted[one] - unshifted[0] if singles else effects
        return _fit_anchored(design, keep, unshifted, float(np.mean(effects**2)), tol)

    def fit_table(residual: Floats) -> Floats:
        """Refit the table to what SLALOM leaves; the deletion effects that go with it."""
        if problem is None:
            return np.zeros(n)
        change = residual - residual[0]
        additive = ~keep @ change[one] if singles else 0.0
        effects, shift.table = problem.fit((change - additive)[rest])
        return effects

    fit = fit_values(np.zeros(n), 1e-4) if singles else None
    effects = fit_table(outputs if fit is None else outputs - surrogate_of_fit(fit, features).predict(keep))
    fit = fit_values(effects, 1e-9)
    plain = surrogate_of_fit(fit, features)
    residual = outputs - plain.predict(keep)
    effects = fit_table(residual)
    residual = residual - shift.predict(keep)
    correction = residual[0] - residual[one] if singles else effects
    anchor = fit.anchor or (0.0, 0.0)
    return ShiftedSlalom(plain.value, plain.importance, anchor, correction, shift.table, float(residual[0])), fit
