"""Permutation SHAP: Shapley values from random orders of the tokens, each with its reverse (antithetic sampling)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


@dataclass(frozen=True)
class Walks:
    """Orders in which n tokens come in one by one, and which of the steps are looked at.

    Args:
        orders: tokens, the first to come in first (p x n).
        steps: True where the effect of the token that comes in is asked for (p x n).
    """

    orders: Ints
    steps: Bools

    @classmethod
    def antithetic(cls, n: int, queries: int, rng: np.random.Generator) -> Walks:
        """As many orders, every second one the reverse of the one before, as the queries pay for (n - 1 an order).

        What is left of them pays for a stretch of one more order. It begins at any step, all alike, and goes on at the
        first step after the last: a token that it tells of has come in at each step with the same probability, so
        that no mean is biased by it.
        """
        whole, rest = divmod(queries, n - 1) if n > 1 else (1, 0)
        count = whole + (rest > 1)
        orders = rng.permuted(np.tile(np.arange(n), (-(-count // 2), 1)), axis=1)
        steps = np.ones((count, n), np.bool_)
        if rest > 1:
            steps[-1] = (np.arange(n) - rng.integers(n)) % n < rest - 1
        return cls(np.stack([orders, orders[:, ::-1]], axis=1).reshape(-1, n)[:count], steps)

    @property
    def _asked(self) -> Bools:
        """For which sizes 1..n-1 of an order's beginnings the steps need an answer (p x n-1)."""
        return self.steps[:, :-1] | self.steps[:, 1:]

    def coalitions(self) -> Bools:
        """The beginnings that must be asked for, neither empty nor full, order by order (m x n)."""
        order, size = np.nonzero(self._asked)
        return self.orders.argsort(axis=1)[order] <= size[:, None]

    def contributions(self, outputs: Floats, empty: float, full: float) -> Floats:
        """What each token changes when it comes in (p x n), nan where that was not looked at.

        Args:
            outputs: F of each of the `coalitions`.
            empty: F of no token.
            full: F of all tokens.
        """
        count, n = self.orders.shape
        path = np.full((count, n + 1), np.nan)
        path[:, 0], path[:, n] = empty, full
        path[:, 1:n][self._asked] = outputs
        changes = np.empty((count, n))
        np.put_along_axis(changes, self.orders, np.where(self.steps, np.diff(path, axis=1), np.nan), axis=1)
        return changes


@explainer("permutation-shap", version=1, needs={"queries"}, stochastic=True, family="additive")
class PermutationShap:
    """Permutation SHAP: Shapley values as means over random orders of the tokens, each order with its reverse.

    Unbiased for the Shapley values of F under the removal rule; an order and its reverse err in opposite directions.
    The empty text counts as even odds (0) where it is not legal. The values sum to F(full) - F(empty); the surrogate is
    F(S) = F(empty) + sum over i in S of phi_i.

    Needs queries, a budget of at least n + 1 (n where there is no empty text): each order takes n - 1. What is left
    over pays for a part of another order, chosen so that every mean stays unbiased. The diagnostic `standard_error` (n)
    is that of the mean over pairs, from two pairs on.

    Formula:
        phi_i = mean over orders of F(tokens up to i) - F(tokens before i)

    Choose it:
        Where unbiased Shapley values with an error bar matter more than the fewest queries; `kernel-shap` is its
        regression counterpart.

    Example:
        Two tokens with F(empty) = 0, F(a) = 2, F(b) = -1, F(ab) = 0: in the order ab a adds 2 and b -2, in the order ba
        b adds -1 and a 1. Means: 1.5 and -1.5.

    Reference:
        Castro, Gomez and Tejada 2009, Polynomial calculation of the Shapley value based on sampling; Mitchell et al.
        2022, Sampling Permutations for Shapley Value Estimation, JMLR (antithetic orders). shap's PermutationExplainer;
        captum's ShapleyValueSampling has the orders without their reverses.
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The full and the empty text, then all orders at once."""
        n = len(sample)
        ends = np.array([[True], [False]])[: 1 + classifier.empty_allowed].repeat(n, axis=1)
        least = len(ends) + n - 1
        require_budget("permutation-shap", budget, least, f"one order of {n} tokens")
        walks = Walks.antithetic(n, budget - len(ends), rng)
        outputs = classifier.masked_log_odds(sample, np.vstack([ends, walks.coalitions()]))
        full, empty = np.append(outputs[: len(ends)], 0.0)[:2]
        changes = walks.contributions(outputs[len(ends) :], empty, full)
        values = np.nanmean(changes, axis=0)
        values += (full - empty - values.sum()) / n
        return Explanation(
            {"attribution": values},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate(values, empty),
            diagnostics={
                "base": float(empty),
                "orders": float(walks.steps.mean(axis=1).sum()),
                **_standard_error(changes[walks.steps.all(axis=1)]),
            },
        )


def _standard_error(changes: Floats) -> dict[str, list[float]]:
    """Of the means over pairs of an order and its reverse, which are independent; nothing from fewer than two pairs."""
    pairs = len(changes) // 2
    if pairs < 2:
        return {}
    means = changes[: 2 * pairs].reshape(pairs, 2, -1).mean(axis=1)
    return {"standard_error": (means.std(axis=0, ddof=1) / np.sqrt(pairs)).tolist()}
