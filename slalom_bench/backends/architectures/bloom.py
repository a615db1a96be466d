"""BLOOM: a decoder whose attention knows positions by distance alone (ALiBi), classified by the last token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from slalom_bench.backends.architectures.base import Architecture, LayerMaps, Size, identity_rule
from slalom_bench.backends.modules import twin


def _gelu(module: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """BLOOM's own activation under the identity rule."""
    return identity_rule(args[0], output)


class Bloom(Architecture):
    """BLOOM (BigScience 2022).

    The model counts attended tokens when it measures distances, so that hiding one would move those behind it nearer.
    Queries go to a twin whose distances count every place, hidden or not: without hidden ones it is the model.
    """

    model_type = "bloom"
    maps = LayerMaps(
        "h", "word_embeddings_layernorm", fused_by_head=("query_key_value",), rewritten={"BloomGelu": _gelu}
    )

    def spreads(self, config: Any) -> bool:
        """Distances are counted in places."""
        return True

    def keeping_places(self, model: nn.Module) -> nn.Module:
        """A twin whose distances are those of an input without padding."""
        made: Any = twin(model)
        biases = type(made.base_model).build_alibi_tensor

        def build(attention_mask: Tensor, num_heads: int, dtype: torch.dtype) -> Tensor:
            return biases(made.base_model, torch.ones_like(attention_mask), num_heads, dtype)

        made.base_model.build_alibi_tensor = build
        return made

    def capabilities(self, config: Any) -> frozenset[str]:
        """Positions too: a token's distances stay when others are hidden."""
        return super().capabilities(config) | {"positions"}

    def random_classifier(self, size: Size) -> Any:
        """`BloomForSequenceClassification`."""
        import transformers as hf

        config = hf.BloomConfig(
            hidden_size=size.width,
            n_layer=size.layers,
            n_head=size.heads,
            hidden_dropout=size.dropout,
            attention_dropout=0.0,
            **size.shared_by_decoders(),
        )
        return hf.BloomForSequenceClassification(config)
