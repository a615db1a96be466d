"""GPT-2: causal attention, layer norm before each half-layer, classified by the last token; no special tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import linear

from slalom_bench.backends.architectures.base import Architecture, ForwardParts, LayerMaps, Size


class Gpt2Parts(ForwardParts):
    """The parts of a GPT-2 classifier; queries, keys and values are one fused map, stored transposed."""

    causal = True

    def blocks(self) -> list[Any]:
        """The decoder's layers."""
        return list(self.base.h)

    def embed(self, words: Tensor, positions: Tensor) -> Tensor:
        """Word and position embeddings, summed."""
        return words + self.base.wpe(positions)

    def scale(self, layer: Any) -> float:
        """1 / sqrt of a head's width."""
        return layer.attn.scaling

    def normed(self, layer: Any, x: Tensor) -> Tensor:
        """The layer norm before attention."""
        return layer.ln_1(x)

    def query(self, layer: Any, normed: Tensor) -> Tensor:
        """By the first third of `c_attn`."""
        joint, width = layer.attn.c_attn, normed.shape[-1]
        return linear(normed, joint.weight[:, :width].T, joint.bias[:width])

    def key_value(self, layer: Any, normed: Tensor) -> tuple[Tensor, Tensor]:
        """By the other thirds of `c_attn`, in one product."""
        joint, width = layer.attn.c_attn, normed.shape[-1]
        key, value = linear(normed, joint.weight[:, width:].T, joint.bias[width:]).split(width, dim=-1)
        return key, value

    def key_value_weights(self, layer: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """The other thirds of `c_attn`."""
        _, key, value = layer.attn.c_attn.weight.T.chunk(3)
        return key, value, layer.attn.c_attn.bias.chunk(3)[2]

    def finish(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        """Add; norm, feed forward, add."""
        x = x + layer.attn.c_proj(attended)
        return x + layer.mlp(layer.ln_2(x))

    def classify(self, x: Tensor) -> Tensor:
        """The last norm and the head."""
        return self.model.score(self.base.ln_f(x).to(self.model.score.weight.dtype))


class Gpt2(Architecture):
    """GPT-2 (Radford et al. 2019)."""

    model_type = "gpt2"
    classifier = "GPT2ForSequenceClassification"
    parts = Gpt2Parts
    deeplift = True
    maps = LayerMaps("h", "drop", fused=("c_attn",))
    position_table = "wpe"

    def first_position(self, config: Any) -> int:
        """The first row of the table of positions."""
        return 0

    def random_classifier(self, size: Size) -> Any:
        """`GPT2ForSequenceClassification`."""
        import transformers as hf

        config = hf.GPT2Config(
            n_embd=size.width,
            n_layer=size.layers,
            n_head=size.heads,
            n_inner=size.feed_forward,
            n_positions=size.positions,
            embd_pdrop=size.dropout,
            resid_pdrop=size.dropout,
            attn_pdrop=0.0,
            activation_function="gelu_pytorch_tanh",
            **size.shared_by_decoders(),
        )
        return hf.GPT2ForSequenceClassification(config)
