"""Attention-aware layer-wise relevance propagation of the log-odds, and its CP variant.

LRP is patented (free for research use): see the README before using it in a product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.protocols import is_paper
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.handle.gradients import LargestLogit
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


class _Relevance:
    """Gradient x input of word embeddings on a rewired twin of the model (`slalom_bench.backends.lrp`). One query."""

    rule = ""
    protocol = "bench"

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One forward and one backward pass through the twin; what the positions get is in the diagnostics."""
        from slalom_bench.backends.lrp import Relevance

        paper = is_paper(self.protocol)
        relevance = Relevance(classifier.backend, self.rule)
        words = classifier.embed(sample)
        largest = LargestLogit(classifier.target, relevance.logits)
        values, grads = classifier.gradients(words[None], largest if paper else relevance.logits)
        sign = -1.0 if paper and largest.classes[0] != classifier.target else 1.0
        full, grad = sign * float(values[0]), sign * grads[0].double()
        by_word = (grad * words).sum(dim=1).cpu().numpy()
        total = float((grad * relevance.sums[0]).sum())
        scores = by_word[classifier.content]
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, full),
            diagnostics={
                "signed_logit" if paper else "log_odds": full,
                "words": float(scores.sum()),
                "special_tokens": float(by_word.sum() - scores.sum()),
                "positions": total - float(by_word.sum()),
                "conservation_gap": total - full,
            },
        )


@explainer("attnlrp", version=1, needs={"gradients", "lrp"}, stochastic=False, family="lrp")
class AttnLRP(_Relevance):
    """AttnLRP (Achtibat et al. 2024) of the log-odds: relevance of word embeddings. Patented, free for research use.

    One query. Needs gradients and an architecture with rules (lrp): BERT, RoBERTa, XLM-RoBERTa, DistilBERT, ELECTRA,
    ALBERT, ModernBERT, GPT-2, BLOOM, Llama, Mistral and Qwen2; others are skipped before a run. Relevance left with
    position and type embeddings, special tokens and biases is in the diagnostics.

    Formula:
        score_i = x_i . g_i, g: the gradient of F under the rules of `backends.lrp`
          product a b: half of the gradient to each factor; activation f: f(x) / x; norms: linear

    Choose it:
        Where the architecture has rules and one backward pass is the price: the cheapest signed method whose scores
        nearly add up to the log-odds.

    Example:
        F = a b with a = 2, b = 3: each factor gets half, 3 and 3, which sum to F = 6; gradient times input would give 6
        and 6.

    Args:
        protocol: `bench`, or `paper`: of the largest logit alone, negated where that is not the explained class's
            (log-odds < 0), although fidelity is measured in log-odds.

    Reference:
        Achtibat et al. 2024, AttnLRP: Attention-Aware Layer-Wise Relevance Propagation for Transformers, ICML.
    """

    rule = "attn"

    def __init__(self, protocol: str = "bench") -> None:
        self.protocol = protocol


@explainer("attnlrp-cp", version=1, needs={"gradients", "lrp"}, stochastic=False, family="lrp")
class CpLRP(_Relevance):
    """AttnLRP's CP variant, no relevance through the softmax: conserved but for biases. Patented, free for research.

    As `attnlrp`, with attention weights taken as constants. One query.

    Formula:
        score_i = x_i . g_i, g as in `attnlrp` with attention weights taken as constants

    Choose it:
        Where scores must add up (exactly, but for biases); `attnlrp` otherwise.

    Example:
        Attention weights 0.25 and 0.75 on values 4 and -2: relevance 1 and -1.5, which sum to F = -0.5. The softmax
        gets none.

    Reference:
        Ali et al. 2022, XAI for Transformers: Better Explanations through Conservative Propagation, ICML.
    """

    rule = "cp"
