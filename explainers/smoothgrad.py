"""SmoothGrad: gradients averaged over noisy copies of the word embeddings, and its squared and variance forms."""

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

_FORMS = ("plain", "squared", "variance")


@explainer("smoothgrad", version=1, needs={"gradients"}, stochastic=True, family="gradient")
class SmoothGrad:
    """Gradient of noisy word embeddings, averaged: times input and signed, or its square or variance.

    There is no noise on special tokens. Needs gradients and a budget of at least 2: the text itself and one noisy copy.
    Squared and variance are unsigned, so without a surrogate.

    Formula:
        plain: x_i . mean_k g_ki;  squared: sum over components of mean_k g_ki^2;  variance: that of var_k g_ki
        g_k: the gradient at x + e_k, e_k normal and independent on the text

    Choose it:
        Over a single gradient where that is noisy.

    Example:
        A token with embedding (3, 1), F = x_1^2 - 2 x_2, noise of standard deviation 1: gradients (6 + 2 e, -2), in
        expectation 3 x 6 - 2 = 16 plain, 36 + 4 + 4 = 44 squared, 4 variance.

    Args:
        form: `plain`, `squared` or `variance`.
        samples: noisy copies; fewer where the budget allows no more.
        noise: their standard deviation, as a share of that of the text's embedding entries.

    Reference:
        Smilkov et al. 2017, SmoothGrad: removing noise by adding noise; Hooker et al. 2019, A Benchmark for
        Interpretability Methods in Deep Neural Networks (squared); Adebayo et al. 2018, Local Explanation Methods for
        Deep Neural Networks Lack Sensitivity to Parameter Values (variance).
    """

    def __init__(self, form: str = "plain", samples: Count = 50, noise: NonNegative = 0.2) -> None:
        self.form = form
        self.samples = samples
        self.noise = noise

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The text itself and its noisy copies, each with its gradient."""
        import torch

        require_budget("smoothgrad", budget, 2, "the text and one noisy copy")
        if self.form not in _FORMS:
            raise InvalidInput(f"unknown form {self.form!r} of smoothgrad; one of {', '.join(_FORMS)}")
        if self.samples < 1 or not self.noise >= 0:
            raise InvalidInput(f"smoothgrad: {self.samples} samples (at least 1), noise {self.noise} (at least 0)")
        words, content = classifier.embed(sample), classifier.content
        points = words.repeat(1 + min(self.samples, budget - 1), 1, 1)
        text = words[content].double()
        noise = self.noise * float(text.std(correction=0)) * rng.standard_normal(points[1:, content].shape)
        points[1:, content] += torch.as_tensor(noise).to(points)
        values, grads = classifier.gradients(points)
        noisy = grads[1:, content].double()
        if self.form == "plain":
            parts = noisy.mean(dim=0) * text
        else:
            parts = noisy.pow(2).mean(dim=0) if self.form == "squared" else noisy.var(dim=0, correction=0)
        scores = parts.sum(dim=1).cpu().numpy()
        signed = self.form == "plain"
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            unsigned=frozenset(() if signed else {"attribution"}),
            surrogate=LinearSurrogate.from_full(scores, float(values[0])) if signed else None,
        )
