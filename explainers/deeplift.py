"""DeepLIFT of the log-odds with respect to word embeddings, by the rescale rule, complete on transformers too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.explainers.gradients import origin
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


@explainer("deeplift", version=1, needs={"gradients", "deeplift"}, stochastic=False, family="gradient")
class DeepLift:
    """DeepLIFT (Shrikumar et al. 2017), rescale rule: what each token adds to F(text) - F(baseline). Two queries.

    Slopes are those of `backends.secants`; softmax and layer norm are made of activations and products. The scores of
    all tokens add up to F(text) - F(baseline); special tokens are in both, and get nothing. captum's DeepLift has the
    same rule for activations but none for attention, layer norm and GELU modules, where it takes the gradient and is
    not complete. Needs gradients and an architecture whose norms see more than the word (deeplift): BERT, RoBERTa,
    XLM-RoBERTa, DistilBERT, ELECTRA, ALBERT and GPT-2; with rotary or relative positions a zero embedding has no
    direction for the first norm, and multipliers explode: such models are skipped before a run. Diagnostics: `change`
    and `completeness_gap`, which is rounding.

    Formula:
        score_i = (x_i - b_i) . m_i, m: the gradient of F with the slope between text and baseline at every non-linear
          step
          activation f: (f(x) - f(b)) / (x - b); product: half of the change to each factor

    Choose it:
        Over `integrated-gradients` where two queries are all there is and scores must add up.

    Example:
        One number x = 3, baseline 0, F = x^2: the slope between them is (9 - 0) / (3 - 0) = 3, the score 3 x 3 = 9 =
        F(3) - F(0); the gradient alone would give 3 x 6 = 18.

    Args:
        baseline: the embedding that content tokens are replaced by: `zero`, `pad` or `mask` (where there is one).

    Reference:
        Shrikumar, Greenside and Kundaje 2017, Learning Important Features Through Propagating Activation Differences,
        ICML, sections 3.2 and 3.5.
    """

    def __init__(self, baseline: str = "zero") -> None:
        self.baseline = baseline

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One forward and one backward pass over the text and its baseline together."""
        import torch

        from slalom_bench.backends.secants import DeepLift as Multipliers
        from slalom_bench.backends.secants import Secants

        require_budget("deeplift", budget, 2, "the text and its baseline")
        words = classifier.embed(sample)
        pair = torch.stack([words, origin(self.baseline, classifier, sample, words)]).requires_grad_(True)
        with Secants():
            out = classifier.log_odds_from_embeddings(pair, Multipliers(classifier.backend).logits)
        (multipliers,) = torch.autograd.grad(out[0], pair)
        full, base = out.detach().tolist()
        parts = (multipliers[0].double() * (pair[0] - pair[1]).detach()).sum(dim=1).cpu().numpy()
        scores = parts[classifier.content]
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, full),
            diagnostics={"change": full - base, "completeness_gap": float(scores.sum()) - (full - base)},
        )
