"""Attention weighted by its gradient and rolled out over the layers: generic attention explainability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.registry import explainer

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


def relevance(weighted: Floats) -> Floats:
    """R (length x length) after R <- R + mean over heads of (weighted)^+ R in every layer, from the identity on.

    Args:
        weighted: gradients times attention (layers x heads x length x length), the first layer first.
    """
    rolled = np.eye(weighted.shape[-1])
    for layer in np.maximum(weighted, 0.0).mean(axis=1):
        rolled = rolled + layer @ rolled
    return rolled


@explainer("attention-grad", version=1, needs={"attentions", "gradients"}, stochastic=False, family="attention")
class AttentionGrad:
    """Gradient-weighted attention rollout (Chefer et al. 2021): what speaks for the class, minus what speaks against.

    With A the attention weights and F the log-odds, the read position's row of R is `evidence_for`, the published map.
    The same rule on -F, the log-odds against the class, is `evidence_against`, from the same gradients; `attribution`
    is their difference, so that a token can count on either side, and the identity of a read position inside the text
    cancels. One query with its backward pass. Needs attentions and gradients. Its scale is not that of log-odds, so it
    has no surrogate: fidelity is undefined.

    Formula:
        R <- R + mean over heads of (dF/dA * A)^+ R, from R = I, layer by layer
        evidence_for = R[read], of F; evidence_against the same of -F; attribution = evidence_for - evidence_against

    Choose it:
        Over plain attention, which knows no class, at the price of one backward pass.

    Example:
        One layer, one head; the read row of A is (0.5, 0.5), that of dF/dA (2, -1). Evidence for: (1, 0) + (1, 0) = (2,
        0); against: (1, 0) + (0, 0.5) = (1, 0.5). Attribution: (1, -0.5).

    Reference:
        Chefer, Gur and Wolf 2021, Generic Attention-model Explainability for Interpreting Bi-Modal and
        Encoder-Decoder Transformers, ICCV, equations 5 and 6.
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One query, for the attention maps of the full input and their gradients."""
        maps, grads = classifier.attention_gradients(sample)
        read = classifier.read_position(sample)
        pro, con = (relevance(sign * grads * maps)[read][classifier.content] for sign in (1.0, -1.0))
        return Explanation(
            {"attribution": pro - con, "evidence_for": pro, "evidence_against": con},
            "attribution",
            classifier.target,
            unsigned=frozenset({"evidence_for", "evidence_against"}),
        )
