"""RoBERTa and its relatives: BERT's layers, positions that begin behind the padding index, a head with tanh."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from slalom_bench.backends.architectures.base import Architecture, LayerMaps, Size, identity_rule


def _tanh_head(module: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """The head with tanh, which it applies as a function, under the identity rule."""
    x = module.dense(args[0][:, 0])
    return module.out_proj(identity_rule(x, x.tanh()))


class RobertaPositions(Architecture):
    """An architecture whose table of positions has rows up to the padding index that no token uses."""

    position_table = "embeddings.position_embeddings"

    def __init__(self, model_type: str) -> None:
        self.model_type = model_type

    def max_length(self, config: Any) -> int | None:
        """As many rows of the table as lie behind the padding index."""
        limit = super().max_length(config)
        return None if limit is None else limit - self.first_position(config)

    def first_position(self, config: Any) -> int:
        """The row behind the padding index."""
        return int(config.pad_token_id or 0) + 1


class Roberta(RobertaPositions):
    """RoBERTa (Liu et al. 2019), and XLM-RoBERTa (Conneau et al. 2020), which has the same layers."""

    deeplift = True
    maps = LayerMaps(
        "encoder.layer",
        "embeddings.LayerNorm",
        queries_and_keys=("query", "key"),
        values=("value",),
        rewritten={"RobertaClassificationHead": _tanh_head, "XLMRobertaClassificationHead": _tanh_head},
    )
    prefix, suffix = ("[CLS]",), ("[SEP]",)

    def random_classifier(self, size: Size) -> Any:
        """`RobertaForSequenceClassification` or `XLMRobertaForSequenceClassification`."""
        import transformers as hf

        config = hf.AutoConfig.for_model(
            self.model_type,
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            intermediate_size=size.feed_forward,
            max_position_embeddings=size.positions,
            hidden_dropout_prob=size.dropout,
            attention_probs_dropout_prob=0.0,
            **size.shared_by_decoders(),
        )
        return hf.AutoModelForSequenceClassification.from_config(config)
