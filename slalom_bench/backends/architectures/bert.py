"""BERT: layer norm behind each half-layer, classified by a pooled [CLS]."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from slalom_bench.backends.architectures.base import Architecture, ForwardParts, LayerMaps, Size


class BertParts(ForwardParts):
    """The parts of a BERT classifier that reads both ways."""

    def blocks(self) -> list[Any]:
        """The encoder's layers."""
        return list(self.base.encoder.layer)

    def embed(self, words: Tensor, positions: Tensor) -> Tensor:
        """Word, position and type 0 embeddings, summed and normed."""
        return self.base.embeddings(inputs_embeds=words[None], position_ids=positions[None])[0]

    def scale(self, layer: Any) -> float:
        """1 / sqrt of a head's width."""
        return layer.attention.self.scaling

    def query(self, layer: Any, normed: Tensor) -> Tensor:
        """By the map `query`."""
        return layer.attention.self.query(normed)

    def key_value(self, layer: Any, normed: Tensor) -> tuple[Tensor, Tensor]:
        """By the maps `key` and `value`."""
        return layer.attention.self.key(normed), layer.attention.self.value(normed)

    def key_value_weights(self, layer: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Of the maps `key` and `value`."""
        key, value = layer.attention.self.key, layer.attention.self.value
        return key.weight, value.weight, value.bias

    def finish(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        """Add and norm, feed forward, add and norm."""
        return layer.feed_forward_chunk(layer.attention.output(attended, x))

    def classify(self, x: Tensor) -> Tensor:
        """The pooler (which reads the first of a sequence of one) and the head."""
        return self.model.classifier(self.base.pooler(x[:, None]))


class Bert(Architecture):
    """BERT (Devlin et al. 2019)."""

    model_type = "bert"
    classifier = "BertForSequenceClassification"
    parts = BertParts
    deeplift = True
    maps = LayerMaps("encoder.layer", "embeddings.LayerNorm", queries_and_keys=("query", "key"), values=("value",))
    prefix, suffix = ("[CLS]",), ("[SEP]",)
    position_table = "embeddings.position_embeddings"

    def first_position(self, config: Any) -> int:
        """The first row of the table of positions."""
        return 0

    def random_classifier(self, size: Size) -> Any:
        """`BertForSequenceClassification`."""
        import transformers as hf

        config = hf.BertConfig(
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            intermediate_size=size.feed_forward,
            max_position_embeddings=size.positions,
            hidden_dropout_prob=size.dropout,
            attention_probs_dropout_prob=0.0,
            **size.shared(),
        )
        return hf.BertForSequenceClassification(config)
