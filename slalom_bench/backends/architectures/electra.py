"""ELECTRA: BERT's layers behind embeddings of a width of their own, classified by [CLS] through a GELU layer."""

from __future__ import annotations

from typing import Any

from slalom_bench.backends.architectures.base import Architecture, LayerMaps, Size


class Electra(Architecture):
    """ELECTRA (Clark et al. 2020)."""

    model_type = "electra"
    deeplift = True
    maps = LayerMaps("encoder.layer", "embeddings.LayerNorm", queries_and_keys=("query", "key"), values=("value",))
    prefix, suffix = ("[CLS]",), ("[SEP]",)

    def first_position(self, config: Any) -> int:
        """The first row of the table of positions."""
        return 0

    def random_classifier(self, size: Size) -> Any:
        """`ElectraForSequenceClassification`, its embeddings half as wide as its layers."""
        import transformers as hf

        config = hf.ElectraConfig(
            embedding_size=size.width // 2,
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            intermediate_size=size.feed_forward,
            max_position_embeddings=size.positions,
            hidden_dropout_prob=size.dropout,
            attention_probs_dropout_prob=0.0,
            **size.shared(),
        )
        return hf.ElectraForSequenceClassification(config)
