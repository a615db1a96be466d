"""ModernBERT: rotary positions, GeGLU layers without biases, some of which attend within a window only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from slalom_bench.backends.architectures.base import Architecture, ForwardParts, LayerMaps, Size


class ModernBertParts(ForwardParts):
    """The parts of a ModernBERT classifier of the first state, every layer of which attends to the whole text.

    Queries, keys and values are one fused map; positions turn queries and keys.
    """

    turns = True

    def blocks(self) -> list[Any]:
        """The encoder's layers."""
        config = self.model.config
        if set(config.layer_types) != {"full_attention"} or config.classifier_pooling != "cls":
            raise AttributeError("windows of attention, and means of states, are left to the model")
        if config.rope_parameters["full_attention"]["rope_type"] not in ("default", "linear", "yarn"):
            raise AttributeError("frequencies that depend on the longest text of a call are left to the model")
        return list(self.base.layers)

    def embed(self, words: Tensor, positions: Tensor) -> Tensor:
        """Words, normed; positions come in with the rotations."""
        return self.base.embeddings(inputs_embeds=words)

    def scale(self, layer: Any) -> float:
        """1 / sqrt of a head's width."""
        return layer.attn.head_dim**-0.5

    def normed(self, layer: Any, x: Tensor) -> Tensor:
        """The layer norm before attention; the first layer has none."""
        return layer.attn_norm(x)

    def turned(self, layer: Any, rows: Tensor, positions: Tensor) -> Tensor:
        """Each pair of a head's halves, turned by the position times its frequency."""
        cos, sin = (part[:, None] for part in self.base.rotary_emb(rows, positions, layer.attention_type))
        heads = rows.unflatten(-1, (self.heads, -1)).float()
        one, other = heads.chunk(2, dim=-1)
        return (heads * cos + torch.cat([-other, one], dim=-1) * sin).flatten(-2).to(rows.dtype)

    def _joint(self, layer: Any, rows: slice) -> tuple[Tensor, Tensor | None]:
        """Rows of the fused map: weights and biases."""
        joint = layer.attn.Wqkv
        return joint.weight[rows], None if joint.bias is None else joint.bias[rows]

    def query(self, layer: Any, normed: Tensor) -> Tensor:
        """By the first third of the fused map."""
        return linear(normed, *self._joint(layer, slice(normed.shape[-1])))

    def key_value(self, layer: Any, normed: Tensor) -> tuple[Tensor, Tensor]:
        """By the other thirds, in one product."""
        width = normed.shape[-1]
        key, value = linear(normed, *self._joint(layer, slice(width, None))).split(width, dim=-1)
        return key, value

    def key_value_weights(self, layer: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """The other thirds of the fused map."""
        width = layer.attn.Wqkv.in_features
        (key, _), (value, bias) = (self._joint(layer, slice(i * width, (i + 1) * width)) for i in (1, 2))
        return key, value, bias

    def finish(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        """Add; norm, feed forward, add."""
        x = x + layer.attn.out_drop(layer.attn.Wo(attended))
        return x + layer.mlp(layer.mlp_norm(x))

    def classify(self, x: Tensor) -> Tensor:
        """The last norm and the head."""
        return self.model.classifier(self.model.drop(self.model.head(self.base.final_norm(x))))


class ModernBert(Architecture):
    """ModernBERT (Warner et al. 2024)."""

    model_type = "modernbert"
    classifier = "ModernBertForSequenceClassification"
    parts = ModernBertParts
    maps = LayerMaps("layers", "embeddings.norm", fused=("Wqkv",), gated=("Wi",))
    prefix, suffix = ("[CLS]",), ("[SEP]",)

    def first_position(self, config: Any) -> int:
        """Rotations by 0: only differences of position ids matter."""
        return 0

    def spreads(self, config: Any) -> bool:
        """Windows are counted in places, not in position ids."""
        return "sliding_attention" in config.layer_types and config.sliding_window < config.max_position_embeddings

    def capabilities(self, config: Any) -> frozenset[str]:
        """A classifier of mean states reads no single position, whose attention could be shown."""
        found = super().capabilities(config)
        return found if config.classifier_pooling == "cls" else found - {"attentions", "values"}

    def random_classifier(self, size: Size) -> Any:
        """`ModernBertForSequenceClassification`, every layer of which attends to the whole text."""
        import transformers as hf

        config = hf.ModernBertConfig(
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            intermediate_size=size.feed_forward,
            max_position_embeddings=size.positions,
            layer_types=["full_attention"] * size.layers,
            embedding_dropout=size.dropout,
            mlp_dropout=size.dropout,
            classifier_dropout=size.dropout,
            attention_dropout=0.0,
            cls_token_id=None,
            sep_token_id=None,
            **size.shared_by_decoders(),
        )
        return hf.ModernBertForSequenceClassification(config)
