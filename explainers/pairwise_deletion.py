"""Second-order deletion effects: least squares on deletion indicators and on the pairs that the data ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Explanation, Floats, Ints, Sample
from slalom_bench.numerics import additive, masks
from slalom_bench.registry import explainer
from slalom_bench.surrogates.interactions import InteractionSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier

_RIDGES = (0.03, 0.3, 3.0, 30.0)
"""Ridges of the pairs' coefficients that are tried on held-out rows, beside no pairs at all."""
_HELD_OUT = 0.2
_ROWS_PER_PAIR = 4
"""At most one screened pair for so many rows."""


def screened_pairs(removed: Floats, residual: Floats, most: int) -> Ints:
    """Neighbours, and the `most` pairs whose joint removal goes with the residual most (p x 2, left before right).

    A pair's score is |sum of residuals of rows that remove both| / sqrt(number of them); pairs that no two rows remove
    are left out.

    Args:
        removed: 1 where a position is removed (m x n).
        residual: what the single effects leave of each row (m).
        most: how many pairs beside neighbours.
    """
    n = removed.shape[1]
    together = removed.T @ removed
    score = np.abs(removed.T @ (removed * residual[:, None])) / np.sqrt(np.maximum(together, 1.0))
    score[(together < 2) | ~np.triu(np.ones((n, n), np.bool_), 1)] = -1.0
    chosen = np.argsort(-score, axis=None, kind="stable")[:most]
    flat = np.concatenate([chosen[score.ravel()[chosen] > 0], np.arange(n - 1) * (n + 1) + 1])
    return np.stack(np.divmod(np.unique(flat), n), axis=1)


def fit_pairs(removed: Floats, changes: Floats, shares: Floats, ridge: float | None) -> tuple[Floats, Ints, Floats]:
    """Single effects (n), pairs (p x 2) and their coefficients (p): weighted least squares, a ridge on pairs only.

    Args:
        removed: 1 where a position is removed (m x n).
        changes: F(without them) - F(full) (m).
        shares: weights of the rows (m).
        ridge: of the pairs, in rows; None for no pairs.
    """
    n = removed.shape[1]
    single, _ = additive.least_squares(removed, changes, shares)
    if ridge is None or n < 2:
        return single, np.empty((0, 2), np.int64), np.empty(0)
    pairs = screened_pairs(removed, changes - removed @ single, len(removed) // _ROWS_PER_PAIR)
    joint = removed[:, pairs[:, 0]] * removed[:, pairs[:, 1]]
    design = np.vstack([np.hstack([removed, joint]), np.eye(len(pairs), n + len(pairs), n)])
    weights = np.append(shares * len(shares) / shares.sum(), np.full(len(pairs), ridge))
    found, _ = additive.least_squares(design, np.append(changes, np.zeros(len(pairs))), weights)
    return found[:n], pairs, found[n:]


def _held_out_ridge(removed: Floats, changes: Floats, shares: Floats) -> float | None:
    """The ridge, or None for no pairs, that predicts the last fifth of the rows best."""
    cut = len(changes) - int(_HELD_OUT * len(changes))
    if len(changes) - cut < 2:
        return None
    errors: dict[float | None, float] = {}
    for ridge in (None, *_RIDGES):
        single, pairs, coefficients = fit_pairs(removed[:cut], changes[:cut], shares[:cut], ridge)
        rest = removed[cut:]
        predicted = rest @ single + (rest[:, pairs[:, 0]] * rest[:, pairs[:, 1]]) @ coefficients
        errors[ridge] = float(shares[cut:] @ (changes[cut:] - predicted) ** 2)
    return min(errors, key=lambda ridge: errors[ridge])


@explainer("pairwise-deletion", version=1, needs={"queries"}, stochastic=True, family="additive")
class PairwiseDeletion:
    """Least squares of F on deletion indicators and selected pairs: the second-order rival of slalom-anchor.

    Fitted on the masks of `slalom-fidel`. Pairs are the neighbours and those whose joint removal goes with what single
    effects leave; their ridge, or that there are none, is chosen on held-out rows. The scores are the Shapley values of
    the surrogate, which predicts non-additively. Needs queries, a budget of at least 2.

    Formula:
        F(full minus R) = F(full) + sum over i in R of e_i + sum over selected pairs ij in R of e_ij
        scores: the Shapley values of this

    Choose it:
        To see which pairs of tokens interact.

    Example:
        F(full) = 0, without a 1, without b 1, without both -3: e_a = e_b = 1, and -3 = 0 + 1 + 1 + e_ab, so e_ab = -5:
        each makes up for the other. Shapley values: ((1 + 3) + (0 - 1)) / 2 = 1.5 each.

    Args:
        largest: the most positions deleted at once.
        law: a registered mask law to be fitted to in the place of its own, so that methods can be compared at one law.

    Reference:
        This package's own; the second-order counterpart of linear-deletion.
    """

    def __init__(self, largest: Count = 5, law: str = "") -> None:
        self.largest = largest
        self.law = law

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """As many deletions as the budget allows, the full text first, and the fits."""
        require_budget("pairwise-deletion", budget, 2, "the full text and a deletion")
        if self.law:
            keep, shares = fitting_masks(self.law, registry.laws.build(self.law), sample, budget, rng)
        else:
            keep, shares = masks.small_deletions(len(sample), budget, rng, self.largest)
        outputs = classifier.masked_log_odds(sample, keep)
        full, removed, changes = float(outputs[0]), (~keep).astype(np.float64), outputs - outputs[0]
        ridge = _held_out_ridge(removed, changes, shares)
        single, pairs, coefficients = fit_pairs(removed, changes, shares, ridge)
        surrogate = _of_deletions(full, single, pairs, coefficients)
        residuals = surrogate.predict(keep) - outputs
        return Explanation(
            {"attribution": surrogate.shapley()},
            "attribution",
            classifier.target,
            surrogate=surrogate,
            diagnostics={
                "pairs": len(pairs),
                "ridge": ridge,
                "mse": float(shares @ residuals**2 / shares.sum()),
                "law": self.law or f"0 to {self.largest} random deletions",
            },
        )


def _of_deletions(full: float, single: Floats, pairs: Ints, coefficients: Floats) -> InteractionSurrogate:
    """The polynomial in removed positions, multiplied out in kept ones: (1 - k_i)(1 - k_j)."""
    n = len(single)
    kept = -single
    np.subtract.at(kept, pairs[:, 0], coefficients)
    np.subtract.at(kept, pairs[:, 1], coefficients)
    sets: list[tuple[int, ...]] = [(), *((i,) for i in range(n)), *((int(i), int(j)) for i, j in pairs)]
    constant = full + float(single.sum() + coefficients.sum())
    return InteractionSurrogate(n, sets, np.concatenate([[constant], kept, coefficients]))
