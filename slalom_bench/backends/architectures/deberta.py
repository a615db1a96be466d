"""DeBERTa (versions 2 and 3): attention to contents and to distances; gradients and attention, no relevance rules."""

from __future__ import annotations

from typing import Any

from slalom_bench.backends.architectures.base import Architecture, Size


class DebertaV2(Architecture):
    """DeBERTa v2 and v3 (He et al. 2021, 2023).

    Its distances are counted in places, so that tokens keep theirs where hidden ones fill the gaps. It has no `maps`:
    its convolution and its pooler apply activations where no hook sees them.
    """

    model_type = "deberta-v2"
    prefix, suffix = ("[CLS]",), ("[SEP]",)

    def spreads(self, config: Any) -> bool:
        """Distances are counted in places."""
        return True

    def capabilities(self, config: Any) -> frozenset[str]:
        """Positions too: a token's distances stay when others are hidden."""
        return super().capabilities(config) | {"positions"}

    def random_classifier(self, size: Size) -> Any:
        """`DebertaV2ForSequenceClassification` with distances as in version 3."""
        import transformers as hf

        config = hf.DebertaV2Config(
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            intermediate_size=size.feed_forward,
            max_position_embeddings=size.positions,
            hidden_dropout_prob=size.dropout,
            attention_probs_dropout_prob=0.0,
            pooler_dropout=size.dropout,
            pooler_hidden_size=size.width,
            relative_attention=True,
            position_buckets=8,
            pos_att_type=["p2c", "c2p"],
            share_att_key=True,
            position_biased_input=False,
            norm_rel_ebd="layer_norm",
            type_vocab_size=0,
            **size.shared(),
        )
        return hf.DebertaV2ForSequenceClassification(config)
