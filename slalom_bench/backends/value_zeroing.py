"""A twin of a transformer whose layers each read the states of the full text, with one token's value vectors zeroed.

A row of a batch zeroes one position, in every layer at once; before each layer the row's states are put back to those
of the full text, so that what a layer gives is what that layer alone makes of the zeroing. All layers of a row thus
cost one forward pass. The hooks are on a twin that shares its weights with the model: the model is never touched.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from slalom_bench.backends.architectures import architecture_of
from slalom_bench.backends.modules import twin
from slalom_bench.backends.torch_backend import HFBackend, two_columns
from slalom_bench.errors import Unsupported
from slalom_bench.handle.backend import Backend


class ValueZeroing:
    """Layer outputs of a text, and what they become without one token's values.

    Args:
        backend: a transformers classifier of an architecture with `LayerMaps` and layers of their own; any other is
            `Unsupported`.
    """

    def __init__(self, backend: Backend) -> None:
        config: Any = backend.module.config if isinstance(backend, HFBackend) else None
        maps = architecture_of(config).maps
        if not isinstance(backend, HFBackend) or maps is None or not maps.layers:
            raise Unsupported(f"model {backend.name} gives no values: the maps of its layers are not known")
        self.backend = backend
        self.module = twin(backend.module)
        self.zeroed: torch.Tensor | None = None
        """The position that each row of the next batch zeroes; None records the states of the full text."""
        self.inputs: list[torch.Tensor] = []
        """Of every layer, for the full text (1 x length x width)."""
        self.outputs: list[torch.Tensor] = []
        """Of every layer, for the last batch (batch x length x width)."""
        base: Any = self.module.base_model
        for number, layer in enumerate(base.get_submodule(maps.layers)):
            layer.register_forward_pre_hook(self._before(number), with_kwargs=True)
            layer.register_forward_hook(self._after)
        for name, part in self.module.named_modules():
            factors = maps.factors(
                name.rpartition(".")[2], config.num_attention_heads, query_key=1.0, value=0.0, gate=1.0
            )
            if 0.0 in factors:
                part.register_forward_hook(self._zeroes(factors))

    def logits(self, words: torch.Tensor) -> torch.Tensor:
        """Logits (batch x classes) of word embeddings (batch x length x width); `outputs` are those of its layers."""
        self.outputs = []
        if self.zeroed is None:
            self.inputs = []
        return two_columns(self.backend.forward(self.module, None, inputs_embeds=words))

    def _before(self, number: int) -> Any:
        """A hook that gives a layer the full text's states, or records them."""

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            states = args[0] if args else kwargs["hidden_states"]
            if self.zeroed is None:
                self.inputs.append(states)
                return None
            whole = self.inputs[number].expand_as(states)
            return ((whole, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": whole})

        return hook

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        self.outputs.append(output[0] if isinstance(output, tuple) else output)

    def _zeroes(self, factors: tuple[float, ...]) -> Any:
        """A hook that multiplies an output's equal parts, one factor each, at the position that a row zeroes."""

        def hook(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
            if self.zeroed is None:
                return output
            parts = torch.tensor(factors, dtype=output.dtype, device=output.device)
            changed = output.clone()
            rows = torch.arange(len(output), device=output.device)
            changed[rows, self.zeroed] *= parts.repeat_interleave(output.shape[-1] // len(factors))
            return changed

        return hook
