"""GradientSHAP: gradients at random points between a baseline and noisy copies of the word embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.parameters import Count, NonNegative
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


@explainer("gradient-shap", version=1, needs={"gradients"}, stochastic=True, family="gradient")
class GradientShap:
    """GradientSHAP (Lundberg and Lee 2017): gradient times noisy input at random points of the way from zero to it.

    Special tokens stay as they are. The baseline is the zero embedding, so without noise this is integrated gradients
    by Monte Carlo. Needs gradients and a budget of at least 3: the text, the baseline and one point. Diagnostics:
    `samples`, `change` F(x) - F(baseline) and `completeness_gap`, sum of the scores - change, which shrinks with more
    samples only as far as the noise allows.

    Formula:
        score_i = mean over k of (x_i + e_ki) . dF/dx_i at a_k (x + e_k)
        a_k uniform on (0, 1), e_k normal on the text

    Choose it:
        Over `integrated-gradients` where the path itself is noisy, or where a fixed number of points must do.

    Example:
        A token with embedding (3, 1), F = x_1^2 - 2 x_2, no noise, one point a = 0.5: the gradient at (1.5, 0.5) is (3,
        -2), the score 3 x 3 - 2 = 7 = F(x) - F(0).

    Args:
        samples: points; fewer where the budget allows no more.
        noise: standard deviation, as a share of that of the text's embedding entries.

    Reference:
        Lundberg and Lee 2017, A Unified Approach to Interpreting Model Predictions, NeurIPS; Erion et al. 2021,
        Improving performance of deep learning models with axiomatic attribution priors and expected gradients.
    """

    def __init__(self, samples: Count = 200, noise: NonNegative = 0.1) -> None:
        self.samples = samples
        self.noise = noise

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The text, the baseline, and as many random points as are wanted and the budget allows."""
        import torch

        require_budget("gradient-shap", budget, 3, "the text, the baseline and one point")
        if self.samples < 1 or not self.noise >= 0:
            raise InvalidInput(f"gradient-shap: {self.samples} samples (at least 1), noise {self.noise} (at least 0)")
        words, content = classifier.embed(sample), classifier.content
        samples = min(self.samples, budget - 2)
        text = words[content].double()
        draws = rng.standard_normal((samples, *text.shape))
        noisy = text + torch.as_tensor(self.noise * float(text.std(correction=0)) * draws, device=words.device)
        along = torch.as_tensor(rng.uniform(size=(samples, 1, 1)), device=words.device)
        ends = words.repeat(2, 1, 1)
        ends[1, content] = 0.0
        with torch.no_grad():
            full, base = classifier.log_odds_from_embeddings(ends).tolist()
        points = words.repeat(samples, 1, 1)
        points[:, content] = (along * noisy).to(words)
        _, grads = classifier.gradients(points)
        scores = (grads[:, content].double() * noisy).mean(dim=0).sum(dim=1).cpu().numpy()
        change = full - base
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, full),
            diagnostics={
                "samples": samples,
                "change": change,
                "completeness_gap": float(scores.sum()) - change,
            },
        )
