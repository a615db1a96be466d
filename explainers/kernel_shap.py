"""Kernel SHAP (Lundberg and Lee 2017): shap's coalitions and its regression, with our generator and our batching.

`shap.KernelExplainer` draws from numpy's global random state, which a benchmark of many threads and resumed runs
cannot share, so coalitions are drawn here by the same rules, and the regression is proven equal to shap's on shap's
own coalitions (tests/oracles).
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.protocols import is_paper
from slalom_bench.core.types import Bools, Explanation, Floats, Sample
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.numerics import additive, masks
from slalom_bench.numerics.features import tied_features
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier

_OWN_LAW = "coalitions of all sizes by the Shapley kernel"


def coalitions(players: int, count: int, rng: np.random.Generator) -> tuple[Bools, Floats]:
    """At most `count` distinct coalitions, neither empty nor full, with their kernel weights (sum 1).

    As in shap: sizes 1, 2, ... with their complements are enumerated while the budget's share for them suffices, the
    rest are drawn in complementary pairs, sizes by their kernel weight, a repetition counting as weight.

    Args:
        players: how many features there are.
        count: the most coalitions.
        rng: the generator.

    >>> masks, weights = coalitions(3, 6, np.random.default_rng(0))
    >>> masks.sum(axis=1).tolist(), weights.sum().round(6)
    ([1, 1, 1, 2, 2, 2], np.float64(1.0))
    """
    count = min(count, 2**players - 2) if players <= 30 else count
    sizes = np.arange(1, (players + 1) // 2 if players % 2 else players // 2 + 1)
    paired = 2 * sizes != players
    of_size = (players - 1) / (sizes * (players - sizes)) * np.where(paired, 2.0, 1.0)
    of_size /= of_size.sum()
    masks, weights, left, full = _enumerated(players, count, sizes, paired, of_size)
    if full < len(sizes) and left > 0:
        drawn, repeats = _drawn(players, left, sizes[full:], of_size[full:] / np.where(paired[full:], 2.0, 1.0), rng)
        masks.append(drawn)
        weights.append(repeats * (of_size[full:].sum() / repeats.sum()))
    if not masks:
        return np.empty((0, players), np.bool_), np.empty(0)
    return np.vstack(masks), np.concatenate(weights)


def _enumerated(
    players: int, count: int, sizes: np.ndarray, paired: np.ndarray, of_size: Floats
) -> tuple[list[Bools], list[Floats], int, int]:
    """Every coalition of the smallest sizes, what is left of the count, and how many sizes are done."""
    masks: list[Bools] = []
    weights: list[Floats] = []
    left, share = count, of_size.copy()
    for i, size in enumerate(sizes):
        subsets = comb(players, int(size)) * (2 if paired[i] else 1)
        if left * share[i] / subsets < 1.0 - 1e-8:
            return masks, weights, left, i
        left -= subsets
        if share[i] < 1.0:
            share /= 1.0 - share[i]
        members = np.array(list(combinations(range(players), int(size))))
        rows = np.zeros((len(members), players), np.bool_)
        np.put_along_axis(rows, members, True, axis=1)
        masks += [rows, ~rows] if paired[i] else [rows]
        weights.append(np.full(subsets, of_size[i] / subsets))
    return masks, weights, left, len(sizes)


def _drawn(
    players: int, count: int, sizes: np.ndarray, share: Floats, rng: np.random.Generator
) -> tuple[Bools, Floats]:
    """`count` distinct coalitions drawn with their complements, and how often each was drawn."""
    index_of: dict[bytes, int] = {}
    rows: list[Bools] = []
    repeats: list[float] = []
    tries = 4 * count
    while len(rows) < count and tries > 0:
        batch = min(tries, (count - len(rows) + 1) // 2)
        tries -= batch
        drawn_sizes = rng.choice(sizes, batch, p=share / share.sum())
        for mask, size in zip(~masks.delete_counts(players, drawn_sizes, rng), drawn_sizes, strict=True):
            key = mask.tobytes()
            both = 2 * size != players
            if key in index_of:
                first = index_of[key]
                repeats[first] += 1
                if both and first + 1 < len(rows):
                    repeats[first + 1] += 1
            elif len(rows) < count:
                index_of[key] = len(rows)
                new = [mask, ~mask][: min(1 + both, count - len(rows))]
                rows += new
                repeats += [1.0] * len(new)
    return np.array(rows), np.array(repeats)


def shapley_regression(
    masks: Bools, weights: Floats, outputs: Floats, full: float, empty: float | None
) -> tuple[Floats, float, int]:
    """Values, base value and rank: min sum_S w_S (F(S) - base - sum_{i in S} phi_i)^2 with base + sum phi = F(full).

    The base value is F(empty), as in shap. Where no empty input exists the base is free: only the constraint at the
    full input is kept. What the coalitions leave undetermined is shared equally.

    Args:
        masks: coalitions, True where a player is in (m x d).
        weights: their kernel weights (m).
        outputs: F of each (m).
        full: F of all players.
        empty: F of none, or None.
    """
    kept = masks.astype(np.float64)
    players = masks.shape[1]
    if empty is None:
        values, rank = additive.least_squares(1.0 - kept, full - outputs, weights)
        return values, full - float(values.sum()), rank
    share = (full - empty) / players
    deviation, rank = additive.least_squares(
        kept - kept.mean(axis=1, keepdims=True), outputs - empty - kept.sum(axis=1) * share, weights
    )
    return share + deviation, empty, rank + 1


def _published_log_odds(classifier: Classifier, sample: Sample, keep: Bools) -> Floats:
    """Log-odds of the bare content with [UNK] (where a tokenizer has none, its mask token) for what is not kept."""
    tokens = classifier.tokens
    unknown = getattr(tokens, "unk_id", tokens.mask_id)
    if unknown is None:
        raise Unsupported("kernel-shap in the paper protocol needs a tokenizer with [UNK] or [MASK]; this has neither")
    return classifier.bare().log_odds(np.where(keep, sample.ids, unknown))


@explainer("kernel-shap", version=1, needs={"queries"}, stochastic=True, family="additive")
class KernelShap:
    """Kernel SHAP: Shapley values of F under the removal rule, exact where all coalitions fit the budget.

    No feature selection (shap's l1_reg=0). Needs queries, a budget of at least 3: the full input, the empty one and
    one coalition (2 where there is no empty one).

    Formula:
        min over phi of sum_S w(S) (F(S) - phi_0 - sum over i in S of phi_i)^2
        with phi_0 = F(empty), phi_0 + sum phi = F(full), w(S) = (d - 1) / (C(d, |S|) |S| (d - |S|))

    Choose it:
        For Shapley values of short texts, or with a large budget. Error bars: `permutation-shap`; long texts:
        `partition-shap`.

    Example:
        Two tokens with F(empty) = 0, F(a) = 2, F(b) = -1, F(ab) = 0: phi_a = ((2 - 0) + (0 + 1)) / 2 = 1.5, phi_b =
        ((-1 - 0) + (0 - 2)) / 2 = -1.5; they sum to F(ab) - F(empty).

    Args:
        tie: `position`, or `token` for one player for all positions of a token id.
        protocol: `bench`, or `paper`: tokens are not removed but replaced by [UNK] (GPT-2: <|endoftext|>), and no
            special token is added.
        law: a registered mask law to be fitted to in the place of its own, so that methods can be compared at one law:
            both ends are still met, masks of the law weigh alike, and the scores are no Shapley values then. Only for
            `tie=position` and `protocol=bench`.

    Reference:
        Lundberg and Lee 2017, A Unified Approach to Interpreting Model Predictions, NeurIPS, theorem 2.
    """

    def __init__(self, tie: str = "position", protocol: str = "bench", law: str = "") -> None:
        self.tie = tie
        self.protocol = protocol
        self.law = law

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The full and the empty input, coalitions for the rest of the budget, and the regression."""
        paper = is_paper(self.protocol)
        if self.law and (paper or self.tie != "position"):
            raise InvalidInput(
                f"kernel-shap: law={self.law} removes positions: it needs tie=position and protocol=bench"
            )
        with_empty = paper or classifier.empty_allowed
        features = tied_features(sample, self.tie)
        players = len(features)
        ends = np.ones((1, players), np.bool_)
        if with_empty:
            ends = np.vstack([ends, ~ends])
        minimum = len(ends) + (players > 1)
        require_budget("kernel-shap", budget, minimum, "full and empty input where legal, and a coalition")
        if self.law:
            # the masks of all regressions at this law, but for the last, which the empty input takes the place of
            drawn, _ = fitting_masks(self.law, registry.laws.build(self.law), sample, budget, rng)
            masks = drawn[1 : 1 + budget - len(ends)]
            weights = np.ones(len(masks))
        else:
            masks, weights = coalitions(players, budget - len(ends), rng)
        keep = np.vstack([ends, masks])[:, features.of_position]
        outputs = _published_log_odds(classifier, sample, keep) if paper else classifier.masked_log_odds(sample, keep)
        full, empty = float(outputs[0]), float(outputs[1]) if with_empty else None
        values, base, rank = shapley_regression(masks, weights, outputs[len(ends) :], full, empty)
        residuals = outputs[len(ends) :] - base - masks @ values
        return Explanation(
            {"attribution": values[features.of_position]},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate(additive.position_weights(values, features), base),
            diagnostics={
                "base": base,
                "mse": float(weights @ residuals**2 / weights.sum()) if len(masks) else 0.0,
                "rank": rank,
                "features": players,
                "coalitions": len(masks),
                "law": self.law or _OWN_LAW,
                "exact": not self.law and players <= 30 and len(masks) == 2**players - 2 and with_empty,
            },
        )
