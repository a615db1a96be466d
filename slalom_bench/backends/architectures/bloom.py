"""BLOOM: a decoder whose attention knows positions by distance alone (ALiBi), classified by the last token."""

from __future__ import annotations

from typing import Any

from slalom_bench.backends.architectures.base import Architecture, Size


class Bloom(Architecture):
    """BLOOM (BigScience 2022)."""

    model_type = "bloom"

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
