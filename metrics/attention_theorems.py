"""Two theorems on the one-layer attention classifier: its gradient, and what LIME tends to (Lopardo et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Positive
from slalom_bench.core.types import Explanation, Floats, Ints, Sample, Score
from slalom_bench.numerics.correlation import pearson
from slalom_bench.numerics.lime_limit import Part, lime_limit
from slalom_bench.registry import metric

if TYPE_CHECKING:
    import torch

    from slalom_bench.handle.classifier import Classifier

_FORMS = ("printed", "first-order", "limit")


@metric(
    "theorem-4-1",
    version=1,
    order=95,
    needs={"queries"},
    direction="lower",
    unit="share of the gradient's norm",
    headline="distance",
    bounds=(0, None),
    level="model",
    default=False,
)
class GradientTheorem:
    """How far the gradient that theorem 4.1 gives is from the true one, at the content tokens of the text.

    `distance`: norm of the difference of the two gradients with respect to the word embeddings, over the norm of the
    true one. The theorem takes the query as fixed, so it leaves out the classification token itself, which is no
    content token. A property of the model, not of the explanation. Needs queries. Undefined for other models than the
    attention classifier of one layer and one output.

    Formula:
        distance = |G - dF/dx| / |dF/dx|, G: the gradient of theorem 4.1, over the content tokens

    Choose it:
        To check the theorem on the attention classifier; of no use for ranking methods.

    Example:
        The theorem's gradient (3, 4.1), the true one (3, 4): |(0, 0.1)| / 5 = 0.02.

    Reference:
        Lopardo, Precioso and Garreau 2024, Attention Meets Post-hoc Interpretability, ICML, theorem 4.1 and Fig. 5.
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Any) -> Score:
        """One query with a backward pass."""
        net = _net(classifier)
        if net is None:
            return undefined.everywhere(["distance"], undefined.OTHER_MODEL)
        view = classifier.targeting(1)
        _, gradient = view.gradients(view.embed(sample)[None])
        true = gradient[0, 1:].double().cpu().numpy()
        p = _parts(net, [*classifier.tokens.prefix, *sample.ids])
        slope = p["alpha"][..., None] * (
            np.einsum("kod,ko->kd", p["W_v"], p["W_l"])[:, None]
            + (p["value"] - p["mean"][:, None])[..., None]
            * np.einsum("kad,ka->kd", p["W_k"], p["q"])[:, None]
            / p["root"]
        )
        formula = slope.mean(axis=0)[1 : len(sample) + 1]
        return Score({"distance": float(np.linalg.norm(formula - true) / np.linalg.norm(true))})


@metric(
    "theorem-5-1",
    version=2,
    order=96,
    needs={"queries"},
    direction="lower",
    unit="share of the scores' norm",
    headline="limit",
    bounds=(0, None),
    default=False,
)
class LimeTheorem:
    """How far LIME's coefficients are from theorem 5.1 as printed, from its first order, and from LIME's true limit.

    With g_t = exp(k_t q / sqrt(d)), alpha = g / sum g, v the values, h a hidden position and W the head's output map, a
    mean over heads each. The first order is right where no word has much of the attention and the text has little of
    it, as the theorem assumes; the limit needs neither. Positions of one word are added up. Values: the norm of the
    difference from the primary scores over their norm; `-l2` that norm itself, as the paper reports it; `-pearson` the
    correlation. Meant for LIME over words under the removal rule `mask`, whose own sampling is what is left of `limit`.
    Needs queries. Undefined for other models than the attention classifier of one layer and one output, and for
    constant scores.

    Formula:
        |scores - beta| / |scores|, beta printed, first-order and limit
        printed: beta_t = 3/2 W (alpha_t v_t - alpha_ht v_ht)
        first-order: beta_t = W [g_t (v_t - vbar) - g_ht (v_ht - vbar)] / sum g, vbar = sum alpha v
        limit: beta_j = int w(x) E_x[F(S with j) - F(S without j)] dx, each word gone with probability x
        w(x): proportional to x (1 - x) exp(-D^2 / (2 kernel_width^2)), D = 100 (1 - sqrt(1 - x)); it adds up to 1

    Choose it:
        To check the theorem with `lime` on the attention classifier; of no use for ranking methods.

    Example:
        Scores (3, 4), beta (3, 4.5): |(0, 0.5)| / 5 = 0.1.

    Args:
        kernel_width: that of the `lime` that is checked.

    Reference:
        Lopardo, Precioso and Garreau 2024, Attention Meets Post-hoc Interpretability, ICML, theorem 5.1 and Fig. 4.
    """

    def __init__(self, kernel_width: Positive = 25.0) -> None:
        self.kernel_width = kernel_width

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Any) -> Score:
        """No query: the formulas are of weights alone."""
        names = [f"{form}{ending}" for form in _FORMS for ending in ("", "-l2", "-pearson")]
        net = _net(classifier)
        if net is None:
            return undefined.everywhere(names, undefined.OTHER_MODEL)
        scores = explanation.scores[explanation.primary]
        if np.ptp(scores) == 0:
            return undefined.everywhere(names, undefined.CONSTANT_SCORES)
        word = np.unique(sample.ids, return_inverse=True)[1]
        forms = _forms(_parts(net, [*classifier.tokens.prefix, *sample.ids]), word, self.kernel_width)
        sign = 1.0 if explanation.target == 1 else -1.0
        found = {}
        for name, limit in zip(_FORMS, forms, strict=True):
            predicted = sign * limit[word]
            found[f"{name}-l2"] = float(np.linalg.norm(predicted - scores))
            found[name] = found[f"{name}-l2"] / float(np.linalg.norm(scores))
            found[f"{name}-pearson"] = pearson(predicted, scores)
        return Score(found)


def _forms(p: Mapping[str, Any], word: Ints, kernel_width: float) -> tuple[Floats, Floats, Floats]:
    """Theorem 5.1 as printed, its first order, and LIME's limit: one number for each distinct word of the text."""

    def added(values: Any) -> Any:
        """The sum over each word's positions, by head."""
        return np.stack([np.bincount(word, row[1 : len(word) + 1]) for row in values])

    total = p["g"].sum(axis=1, keepdims=True)
    mean = p["mean"][:, None]
    share_h = p["g_h"] / p["g_h"].sum(axis=1, keepdims=True)
    printed = 1.5 * added(p["alpha"] * p["value"] - share_h * p["value_h"])
    first = added(p["g"] * (p["value"] - mean) - p["g_h"] * (p["value_h"] - mean)) / total
    kept, gone = (Part(added(p[f"g{h}"]), added(p[f"g{h}"] * p[f"value{h}"])) for h in ("", "_h"))
    whole = (p["g"] * p["value"]).sum(axis=1, keepdims=True)
    fixed = Part(total - kept.weight.sum(axis=1, keepdims=True), whole - kept.weighted.sum(axis=1, keepdims=True))
    return printed.mean(axis=0), first.mean(axis=0), lime_limit(kept, gone, fixed, kernel_width)


def _net(classifier: Classifier) -> Any:
    """The attention classifier of one layer and one output; None for any other model."""
    from slalom_bench.backends.nets_classic import AttentionNet

    net = getattr(classifier.backend, "module", None)
    return net if isinstance(net, AttentionNet) and not len(net.below) and net.head.shape[1] == 1 else None


def _parts(net: Any, ids: Any) -> dict[str, Any]:
    """The quantities of section 2 in double precision, by head, over all T_max positions; _h: hidden there instead."""
    import torch

    with torch.no_grad():
        laid = torch.zeros(len(net.positions), dtype=torch.long, device=net.words.weight.device)
        laid[: len(ids)] = torch.as_tensor(ids, device=laid.device)
        e = _double(net.words(laid)) + _double(net.positions)
        h = _double(net.words.weight[0]) + _double(net.positions)
    w_q, w_k, w_v = (_double(weights) for weights in (net.last.query, net.last.key, net.last.value))
    w_l, root = _double(net.head)[:, 0], math.sqrt(w_k.shape[1])
    q = np.einsum("kad,d->ka", w_q, e[0])
    found: dict[str, Any] = {"W_v": w_v, "W_l": w_l, "W_k": w_k, "q": q, "root": root}
    for ending, states in (("", e), ("_h", h)):
        found[f"g{ending}"] = np.exp(np.einsum("kad,ka,td->kt", w_k, q, states) / root)
        found[f"value{ending}"] = np.einsum("ko,kod,td->kt", w_l, w_v, states)
    found["alpha"] = found["g"] / found["g"].sum(axis=1, keepdims=True)
    found["mean"] = (found["alpha"] * found["value"]).sum(axis=1)
    return found


def _double(tensor: torch.Tensor) -> Any:
    return tensor.detach().double().cpu().numpy()
