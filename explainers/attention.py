"""Attention weights read as importance: from the classification token, per layer or rolled out over all layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import explainer

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


def from_read_position(classifier: Classifier, sample: Sample, attention: Floats) -> Explanation:
    """The read position's row of a map (length x length), special tokens left out: unsigned, no surrogate."""
    scores = attention[classifier.read_position(sample)][classifier.content]
    return Explanation({"attention": scores}, "attention", classifier.target, unsigned=frozenset({"attention"}))


class _Layer:
    """Attention of one layer, heads reduced to one map."""

    def __init__(self, layer: int = -1) -> None:
        self.layer = layer

    def reduce(self, heads: Floats) -> Floats:
        return heads.mean(axis=0)

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        maps = classifier.attentions(sample)
        if not -len(maps) <= self.layer < len(maps):
            raise InvalidInput(f"layer {self.layer} of a model with {len(maps)} layers")
        return from_read_position(classifier, sample, self.reduce(maps[self.layer]))


@explainer("attention-avg", version=1, needs={"attentions"}, stochastic=False, family="attention")
class AttentionAvg(_Layer):
    """Attention from the classification token, mean over the heads of a layer (the last by default). One query."""


@explainer("attention-max", version=1, needs={"attentions"}, stochastic=False, family="attention")
class AttentionMax(_Layer):
    """Attention from the classification token, largest over the heads of a layer (the last by default). One query."""

    def reduce(self, heads: Floats) -> Floats:
        return heads.max(axis=0)


@explainer("attention-rollout", version=1, needs={"attentions"}, stochastic=False, family="attention")
class AttentionRollout:
    """Attention rollout (Abnar and Zuidema 2020): the product over layers of (mean head + identity) / 2. One query."""

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        maps = classifier.attentions(sample).mean(axis=1)
        rolled = np.eye(maps.shape[1])
        for layer in maps:
            rolled = (layer @ rolled + rolled) / 2
        return from_read_position(classifier, sample, rolled)
