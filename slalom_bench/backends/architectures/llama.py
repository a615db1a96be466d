"""Llama and its relatives: decoders with rotary positions, RMS norms and SwiGLU layers, read at the last token."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from slalom_bench.backends.architectures.base import Architecture, LayerMaps, Size


def _rms_norm(module: Any, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """The norm with its root mean square as a constant."""
    (x,) = args
    size = (x.float().pow(2).mean(dim=-1, keepdim=True) + module.variance_epsilon).sqrt().detach()
    return module.weight * (x / size.to(x.dtype))


class Llama(Architecture):
    """Llama (Touvron et al. 2023); Mistral and Qwen2 have the same layers."""

    maps = LayerMaps(
        "layers",
        "layers.0",
        queries_and_keys=("q_proj", "k_proj"),
        values=("v_proj",),
        gated=("gate_proj", "up_proj"),
        rewritten=dict.fromkeys(("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm"), _rms_norm),
    )

    def __init__(self, model_type: str) -> None:
        self.model_type = model_type

    def first_position(self, config: Any) -> int:
        """Rotations by 0: only differences of position ids matter."""
        return 0

    def spreads(self, config: Any) -> bool:
        """Where there is a window, it is counted in places, not in position ids."""
        return getattr(config, "sliding_window", None) is not None

    def random_classifier(self, size: Size) -> Any:
        """`LlamaForSequenceClassification`, or its relative's; two heads share their keys and values."""
        import transformers as hf

        config = hf.AutoConfig.for_model(
            self.model_type,
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.heads // 2,
            intermediate_size=size.feed_forward,
            max_position_embeddings=size.positions,
            attention_dropout=0.0,
            **size.shared_by_decoders(),
        )
        return hf.AutoModelForSequenceClassification.from_config(config)
