"""DistilBERT: BERT's layers under other names, classified by [CLS] through a ReLU layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import relu

from slalom_bench.backends.architectures.base import Architecture, ForwardParts, LayerMaps, Size


class DistilBertParts(ForwardParts):
    """The parts of a DistilBERT classifier."""

    def blocks(self) -> list[Any]:
        """The transformer's layers."""
        return list(self.base.transformer.layer)

    def embed(self, words: Tensor, positions: Tensor) -> Tensor:
        """Word and position embeddings, summed and normed."""
        return self.base.embeddings(None, words[None], positions[None])[0]

    def scale(self, layer: Any) -> float:
        """1 / sqrt of a head's width."""
        return layer.attention.scaling

    def query(self, layer: Any, normed: Tensor) -> Tensor:
        """By the map `q_lin`."""
        return layer.attention.q_lin(normed)

    def key_value(self, layer: Any, normed: Tensor) -> tuple[Tensor, Tensor]:
        """By the maps `k_lin` and `v_lin`."""
        return layer.attention.k_lin(normed), layer.attention.v_lin(normed)

    def key_value_weights(self, layer: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Of the maps `k_lin` and `v_lin`."""
        key, value = layer.attention.k_lin, layer.attention.v_lin
        return key.weight, value.weight, value.bias

    def finish(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        """Add and norm, feed forward, add and norm."""
        x = layer.sa_layer_norm(layer.attention.out_lin(attended) + x)
        return layer.output_layer_norm(layer.ffn.ff_chunk(x) + x)

    def classify(self, x: Tensor) -> Tensor:
        """A ReLU layer and the head."""
        return self.model.classifier(relu(self.model.pre_classifier(x)))


class DistilBert(Architecture):
    """DistilBERT (Sanh et al. 2019)."""

    model_type = "distilbert"
    classifier = "DistilBertForSequenceClassification"
    parts = DistilBertParts
    deeplift = True
    maps = LayerMaps(
        "transformer.layer", "embeddings.LayerNorm", queries_and_keys=("q_lin", "k_lin"), values=("v_lin",)
    )
    prefix, suffix = ("[CLS]",), ("[SEP]",)
    position_table = "embeddings.position_embeddings"

    def first_position(self, config: Any) -> int:
        """The first row of the table of positions."""
        return 0

    def random_classifier(self, size: Size) -> Any:
        """`DistilBertForSequenceClassification`."""
        import transformers as hf

        config = hf.DistilBertConfig(
            dim=size.width,
            n_layers=size.layers,
            n_heads=size.heads,
            hidden_dim=size.feed_forward,
            max_position_embeddings=size.positions,
            dropout=size.dropout,
            attention_dropout=0.0,
            seq_classif_dropout=size.dropout,
            **size.shared(),
        )
        return hf.DistilBertForSequenceClassification(config)
