"""ProxySPEX: sparse interactions of any order, read off boosted trees that were fitted to masked texts (shapiq)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.extras import require_extra
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Bools, Explanation, Floats, Sample
from slalom_bench.numerics import masks
from slalom_bench.registry import explainer
from slalom_bench.surrogates.interactions import InteractionSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier

Sets = dict[tuple[int, ...], float]
"""Moebius coefficients by ascending positions."""
SMALL_DELETIONS = "small-deletions"
_BOOSTING: dict[str, list[Any]] = {"learning_rate": [0.1], "min_child_samples": [5]}
_LEAST = 20
"""Rows from which trees with five rows a leaf can have splits worth the name."""


class _Rows:
    """What shapiq's approximator draws its coalitions from, holding those that were asked for already."""

    def __init__(self, keep: Bools) -> None:
        self.coalitions_matrix = keep

    def sample(self, budget: int) -> None:
        """Nothing is left to be drawn."""


def moebius(values: Floats) -> Sets:
    """The exact coefficients of a game from F of all 2^n subsets, subset s keeping position i where bit i of s is set.

    >>> moebius(np.array([1.0, 3.0, 1.0, 8.0]))
    {(): 1.0, (0,): 2.0, (1,): 0.0, (0, 1): 5.0}
    """
    n = len(values).bit_length() - 1
    out = np.array(values, np.float64).reshape((2,) * n)  # the last axis is bit 0
    for axis in range(n):
        with_it: tuple[Any, ...] = (slice(None),) * axis + (1,)
        out[with_it] -= out[(*with_it[:-1], 0)]
    return {tuple(i for i in range(n) if s >> i & 1): float(c) for s, c in enumerate(out.ravel())}


def every_subset(n: int) -> Bools:
    """All subsets in the order of `moebius` (2^n x n)."""
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.bool_)


def proxy_spex(keep: Bools, outputs: Floats, seed: int, settings: dict[str, list[Any]]) -> Sets:
    """Moebius coefficients by shapiq's ProxySPEX of these masks (m x n) and outputs (m); none where trees do not split.

    Outputs are centred first: shapiq drops the mean where it is small beside the effects, and fits no intercept.
    """
    from shapiq.approximator import ProxySPEX

    mean = float(outputs.mean())
    approximator = ProxySPEX(n=keep.shape[1], random_state=seed)  # FBII of full order: the Moebius coefficients
    approximator.decoder_args = settings
    approximator._uniform_sampler = _Rows(keep)
    try:
        found = approximator.approximate(len(keep), lambda rows: outputs - mean).interactions
    except (IndexError, ValueError):  # shapiq 1.4.1 where no tree has a split, so that there is nothing to refine
        found = {}
    sets = {tuple(int(i) for i in sorted(members)): float(c) for members, c in found.items()}
    return {**sets, (): sets.get((), 0.0) + mean}


@explainer("proxy-spex", version=1, needs={"queries"}, stochastic=True, family="additive", extra="shapiq")
class ProxySpex:
    """ProxySPEX (Butler et al. 2025) by shapiq: sparse interactions of any order from boosted trees. Extra `shapiq`.

    Gradient-boosted trees are fitted to random masks, turned into their Fourier coefficients, of which those with 95 %
    of the energy are fitted again by ridge regression and turned into the Moebius coefficients c_T. The scores are the
    Shapley values of the surrogate, which predicts non-additively. Masks are uniform subsets in complementary pairs;
    where the budget covers all subsets of a short text they are all asked for, and the coefficients are exact. The
    empty text counts as even odds (0) where it is not legal. Needs queries, a budget of at least 20 (or 2^n) and the
    extra `shapiq`, which brings shapiq and lightgbm.

    Settings differ from shapiq's for time (it tries eight, 13 s a text of 100 tokens at b=1000): one, of trees five
    deep, with 5 rows a leaf at least, so that rare deletions can be told apart.

    Formula:
        F(S) = sum of c_T over the sets T that are part of S; scores: the Shapley values of this

    Choose it:
        To find interactions of three tokens and more in a text that stands a good deal of removal.

    Example:
        F(empty) = 0, F(a) = 2, F(b) = -1, F(ab) = 0: c_a = 2, c_b = -1, c_ab = 0 - 2 + 1 = -1. Half of c_ab goes to
        each: Shapley values 1.5 and -1.5.

    Args:
        law: empty for uniform subsets; `small-deletions` for the masks of slalom-fidel; or a registered mask law. A row
            with more weight than others (the full text) is repeated.
        depth: of the trees: the largest interaction.
        trees: how many are boosted.

    Reference:
        Butler, Kang, Agarwal, Erginbas, Yu and Ramchandran 2025, ProxySPEX: Inference-Efficient Interpretability via
        Sparse Feature Interactions in LLMs; Muschalik et al. 2024, shapiq: Shapley Interactions for Machine Learning.
    """

    def __init__(self, law: str = "", depth: Count = 5, trees: Count = 200) -> None:
        self.law = law
        self.depth = depth
        self.trees = trees

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """All subsets where the budget covers them; else masks of the law, trees, and what is read off them."""
        require_extra("shapiq")
        n = len(sample)
        exact = 2**n - (not classifier.empty_allowed) <= budget
        if exact:
            keep = every_subset(n)
            outputs = self._asked(classifier, sample, keep)
            sets = moebius(outputs)
        else:
            require_budget("proxy-spex", budget, min(_LEAST, 2**n), f"rows for trees, or every subset of {n} tokens")
            keep, times = self._rows(sample, budget, rng)
            outputs, seed = self._asked(classifier, sample, keep), int(rng.integers(2**31))
            settings = {"max_depth": [self.depth], "max_iter": [self.trees], **_BOOSTING}
            sets = proxy_spex(keep.repeat(times, axis=0), outputs.repeat(times), seed, settings)
        surrogate = InteractionSurrogate(n, list(sets), list(sets.values()))
        sizes = [len(members) for members in sets]
        return Explanation(
            {"attribution": surrogate.shapley()},
            "attribution",
            classifier.target,
            surrogate=surrogate,
            diagnostics={
                "mse": float(np.mean((surrogate.predict(keep) - outputs) ** 2)),
                "law": "all subsets" if exact else self.law or "uniform subsets",
                "singles": sizes.count(1),
                "interactions": sum(size > 1 for size in sizes),
                "largest": max(sizes),
            },
        )

    def _asked(self, classifier: Classifier, sample: Sample, keep: Bools) -> Floats:
        """F of each mask, 0 for an empty text that is not legal."""
        legal = keep.any(axis=1) | classifier.empty_allowed
        outputs = np.zeros(len(keep))
        outputs[legal] = classifier.masked_log_odds(sample, keep[legal])
        return outputs

    def _rows(self, sample: Sample, budget: int, rng: np.random.Generator) -> tuple[Bools, Any]:
        """Masks of the law (at most budget x n), and how often each counts."""
        n = len(sample)
        if not self.law:
            half = rng.random((-(-budget // 2), n)) < 0.5
            return np.stack([half, ~half], axis=1).reshape(-1, n)[:budget], 1
        if self.law == SMALL_DELETIONS:
            keep, shares = masks.small_deletions(n, budget, rng)
        else:
            keep, shares = fitting_masks(self.law, registry.laws.build(self.law), sample, budget, rng)
        return keep, np.rint(shares / shares.min()).astype(np.int64)
