"""LIME for text (Ribeiro et al. 2016) on token ids: the lime package's kernel and solver, our masks and batching."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import registry
from slalom_bench.core.budget import require_budget
from slalom_bench.core.law import fitting_masks
from slalom_bench.core.parameters import Positive
from slalom_bench.core.protocols import is_paper
from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics import additive, masks
from slalom_bench.numerics.features import tied_features
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.core.tokens import Tokens
    from slalom_bench.handle.classifier import Classifier

_OWN_LAW = "1 to all features removed at random"


def lime_masks(features: int, rows: int, empty_allowed: bool, rng: np.random.Generator) -> Bools:
    """LimeTextExplainer's samples: the first row whole, then 1..d features removed, how many and which uniform.

    Args:
        features: the number d of features.
        rows: how many masks to draw.
        empty_allowed: whether all features may be removed.
        rng: the generator.

    Returns:
        Masks (rows x d), True where a feature is present.

    >>> lime_masks(3, 2, True, np.random.default_rng(0))[0].tolist()
    [True, True, True]
    """
    largest = features if empty_allowed else features - 1
    counts = rng.integers(min(1, largest), largest + 1, size=rows)
    counts[0] = 0
    return masks.delete_counts(features, counts, rng)


def lime_fit(present: Bools, outputs: Floats, kernel_width: float = 25.0) -> tuple[Floats, float, float]:
    """Coefficients, intercept and weighted R^2 of lime's ridge (alpha 1) under its kernel on cosine distances.

    Args:
        present: masks of features, the first row all True (m x d).
        outputs: what the model says of each (m).
        kernel_width: sigma of the kernel sqrt(exp(-D^2 / sigma^2)), D = 100 x cosine distance.
    """
    from lime.lime_base import LimeBase

    # the cosine distance between a 0/1 row and the row of ones, times 100
    distances = 100.0 * (1.0 - np.sqrt(present.mean(axis=1)))
    base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / kernel_width**2)), random_state=0)
    intercept, pairs, fit, _ = base.explain_instance_with_data(
        present.astype(np.float64), outputs[:, None], distances, 0, present.shape[1], feature_selection="none"
    )
    weights = np.empty(present.shape[1])
    weights[[feature for feature, _ in pairs]] = [weight for _, weight in pairs]
    return weights, float(intercept), float(fit)


def string_features(tokens: Tokens, sample: Sample) -> tuple[str, Ints, Ints]:
    """The text, the feature of each of its characters (-1: between tokens) and of each position, as published.

    A feature is a distinct token string: without "##", with the space that GPT-2 puts before a word but for " .".
    """
    if sample.text is None or sample.offsets is None:
        raise InvalidInput(f"sample {sample.id}: lime in the paper protocol cuts strings; it needs a text with offsets")
    text = sample.text[: int(sample.offsets[:, 1].max())]
    number: dict[str, int] = {}
    feature, owner, end = np.empty(len(sample), np.int64), np.full(len(text), -1), 0
    for i, (word, (start, stop)) in enumerate(zip(tokens.words(sample.ids), sample.offsets.tolist(), strict=True)):
        if "\ufffd" in word:  # a part of a character: it goes with the whole
            word = text[start:stop]
        elif word == " .":
            word, start = ".", stop - 1
        elif word.startswith(" ") and not text.startswith(" ", start) and text[end:start].endswith(" "):
            start -= 1
        feature[i] = number.setdefault(word.removeprefix("##"), len(number))
        owner[start:stop] = feature[i]
        end = stop
    return text, owner, feature


def remaining_texts(text: str, owner: Ints, present: Bools) -> list[str]:
    """The text with the characters of absent features cut out, once for each mask; all between tokens is kept."""
    kept = np.hstack([present, np.ones((len(present), 1), np.bool_)])[:, owner]
    return ["".join(compress(text, row)) for row in kept.tolist()]


@explainer("lime", version=2, needs={"queries"}, stochastic=True, family="additive")
class Lime:
    """LIME: a locally weighted ridge on the presence of positions (or, with tie="token", of distinct tokens).

    Needs queries, a budget of at least 2.

    Formula:
        min over w, w_0 of sum_S pi(S) (F(S) - w_0 - sum over i in S of w_i)^2 + |w|^2
        pi(S) = sqrt(exp(-D^2 / kernel_width^2)), D = 100 x the cosine distance of S to the full input

    Choose it:
        For a black box and large removals: its masks take away anything from one token to all. Its ridge shrinks scores
        where queries are few.

    Example:
        A mask that keeps 9 of 16 tokens has the cosine distance 1 - sqrt(9 / 16) = 0.25, so D = 25 and weight
        sqrt(exp(-1)) = 0.607; one that keeps 4 of 16 has D = 50 and weight sqrt(exp(-4)) = 0.135.

    Args:
        tie: `position`, or `token`: positions of one token id leave together; each has the token's coefficient as its
            score, and an equal share of it in the surrogate.
        kernel_width: of pi; the lime package's 25 by default.
        protocol: `bench`, or `paper`: the probability of the class, not its log-odds, of texts from which all tokens of
            one string are cut and which are then tokenised anew. Its surrogate mixes units, as Fig. 6 does:
            coefficients of a probability predict changes of the log-odds, each position with the whole coefficient of
            its string, the intercept discarded. Needs a text with offsets.
        law: a registered mask law to be fitted to in the place of its own, so that methods can be compared at one law;
            kernel and ridge stay lime's. Only for `tie=position` and `protocol=bench`.

    Reference:
        Ribeiro, Singh and Guestrin 2016, "Why Should I Trust You?", KDD, equation 2 and section 3.4.
    """

    def __init__(
        self, tie: str = "position", kernel_width: Positive = 25.0, protocol: str = "bench", law: str = ""
    ) -> None:
        self.tie = tie
        self.kernel_width = kernel_width
        self.protocol = protocol
        self.law = law

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """As many perturbations as the budget allows, and one ridge fit."""
        require_budget("lime", budget, 2, "the full input and one perturbation")
        if self.law and (is_paper(self.protocol) or self.tie != "position"):
            raise InvalidInput(f"lime: law={self.law} removes positions: it needs tie=position and protocol=bench")
        if is_paper(self.protocol):
            return self._published(classifier, sample, budget, rng)
        features = tied_features(sample, self.tie)
        if self.law:
            present, _ = fitting_masks(self.law, registry.laws.build(self.law), sample, budget, rng)
        else:
            present = lime_masks(len(features), budget, classifier.empty_allowed, rng)
        outputs = classifier.masked_log_odds(sample, present[:, features.of_position])
        weights, intercept, fit = lime_fit(present, outputs, self.kernel_width)
        return Explanation(
            {"attribution": weights[features.of_position]},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate(additive.position_weights(weights, features), intercept),
            diagnostics={"r2": fit, "features": len(weights), "law": self.law or _OWN_LAW},
        )

    def _published(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        text, owner, feature = string_features(classifier.tokens, sample)
        present = lime_masks(int(feature.max()) + 1, budget, classifier.empty_allowed, rng)
        encoded = (classifier.tokens.encode(remaining)[0] for remaining in remaining_texts(text, owner, present))
        outputs = classifier.probabilities([ids[: classifier.max_content] for ids in encoded])[:, classifier.target]
        weights, _, fit = lime_fit(present, outputs, self.kernel_width)
        scores = weights[feature]
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, float(outputs[0])),
            diagnostics={"r2": fit, "features": len(weights), "probability": float(outputs[0]), "law": _OWN_LAW},
        )
