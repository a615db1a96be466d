"""ALBERT: BERT's layers, all of which share their weights, classified by a pooled [CLS]."""

from __future__ import annotations

from typing import Any

from slalom_bench.backends.architectures.base import Architecture, LayerMaps, Size


class Albert(Architecture):
    """ALBERT (Lan et al. 2020)."""

    model_type = "albert"
    deeplift = True
    maps = LayerMaps("", "embeddings.LayerNorm", queries_and_keys=("query", "key"), values=("value",))
    prefix, suffix = ("[CLS]",), ("[SEP]",)

    def first_position(self, config: Any) -> int:
        """The first row of the table of positions."""
        return 0

    def stored_layers(self, config: Any) -> int:
        """One for each group, or as many as a group has."""
        return int(config.num_hidden_groups * config.inner_group_num)

    def random_classifier(self, size: Size) -> Any:
        """`AlbertForSequenceClassification`, its embeddings half as wide as its layers."""
        import transformers as hf

        config = hf.AlbertConfig(
            embedding_size=size.width // 2,
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            intermediate_size=size.feed_forward,
            max_position_embeddings=size.positions,
            hidden_dropout_prob=size.dropout,
            attention_probs_dropout_prob=0.0,
            classifier_dropout_prob=size.dropout,
            **size.shared_by_decoders(),
        )
        return hf.AlbertForSequenceClassification(config)
