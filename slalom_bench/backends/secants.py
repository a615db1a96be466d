"""DeepLIFT's multipliers: gradients in which every non-linear step has the slope between a text and its baseline.

The rescale rule (Shrikumar et al. 2017) as a change of the gradient that leaves the forward pass alone. Rows come in
pairs: the first half of a batch are texts, the second half their baselines.

- linear steps: the gradient itself;
- an elementwise function f: (f(x) - f(b)) / (x - b), its derivative where the two are the same;
- a product of two activations: each factor gets the other's mean over text and baseline, so that the change of a
  product is shared equally (the Shapley values of two factors);
- softmax, layer norm and logsumexp: made of these (exp, sum, reciprocal, square, reciprocal root, logarithm).

So multipliers times changes of the input add up to the change of the output exactly. They are put in the place of
torch's functions for as long as a forward pass takes (`torch.overrides.TorchFunctionMode`, this thread only), on a twin
whose weights are constants: the model is not touched.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from slalom_bench.backends.lrp import ACTIVATIONS
from slalom_bench.backends.torch_backend import HFBackend, two_columns
from slalom_bench.errors import Unsupported
from slalom_bench.handle.backend import Backend

_SAME = 1e-6
"""Inputs of an elementwise function closer than this, relative to their size, have the derivative for a slope."""


class _Slope(torch.autograd.Function):
    """y with a given slope for its derivative by x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, slope: Tensor) -> Tensor:
        """The value."""
        ctx.save_for_backward(slope)
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """The slope times what comes from above."""
        (slope,) = ctx.saved_tensors
        return grads[0] * slope, None, None


def _mean(x: Tensor) -> Tensor:
    """The mean of text and baseline, for both."""
    text, base = x.detach().chunk(2)
    return torch.cat([(text + base) / 2] * 2)


def elementwise(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f(x) with the slope between text and baseline."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        y = f(leaf)
        (derivative,) = torch.autograd.grad(y.sum(), leaf)
    (text, base), (above, below) = x.detach().chunk(2), y.detach().chunk(2)
    change = text - base
    apart = change.abs() > _SAME * (text.abs() + base.abs())
    slope = torch.where(apart, (above - below) / torch.where(apart, change, 1.0), sum(derivative.chunk(2)) / 2)
    return _Slope.apply(x, y.detach(), torch.cat([slope, slope]))


def product(f: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """A bilinear f(a, b): the change shared equally by its factors."""
    if not (a.requires_grad and b.requires_grad):
        return f(a, b)
    parts = f(a, _mean(b)) + f(_mean(a), b)
    with torch.no_grad():
        rest = f(a, b) - parts
    return parts + rest


def _exp(x: Tensor) -> Tensor:
    return elementwise(torch.exp, x)


def _reciprocal(x: Tensor) -> Tensor:
    return elementwise(torch.reciprocal, x)


def _highest(x: Tensor, dim: int) -> Tensor:
    """The largest entry along a dimension of text and baseline together, so that one function serves both."""
    text, base = x.detach().amax(dim, keepdim=True).chunk(2)
    return torch.cat([torch.maximum(text, base)] * 2)


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) times the reciprocal of its sum."""
    exp = _exp(x - _highest(x, dim))
    return product(torch.mul, exp, _reciprocal(exp.sum(dim, keepdim=True)))


def logsumexp(x: Tensor, dim: int) -> Tensor:
    """The logarithm of the sum of exp(x)."""
    highest = _highest(x, dim)
    return elementwise(torch.log, _exp(x - highest).sum(dim)) + highest.squeeze(dim)


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, *, centred: bool = True) -> Tensor:
    """Deviations from the mean times the reciprocal of their root mean square, weight and bias."""
    deviation = x - x.mean(-1, keepdim=True) if centred else x
    variance = elementwise(torch.square, deviation).mean(-1, keepdim=True)
    out = product(torch.mul, deviation, elementwise(torch.rsqrt, variance + eps))
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """Scaled dot-product attention in its parts."""
    if k.shape[1] != q.shape[1]:  # grouped queries
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], dim=1) for part in (k, v))
    scores = product(torch.matmul, q, k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        scores = scores + mask
    return product(torch.matmul, softmax(scores), v)


def _dtype(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    return x if dtype is None else x.to(dtype)


def _softmax(x: Tensor, dim: int = -1, *_: Any, dtype: torch.dtype | None = None, **__: Any) -> Tensor:
    return softmax(_dtype(x, dtype), dim)


def _layer_norm(
    x: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *_: Any
) -> Tensor:
    return layer_norm(x, weight, bias, eps)


def _rms_norm(x: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    return layer_norm(x, weight, None, torch.finfo(x.dtype).eps if eps is None else eps, centred=False)


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    return attention(q, k, v, attn_mask, is_causal, scale)


def _times(a: Any, b: Any) -> Tensor:
    return product(torch.mul, a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a * b


def _over(a: Any, b: Any) -> Tensor:
    return _times(a, _reciprocal(b)) if isinstance(b, Tensor) and b.requires_grad else a / b


def _added(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    return beta * x + alpha * product(torch.bmm, batch1, batch2)


RULES: Mapping[str, Callable[..., Tensor]] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "scaled_dot_product_attention": _attention,
    "logsumexp": logsumexp,
    "mul": _times,
    "matmul": lambda a, b: product(torch.matmul, a, b),
    "bmm": lambda a, b: product(torch.bmm, a, b),
    "baddbmm": _added,
    "div": _over,
    "truediv": _over,
}
"""By name, functions that are made of elementwise ones and products."""
ELEMENTWISE = frozenset(
    [
        "gelu",
        "tanh",
        "relu",
        "silu",
        "sigmoid",
        "softplus",
        "elu",
        "leaky_relu",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "square",
        "pow",
        "abs",
    ]
)


class Secants(TorchFunctionMode):
    """Inside it torch's functions of activations have DeepLIFT's multipliers for their gradients."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The rule of the function's name, where it is given an activation; else the function."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "").strip("_")
        if not any(isinstance(arg, Tensor) and arg.requires_grad for arg in (*args, *kwargs.values())):
            return func(*args, **kwargs)
        if name == "rmul":
            name, args = "mul", args[::-1]
        if name in ELEMENTWISE:
            x, *rest = args
            return elementwise(lambda part: func(part, *rest, **kwargs), x)
        return RULES.get(name, func)(*args, **kwargs)


def _activation(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """A whole activation module as one elementwise function, however many steps it takes inside."""
    with torch._C.DisableTorchFunction():
        return elementwise(module.forward, args[0]) if output.requires_grad else output


def with_constant_weights(module: nn.Module) -> nn.Module:
    """A twin whose parameters share the module's storage and need no gradient; activations have one slope each."""
    constants = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in module.parameters()}
    made = copy.deepcopy(module, {**constants, **{id(buffer): buffer for buffer in module.buffers()}})
    for part in made.modules():
        if type(part).__module__ in ACTIVATIONS:
            part.register_forward_hook(_activation)
    return made


class DeepLift:
    """A model with DeepLIFT's multipliers for gradients.

    Args:
        backend: a transformers classifier.
    """

    def __init__(self, backend: Backend) -> None:
        if not isinstance(backend, HFBackend):
            raise Unsupported(f"model {backend.name} gives no deeplift")
        self.backend = backend
        self.module = with_constant_weights(backend.module)

    def logits(self, words: Tensor) -> Tensor:
        """Logits (batch x classes) of word embeddings, the first half of the rows texts, the second their baselines."""
        return two_columns(self.backend.forward(self.module, None, inputs_embeds=words))
