"""Gradients of the log-odds with respect to word embeddings, by captum: plain, times input, integrated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core.protocols import is_paper
from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.backend import gradient_backend
from slalom_bench.handle.gradients import LargestLogit
from slalom_bench.numerics import additive
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    import torch

    from slalom_bench.handle.classifier import Classifier

BASELINES = ("zero", "pad", "mask")
PUBLISHED_POINTS = 30


def attribute(method: str, classifier: Classifier, words: torch.Tensor, **options: Any) -> tuple[torch.Tensor, Floats]:
    """A captum method's attributions of word embeddings (length x width), and the log-odds it saw on the way.

    captum asks the handle for its gradients, so that they are packed, counted and timed like every other query.
    """
    from captum import attr

    seen: list[Floats] = []

    def gradients(forward_fn: Any, inputs: tuple[torch.Tensor], *_: Any, **__: Any) -> tuple[torch.Tensor]:
        values, grads = classifier.gradients(inputs[0])
        seen.append(values)
        return (grads,)

    captum_method = getattr(attr, method)(classifier.log_odds_from_embeddings)
    captum_method.gradient_func = gradients
    out = captum_method.attribute(words[None].requires_grad_(True), **options)
    return out[0].detach(), np.concatenate(seen)


def published_norms(classifier: Classifier, sample: Sample, scales: Floats, *, times_input: bool) -> Explanation:
    """L2 norms of the summed gradients of the largest logit (found anew at every scale) of the scaled bare content.

    Not marked unsigned: the published evaluation took norms for signed scores. It ranked them times the label's sign
    (the paper protocol of insertion and deletion does so), compared them with signed weights, and added them up to
    predict changes of the log-odds (Fig. 6).
    """
    import torch

    bare = classifier.bare()
    words = bare.embed(sample)
    points = torch.as_tensor(scales, dtype=words.dtype, device=words.device)[:, None, None] * words
    largest = LargestLogit(bare.target, gradient_backend(bare.backend).logits_from_embeddings)
    values, grads = bare.gradients(points, largest)
    total = (grads.double() * points if times_input else grads.double()).sum(dim=0)
    scores = total.norm(dim=1).cpu().numpy()
    full = float(values[-1])
    return Explanation(
        {"attribution": scores},
        "attribution",
        classifier.target,
        surrogate=LinearSurrogate.from_full(scores, full),
        diagnostics={"largest_logit": full},
    )


class _Gradient:
    """One gradient, reduced over the width of the embedding."""

    unsigned = False
    method = "Saliency"
    options: dict[str, Any] = {"abs": False}  # noqa: RUF012

    def reduce(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.sum(dim=1)

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        gradient, (full,) = attribute(self.method, classifier, classifier.embed(sample), **self.options)
        scores = self.reduce(gradient[classifier.content].double()).cpu().numpy()
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            unsigned=frozenset({"attribution"} if self.unsigned else ()),
            surrogate=None if self.unsigned else LinearSurrogate.from_full(scores, full),
            diagnostics=self.diagnose(gradient[classifier.content], scores),
        )

    def diagnose(self, gradient: torch.Tensor, scores: Floats) -> dict[str, Any]:
        return {}


@explainer("grad-avg", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class GradAvg(_Gradient):
    """Mean component of dF/d(word embedding): signed. One query.

    Layer normalisation does not see a constant added to every component, so behind one (BERT, DistilBERT, GPT-2) the
    mean is exactly 0 and what is computed is rounding error: the diagnostics then say `cancelled`.
    """

    def reduce(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.mean(dim=1)

    def diagnose(self, gradient: torch.Tensor, scores: Floats) -> dict[str, Any]:
        summands = float(gradient.abs().mean())
        return {"mean_absolute_component": summands, "cancelled": bool(np.abs(scores).max() < 1e-4 * summands)}


@explainer("grad-l1", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class GradL1(_Gradient):
    """L1 norm of dF/d(word embedding): unsigned, so without a surrogate. One query."""

    unsigned = True

    def reduce(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.norm(p=1, dim=1)


@explainer("grad-l2", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class GradL2(_Gradient):
    """L2 norm of dF/d(word embedding): unsigned, so without a surrogate. One query.

    paper ("Grad"): of the largest logit, without special tokens, taken for a signed score.
    """

    unsigned = True

    def __init__(self, protocol: str = "bench") -> None:
        self.protocol = protocol

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        if is_paper(self.protocol):
            return published_norms(classifier, sample, np.ones(1), times_input=False)
        return super().explain(classifier, sample, budget, rng)

    def reduce(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.norm(p=2, dim=1)


@explainer("grad-x-input", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class GradXInput(_Gradient):
    """Inner product of a word embedding with dF/d(word embedding): signed. One query."""

    method = "InputXGradient"
    options: dict[str, Any] = {}  # noqa: RUF012


@explainer("integrated-gradients", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class IntegratedGradients:
    """Integrated gradients (Sundararajan et al. 2017) from a named baseline, special tokens kept as they are.

    Gauss-Legendre steps, fewer where the budget allows no more; two queries measure the completeness gap,
    sum of attributions - (F(x) - F(baseline)).

    paper ("IG", which is not IG): the L2 norm of sum_k grad(a_k x) a_k x over 30 points a_k from 0 to 1, neither
    divided by their number nor signed, of the largest logit and without special tokens. Taken for a signed score.
    """

    def __init__(self, steps: int = 50, baseline: str = "zero", protocol: str = "bench") -> None:
        self.steps = steps
        self.baseline = baseline
        self.protocol = protocol

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        import torch

        if is_paper(self.protocol):
            additive.require_budget("integrated-gradients", budget, PUBLISHED_POINTS, "the points of the published sum")
            return published_norms(classifier, sample, np.linspace(0.0, 1.0, PUBLISHED_POINTS), times_input=True)
        additive.require_budget("integrated-gradients", budget, 3, "the input, the baseline and one step")
        steps = min(self.steps, budget - 2)
        if steps < 1:
            raise InvalidInput(f"integrated-gradients needs at least one step, not {self.steps}")
        words = classifier.embed(sample)
        origin = self._origin(classifier, sample, words)
        with torch.no_grad():
            full, base = classifier.log_odds_from_embeddings(torch.stack([words, origin])).tolist()
        parts, _ = attribute("IntegratedGradients", classifier, words, baselines=origin[None], n_steps=steps)
        scores = parts[classifier.content].double().sum(dim=1).cpu().numpy()
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, full),
            diagnostics={
                "steps": steps,
                "change": full - base,
                "completeness_gap": float(scores.sum()) - (full - base),
            },
        )

    def _origin(self, classifier: Classifier, sample: Sample, words: torch.Tensor) -> torch.Tensor:
        """The template with every content token's embedding replaced by the baseline's."""
        tokens = classifier.tokens
        if self.baseline == "zero":
            origin = words.clone()
            origin[classifier.content] = 0.0
            return origin
        if self.baseline not in BASELINES:
            raise InvalidInput(f"unknown baseline {self.baseline!r}; one of {', '.join(BASELINES)}")
        token = tokens.pad_id if self.baseline == "pad" else tokens.mask_id
        if token is None:
            raise Unsupported("baseline 'mask': this tokenizer has no mask token; use zero or pad")
        return classifier.embed(Sample(sample.id, np.full(len(sample), token)))
