"""Gradients of the log-odds with respect to word embeddings, by captum: plain, times input, integrated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.parameters import Count, NonNegative
from slalom_bench.core.protocols import is_paper
from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.backend import gradient_backend
from slalom_bench.handle.gradients import LargestLogit
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    import torch

    from slalom_bench.handle.classifier import Classifier

_BASELINES = ("zero", "pad", "mask")
_PUBLISHED_POINTS = 30
_SMALL_CHANGE = 0.1
"""Log-odds: a change below this is taken for as much when a gap is put in relation to it."""


def _attribute(method: str, classifier: Classifier, words: torch.Tensor, **options: Any) -> tuple[torch.Tensor, Floats]:
    """A captum method's attributions of word embeddings (length x width), and the log-odds it saw on the way.

    captum asks the handle for its gradients, so that they are packed, counted and timed like every other query.
    """
    from captum import attr

    seen: list[Floats] = []

    def gradients(forward_fn: Any, inputs: tuple[torch.Tensor], *_: Any, **__: Any) -> tuple[torch.Tensor]:
        """captum's gradient function, answered by the handle."""
        values, grads = classifier.gradients(inputs[0])
        seen.append(values)
        return (grads,)

    captum_method = getattr(attr, method)(classifier.log_odds_from_embeddings)
    captum_method.gradient_func = gradients
    out = captum_method.attribute(words[None].requires_grad_(True), **options)
    return out[0].detach(), np.concatenate(seen)


def origin(baseline: str, classifier: Classifier, sample: Sample, words: torch.Tensor) -> torch.Tensor:
    """A sample's word embeddings (length x width) with those of its content replaced by a baseline's.

    Args:
        baseline: `zero`, or the token `pad` or `mask`.
        classifier: the handle.
        sample: the text.
        words: its embeddings, special tokens included, which stay.
    """
    if baseline == "zero":
        start = words.clone()
        start[classifier.content] = 0.0
        return start
    if baseline not in _BASELINES:
        raise InvalidInput(f"unknown baseline {baseline!r}; one of {', '.join(_BASELINES)}")
    token = classifier.tokens.pad_id if baseline == "pad" else classifier.tokens.mask_id
    if token is None:
        raise Unsupported("baseline 'mask': this tokenizer has no mask token; use zero or pad")
    return classifier.embed(Sample(sample.id, np.full(len(sample), token)))


def _published_norms(classifier: Classifier, sample: Sample, scales: Floats, *, times_input: bool) -> Explanation:
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
        """One score for each token from what captum attributes to the components of its embedding (n x width)."""
        return gradient.sum(dim=1)

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One query with its gradient."""
        gradient, (full,) = _attribute(self.method, classifier, classifier.embed(sample), **self.options)
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
        """What the diagnostics say of the reduction."""
        return {}


@explainer("grad-avg", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class GradAvg(_Gradient):
    """Mean component of dF/d(word embedding): signed. One query.

    Needs gradients. Layer normalisation does not see a constant added to every component, so behind one (BERT,
    DistilBERT, GPT-2) the mean is exactly 0 and what is computed is rounding error: the diagnostics then say
    `cancelled`.

    Formula:
        score_i = mean over components d of dF/dx_id

    Choose it:
        To reproduce G-avg of the paper. Not for models with layer normalisation, where it is rounding error:
        `grad-x-input` then.

    Example:
        A token with embedding (3, 1) and F = x_1^2 - 2 x_2: the gradient is (6, -2), its mean 2.

    Reference:
        Simonyan, Vedaldi and Zisserman 2014, Deep Inside Convolutional Networks; averaged over the embedding as in
        Lopardo, Precioso and Garreau 2024, section 4.1 (G-avg).
    """

    def reduce(self, gradient: torch.Tensor) -> torch.Tensor:
        """The mean component."""
        return gradient.mean(dim=1)

    def diagnose(self, gradient: torch.Tensor, scores: Floats) -> dict[str, Any]:
        """How large the components are that are averaged, and whether they cancelled."""
        summands = float(gradient.abs().mean())
        return {"mean_absolute_component": summands, "cancelled": bool(np.abs(scores).max() < 1e-4 * summands)}


@explainer("grad-l1", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class GradL1(_Gradient):
    """L1 norm of dF/d(word embedding): unsigned, so without a surrogate. One query.

    Needs gradients. Fidelity is undefined.

    Formula:
        score_i = sum over components d of |dF/dx_id|

    Choose it:
        To see where the model is sensitive, in one backward pass, if the direction does not matter.

    Example:
        A token with embedding (3, 1) and F = x_1^2 - 2 x_2: the gradient is (6, -2), its norm 8.

    Reference:
        Simonyan, Vedaldi and Zisserman 2014; Lopardo, Precioso and Garreau 2024, section 4.1 (G-l1).
    """

    unsigned = True

    def reduce(self, gradient: torch.Tensor) -> torch.Tensor:
        """The L1 norm."""
        return gradient.norm(p=1, dim=1)


@explainer("grad-l2", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class GradL2(_Gradient):
    """L2 norm of dF/d(word embedding): unsigned, so without a surrogate. One query.

    Needs gradients. Fidelity is undefined in `bench`.

    Formula:
        score_i = (sum over components d of (dF/dx_id)^2)^(1/2)

    Choose it:
        As `grad-l1`; it is what papers most often call gradient saliency.

    Example:
        A token with embedding (3, 1) and F = x_1^2 - 2 x_2: the gradient is (6, -2), its norm sqrt(40) = 6.32.

    Args:
        protocol: `bench`, or `paper` ("Grad"): of the largest logit, without special tokens, taken for a signed score.

    Reference:
        Simonyan, Vedaldi and Zisserman 2014; Lopardo, Precioso and Garreau 2024, section 4.1 (G-l2); Leemann et al.
        2025, section 6.3 (Gradients).
    """

    unsigned = True

    def __init__(self, protocol: str = "bench") -> None:
        self.protocol = protocol

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """One query with its gradient; in the paper protocol as published."""
        if is_paper(self.protocol):
            return _published_norms(classifier, sample, np.ones(1), times_input=False)
        return super().explain(classifier, sample, budget, rng)

    def reduce(self, gradient: torch.Tensor) -> torch.Tensor:
        """The L2 norm."""
        return gradient.norm(p=2, dim=1)


@explainer("grad-x-input", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class GradXInput(_Gradient):
    """Inner product of a word embedding with dF/d(word embedding): signed. One query.

    Needs gradients. The surrogate is F(S) = F(full) - sum of the removed scores.

    Formula:
        score_i = sum over components d of x_id dF/dx_id

    Choose it:
        For one backward pass and a sign. Where the budget allows more steps: `integrated-gradients`.

    Example:
        A token with embedding (3, 1) and F = x_1^2 - 2 x_2: the gradient is (6, -2), the score 3 x 6 - 2 = 16, although
        F is only 7.

    Reference:
        Denil, Demiraj and de Freitas 2014, Extraction of Salient Sentences from Labelled Documents; Lopardo, Precioso
        and Garreau 2024, section 4.1 (G x I).
    """

    method = "InputXGradient"
    options: dict[str, Any] = {}  # noqa: RUF012


@explainer("integrated-gradients", version=2, needs={"gradients"}, stochastic=False, family="gradient")
class IntegratedGradients:
    """Integrated gradients (Sundararajan et al. 2017) from a named baseline, special tokens kept as they are.

    Needs gradients and a budget of at least 3 (paper: 30). Two queries measure the completeness gap, sum of
    attributions - (F(x) - F(baseline)). Steps are doubled until it is small or the budget is used: every round asks
    anew, and one after which no doubling would fit takes all that is left. Diagnostics: `steps` of the last round,
    whose scores are returned, `change` F(x) - F(baseline), `completeness_gap` in log-odds, `relative_gap` |gap| /
    max(|change|, 0.1), and whether that `converged` to the tolerance.

    Formula:
        score_i = (x_i - b_i) . integral over a in (0, 1) of dF/dx_i at b + a (x - b)
        by Gauss-Legendre quadrature; sum of scores = F(x) - F(b)

    Choose it:
        Where the model gives gradients and scores should add up to a change of the log-odds. Look at `relative_gap`:
        while it is large, the scores are not the integral.

    Example:
        A token with embedding (3, 1), baseline 0, F = x_1^2 - 2 x_2: the gradient on the path is (6 a, -2), its mean
        (3, -2), the score 3 x 3 - 2 = 7 = F(x) - F(0).

    Args:
        steps: of the first round; fewer where the budget allows no more.
        tolerance: the relative gap that is small enough.
        baseline: the embedding that content tokens are replaced by: `zero`, `pad` or `mask` (where there is a mask
            token).
        protocol: `bench`, or `paper` ("IG", which is not IG): the L2 norm of sum_k grad(a_k x) a_k x over 30 points a_k
            from 0 to 1, neither divided by their number nor signed, of the largest logit and without special tokens.
            Taken for a signed score.

    Reference:
        Sundararajan, Taly and Yan 2017, Axiomatic Attribution for Deep Networks, ICML, equation 1.
    """

    def __init__(
        self, steps: Count = 50, baseline: str = "zero", protocol: str = "bench", tolerance: NonNegative = 0.01
    ) -> None:
        self.steps = steps
        self.baseline = baseline
        self.protocol = protocol
        self.tolerance = tolerance

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The input, the baseline and as many steps between as the tolerance needs and the budget allows."""
        import torch

        if is_paper(self.protocol):
            require_budget("integrated-gradients", budget, _PUBLISHED_POINTS, "the points of the published sum")
            return _published_norms(classifier, sample, np.linspace(0.0, 1.0, _PUBLISHED_POINTS), times_input=True)
        require_budget("integrated-gradients", budget, 3, "the input, the baseline and one step")
        if self.steps < 1:
            raise InvalidInput(f"integrated-gradients needs at least one step, not {self.steps}")
        if not self.tolerance >= 0:
            raise InvalidInput(f"integrated-gradients: the tolerance must be at least 0, not {self.tolerance}")
        words = classifier.embed(sample)
        start = origin(self.baseline, classifier, sample, words)
        with torch.no_grad():
            full, base = classifier.log_odds_from_embeddings(torch.stack([words, start])).tolist()
        scores, report = self._integrate(classifier, words, start, full - base, budget - 2)
        surrogate = LinearSurrogate.from_full(scores, full)
        return Explanation(
            {"attribution": scores}, "attribution", classifier.target, surrogate=surrogate, diagnostics=report
        )

    def _integrate(
        self, classifier: Classifier, words: torch.Tensor, start: torch.Tensor, change: float, left: int
    ) -> tuple[Floats, dict[str, Any]]:
        """Scores and diagnostics of the last of several rounds, which use at most `left` queries together."""
        steps = left if left <= 2 * self.steps else self.steps  # no room for a second, finer round
        while True:
            parts, _ = _attribute(
                "IntegratedGradients",
                classifier,
                words,
                baselines=start[None],
                n_steps=steps,
                internal_batch_size=classifier.rows_per_batch(len(words)),
            )
            left -= steps
            scores = parts[classifier.content].double().sum(dim=1).cpu().numpy()
            gap = float(scores.sum()) - change
            relative = abs(gap) / max(abs(change), _SMALL_CHANGE)
            if relative <= self.tolerance or left <= steps:
                break
            # from 6 steps' worth on, there is room for a doubling and for another one after it
            steps = 2 * steps if left >= 6 * steps else left
        return scores, {
            "steps": steps,
            "change": change,
            "completeness_gap": gap,
            "relative_gap": relative,
            "converged": bool(relative <= self.tolerance),
        }
