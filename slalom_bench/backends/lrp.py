"""Layer-wise relevance propagation for transformers, as gradient x input under other backward rules.

Attention-aware LRP (Achtibat et al. 2024): every rule is a change of the gradient that leaves the forward pass alone.

- linear layers: the gradient itself (epsilon rule, epsilon 0);
- an activation f: gradient f(x)/x, so that relevance passes unchanged (identity rule);
- layer normalisation: the standard deviation is a constant;
- a product of two activations, A V and Q K^T: half of the gradient to each factor (uniform rule), so 1/2 for V and,
  through both products, 1/4 for Q and K;
- softmax: the gradient itself (its first-order Taylor rule). The CP variant passes nothing through it: V gets all.

The rules are forward hooks on a twin that shares its weights with the model: the model itself is never touched, so
there is nothing to undo after an error and nothing for another thread to see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from slalom_bench.backends.torch_backend import twin
from slalom_bench.errors import Unsupported

RULES = {"attn": (0.25, 0.5), "cp": (0.0, 1.0)}
"""What the gradients of queries and keys, and of values, are multiplied by."""

EMBEDDING_SUM = {
    "bert": "embeddings.LayerNorm",
    "distilbert": "embeddings.LayerNorm",
    "gpt2": "drop",
    "roberta": "embeddings.LayerNorm",
}
"""By supported architecture, the module that is given the sum of word, position and type embeddings."""

QUERIES_AND_KEYS = ("query", "key", "q_lin", "k_lin")
VALUES = ("value", "v_lin")
FUSED = ("c_attn",)
ACTIVATIONS = ("transformers.activations", "torch.nn.modules.activation")


def identity(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """y = f(x), with f(x)/x for its derivative; where x is 0 no relevance arrives and none is passed on."""
    return x * torch.where(x == 0, 0.0, y / x).detach()


def _activation(module: nn.Module, args: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return identity(args[0], output)


def _norm(module: Any, args: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    (x,) = args
    centred = x - x.mean(dim=-1, keepdim=True)
    deviation = (x.var(dim=-1, keepdim=True, correction=0) + module.eps).sqrt().detach()
    return centred / deviation * module.weight + module.bias


def _tanh_head(module: Any, args: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    """RoBERTa's head applies tanh as a function, which no hook can see."""
    x = module.dense(args[0][:, 0])
    return module.out_proj(identity(x, x.tanh()))


def _scaled(*factors: float) -> Callable[..., torch.Tensor]:
    """A hook that multiplies the gradient of an output's equal parts, one factor each."""

    def hook(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        if output.requires_grad:
            parts = torch.tensor(factors, dtype=output.dtype, device=output.device)
            scale = parts.repeat_interleave(output.shape[-1] // len(factors))
            output.register_hook(lambda grad: grad * scale)
        return output

    return hook


class Relevance:
    """A rewired twin; `sums` are the embedding sums (word + position + type) of the last forward pass."""

    def __init__(self, model: nn.Module, rule: str) -> None:
        config: Any = model.config
        kind = getattr(config, "model_type", type(model).__name__)
        if kind not in EMBEDDING_SUM:
            raise Unsupported(f"no relevance rules for {kind}; supported: {', '.join(EMBEDDING_SUM)}")
        self.module = twin(model)
        self.sums = torch.empty(0)
        base: Any = self.module.base_model
        base.get_submodule(EMBEDDING_SUM[kind]).register_forward_pre_hook(self._remember)
        hooked = [part for name, part in self.module.named_modules() if self._rewire(name, part, *RULES[rule])]
        expected = config.num_hidden_layers * (1 if kind == "gpt2" else 3)
        if len(hooked) != expected:
            raise Unsupported(f"{kind}: {len(hooked)} query, key and value maps where {expected} were expected")

    def _remember(self, module: nn.Module, args: tuple[torch.Tensor]) -> None:
        self.sums = args[0].detach()

    def _rewire(self, name: str, part: nn.Module, query_key: float, value: float) -> bool:
        """Hook one module; whether it was a map to queries, keys or values."""
        last = name.rpartition(".")[2]
        if isinstance(part, nn.LayerNorm):
            part.register_forward_hook(_norm)
        elif type(part).__module__ in ACTIVATIONS:
            part.register_forward_hook(_activation)
        elif type(part).__name__ == "RobertaClassificationHead":
            part.register_forward_hook(_tanh_head)
        elif last in QUERIES_AND_KEYS:
            part.register_forward_hook(_scaled(query_key))
        elif last in VALUES:
            part.register_forward_hook(_scaled(value))
        elif last in FUSED:
            part.register_forward_hook(_scaled(query_key, query_key, value))
        return last in (*QUERIES_AND_KEYS, *VALUES, *FUSED)
