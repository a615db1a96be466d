"""Layer-wise relevance propagation for transformers, as gradient x input under other backward rules.

Attention-aware LRP (Achtibat et al. 2024): every rule is a change of the gradient that leaves the forward pass alone.

- linear layers: the gradient itself (epsilon rule, epsilon 0);
- an activation f: gradient f(x)/x, so that relevance passes unchanged (identity rule);
- layer normalisation: the standard deviation is a constant;
- a product of two activations, A V and Q K^T: half of the gradient to each factor (uniform rule), so 1/2 for V and,
  through both products, 1/4 for Q and K; a gate (GeGLU) 1/2 for either factor; a rotation of Q and K is linear;
- softmax: the gradient itself (its first-order Taylor rule). The CP variant passes nothing through it: V gets all.

Which modules are maps to queries, keys and values an architecture says (`architectures.base.LayerMaps`).
The rules are forward hooks on a twin that shares its weights with the model: the model itself is never touched, so
there is nothing to undo after an error and nothing for another thread to see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from slalom_bench.backends.architectures import architecture_of, with_relevance
from slalom_bench.backends.architectures.base import LayerMaps, identity_rule
from slalom_bench.backends.modules import twin
from slalom_bench.backends.torch_backend import HFBackend, two_columns
from slalom_bench.errors import Unsupported
from slalom_bench.handle.backend import Backend

RULES = {"attn": (0.25, 0.5), "cp": (0.0, 1.0)}
"""What the gradients of queries and keys, and of values, are multiplied by."""

ACTIVATIONS = ("transformers.activations", "torch.nn.modules.activation")
"""The modules whose classes are activation functions."""


def _activation(module: nn.Module, args: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return identity_rule(args[0], output)


def _norm(module: Any, args: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    (x,) = args
    centred = x - x.mean(dim=-1, keepdim=True)
    deviation = (x.var(dim=-1, keepdim=True, correction=0) + module.eps).sqrt().detach()
    normed = centred / deviation * module.weight
    return normed if module.bias is None else normed + module.bias


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
    """A twin of a model, rewired so that gradient x input is relevance.

    Args:
        backend: a transformers classifier of an architecture with `LayerMaps`; any other is `Unsupported`.
        rule: a name in `RULES`.
    """

    def __init__(self, backend: Backend, rule: str) -> None:
        config: Any = backend.module.config if isinstance(backend, HFBackend) else None
        architecture = architecture_of(config)
        maps = architecture.maps
        if not isinstance(backend, HFBackend) or maps is None:
            kind = f"model {backend.name}" if config is None else config.model_type
            raise Unsupported(f"no relevance rules for {kind}; supported: {', '.join(with_relevance())}")
        self.backend = backend
        self.module = twin(backend.module)
        self.sums = torch.empty(0)
        """The embedding sums (word + position + type; batch x length x width) of the last forward pass."""
        base: Any = self.module.base_model
        base.get_submodule(maps.embedding_sum).register_forward_pre_hook(self._remember)
        heads, (query_key, value) = config.num_attention_heads, RULES[rule]
        hooked = 0
        for name, part in self.module.named_modules():
            _rewire(maps, part)
            factors = maps.factors(name.rpartition(".")[2], heads, query_key=query_key, value=value, gate=0.5)
            if factors:
                part.register_forward_hook(_scaled(*factors))
                hooked += 1
        expected = architecture.stored_layers(config) * maps.per_layer
        if hooked != expected:
            raise Unsupported(f"{backend.name}: {hooked} query, key and value maps where {expected} were expected")

    def logits(self, words: torch.Tensor) -> torch.Tensor:
        """The model's logits (batch x classes) of word embeddings (batch x length x width), under the rules."""
        return two_columns(self.backend.forward(self.module, None, inputs_embeds=words))

    def _remember(self, module: nn.Module, args: tuple[torch.Tensor]) -> None:
        self.sums = args[0].detach()


def _rewire(maps: LayerMaps, part: nn.Module) -> None:
    """Hook what is treated by its kind: norms, activations, and modules that hide one."""
    if isinstance(part, nn.LayerNorm):
        part.register_forward_hook(_norm)
    elif type(part).__module__ in ACTIVATIONS:
        part.register_forward_hook(_activation)
    elif type(part).__name__ in maps.rewritten:
        part.register_forward_hook(maps.rewritten[type(part).__name__])
