"""Attention weights read as importance: from the classification token, per layer or rolled out over all layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.parameters import Natural
from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import explainer

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


def _from_read_position(classifier: Classifier, sample: Sample, attention: Floats) -> Explanation:
    """The explanation by one row of an attention map (length x length): the read position's, without special tokens."""
    scores = attention[classifier.read_position(sample)][classifier.content]
    return Explanation({"attention": scores}, "attention", classifier.target, unsigned=frozenset({"attention"}))


class _Layer:
    """Attention of one layer, heads reduced to one map."""

    def __init__(self, layer: int = -1) -> None:
        self.layer = layer

    def reduce(self, heads: Floats) -> Floats:
        """One map (length x length) from those of all heads: their mean."""
        return heads.mean(axis=0)

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One query, for the attention maps of the full input."""
        maps = classifier.attentions(sample)
        if not -len(maps) <= self.layer < len(maps):
            raise InvalidInput(f"layer {self.layer} of a model with {len(maps)} layers")
        return _from_read_position(classifier, sample, self.reduce(maps[self.layer]))


@explainer("attention-avg", version=1, needs={"attentions"}, stochastic=False, family="attention")
class AttentionAvg(_Layer):
    """Attention from the classification token, mean over the heads of a layer (the last by default). One query.

    Needs attentions. Unsigned, so without a surrogate: fidelity is undefined.

    Formula:
        score_i = mean over heads h of A_h[read, i]
        A_h: the layer's softmax weights; read: the position that the classifier reads ([CLS], or the last token)

    Choose it:
        Where one forward pass is all there is and only "where does the last layer look" is asked. It knows no class and
        has no sign.

    Example:
        Two heads give three tokens (0.2, 0.7, 0.1) and (0.6, 0.1, 0.3): scores (0.4, 0.4, 0.2).

    Args:
        layer: counted from 0, or from the end with -1.
        head: one head alone, counted from 0; all of them unless given.

    Reference:
        Lopardo, Precioso and Garreau 2024, Attention Meets Post-hoc Interpretability, ICML, equation 10 (alpha-avg).
    """

    def __init__(self, layer: int = -1, head: Natural | None = None) -> None:
        super().__init__(layer)
        self.head = head

    def reduce(self, heads: Floats) -> Floats:
        """The mean weight over the heads, or the weight of one."""
        if self.head is None:
            return super().reduce(heads)
        if self.head >= len(heads):
            raise InvalidInput(f"attention-avg: head {self.head} of a layer with {len(heads)} heads")
        return heads[self.head]


@explainer("attention-max", version=1, needs={"attentions"}, stochastic=False, family="attention")
class AttentionMax(_Layer):
    """Attention from the classification token, largest over the heads of a layer (the last by default). One query.

    Needs attentions. Unsigned, so without a surrogate: fidelity is undefined.

    Formula:
        score_i = max over heads h of A_h[read, i]

    Choose it:
        As `attention-avg`, where one head that sees a token should be enough to show it.

    Example:
        Two heads give three tokens (0.2, 0.7, 0.1) and (0.6, 0.1, 0.3): scores (0.6, 0.7, 0.3).

    Args:
        layer: counted from 0, or from the end with -1.

    Reference:
        Lopardo, Precioso and Garreau 2024, Attention Meets Post-hoc Interpretability, ICML, equation 11 (alpha-max).
    """

    def reduce(self, heads: Floats) -> Floats:
        """The largest weight of any head."""
        return heads.max(axis=0)


@explainer("attention-rollout", version=1, needs={"attentions"}, stochastic=False, family="attention")
class AttentionRollout:
    """Attention rollout (Abnar and Zuidema 2020): the product over layers of (mean head + identity) / 2. One query.

    Needs attentions. Unsigned, so without a surrogate: fidelity is undefined.

    Formula:
        R = product over layers l of (A_l + I) / 2, the last layer leftmost; A_l: mean over heads
        score_i = R[read, i]

    Choose it:
        Over `attention-avg` in models of several layers, whose last layer attends to states that are mixtures already.
        It knows no class either.

    Example:
        Two layers, two tokens, the first is read, A = [[0.5, 0.5], [0, 1]] in both: (A + I) / 2 = [[0.75, 0.25], [0,
        1]], whose square has the first row (0.5625, 0.4375).

    Reference:
        Abnar and Zuidema 2020, Quantifying Attention Flow in Transformers, ACL, section 3.
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One query, for the attention maps of the full input."""
        maps = classifier.attentions(sample).mean(axis=1)
        rolled = np.eye(maps.shape[1])
        for layer in maps:
            rolled = (layer @ rolled + rolled) / 2
        return _from_read_position(classifier, sample, rolled)
