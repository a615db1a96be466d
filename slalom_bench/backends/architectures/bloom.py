"""BLOOM: a decoder whose attention knows positions by distance alone (ALiBi), classified by the last token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from slalom_bench.backends.architectures.base import Architecture, ForwardParts, LayerMaps, Size, identity_rule
from slalom_bench.backends.modules import twin


def _gelu(module: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """BLOOM's own activation under the identity rule."""
    return identity_rule(args[0], output)


class BloomParts(ForwardParts):
    """The parts of a BLOOM classifier; each head's query, key and value stand together in one fused map."""

    causal = True

    def blocks(self) -> list[Any]:
        """The decoder's layers."""
        return list(self.base.h)

    def embed(self, words: Tensor, positions: Tensor) -> Tensor:
        """Words, normed; places come in with the scores."""
        return self.base.word_embeddings_layernorm(words)

    def place_bias(self, length: int) -> Tensor:
        """ALiBi: a slope for each head times the key's place, which is minus the distance but for a constant."""
        weight = self.base.word_embeddings.weight
        ones = torch.ones((1, length), dtype=torch.int64, device=weight.device)
        return self.base.build_alibi_tensor(ones, self.heads, weight.dtype).reshape(self.heads, length)

    def scale(self, layer: Any) -> float:
        """1 / sqrt of a head's width."""
        return layer.self_attention.inv_norm_factor

    def normed(self, layer: Any, x: Tensor) -> Tensor:
        """The layer norm before attention."""
        return layer.input_layernorm(x)

    def query_key_value(self, layer: Any, normed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """By the fused map; its weights taken apart would be copies that a backward pass keeps."""
        joint = layer.self_attention.query_key_value(normed).unflatten(-1, (self.heads, 3, -1))
        query, key, value = (joint[:, :, i].flatten(1) for i in range(3))
        return query, key, value

    def _third(self, layer: Any, which: int) -> tuple[Tensor, Tensor]:
        """Weights and biases of all queries (0), keys (1) or values (2)."""
        joint = layer.self_attention.query_key_value
        weight, bias = (
            part.unflatten(0, (self.heads, 3, -1))[:, which].flatten(0, 1) for part in (joint.weight, joint.bias)
        )
        return weight, bias

    def query(self, layer: Any, normed: Tensor) -> Tensor:
        """By the first third of each head's map."""
        return linear(normed, *self._third(layer, 0))

    def key_value(self, layer: Any, normed: Tensor) -> tuple[Tensor, Tensor]:
        """By the other thirds."""
        return linear(normed, *self._third(layer, 1)), linear(normed, *self._third(layer, 2))

    def key_value_weights(self, layer: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """The other thirds of each head's map."""
        (key, _), (value, bias) = self._third(layer, 1), self._third(layer, 2)
        return key, value, bias

    def finish(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        """Add; norm, feed forward, add. What is added may be the norm of it."""
        normed_first = self.model.config.apply_residual_connection_post_layernorm
        x = layer.self_attention.dense(attended) + (layer.input_layernorm(x) if normed_first else x)
        normed = layer.post_attention_layernorm(x)
        return layer.mlp(normed, normed if normed_first else x)

    def classify(self, x: Tensor) -> Tensor:
        """The last norm and the head."""
        return self.model.score(self.base.ln_f(x).to(self.model.score.weight.dtype))


class Bloom(Architecture):
    """BLOOM (BigScience 2022).

    The model counts attended tokens when it measures distances, so that hiding one would move those behind it nearer.
    Queries go to a twin whose distances count every place, hidden or not: without hidden ones it is the model.
    """

    model_type = "bloom"
    classifier = "BloomForSequenceClassification"
    parts = BloomParts
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
