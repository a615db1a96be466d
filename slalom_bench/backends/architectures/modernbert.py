"""ModernBERT: rotary positions, GeGLU layers without biases, some of which attend within a window only."""

from __future__ import annotations

from typing import Any

from slalom_bench.backends.architectures.base import Architecture, LayerMaps, Size


class ModernBert(Architecture):
    """ModernBERT (Warner et al. 2024)."""

    model_type = "modernbert"
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
