"""Small random models for tests and for `slalom-bench check`: every architecture, no download, under a second."""

from __future__ import annotations

from typing import Any

import torch

from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.tokens import WordTokens

ARCHITECTURES = ("bert", "distilbert", "gpt2")


def word_tokens(size: int = 60, *, specials: bool = True) -> WordTokens:
    """A vocabulary w0..w{size-1}, inside [CLS] .. [SEP] if `specials`."""
    words = [f"w{i}" for i in range(size)]
    return WordTokens(words, prefix=["[CLS]"], suffix=["[SEP]"]) if specials else WordTokens(words)


def random_backend(
    architecture: str = "bert",
    *,
    seed: int = 0,
    classes: int = 2,
    width: int = 32,
    layers: int = 2,
    vocabulary: int = 60,
    scale: float = 8.0,
) -> HFBackend:
    """A randomly initialised sequence classifier; `scale` enlarges the weights so that tokens matter (but Mamba's).

    Encoders read [CLS] .. [SEP], decoders nothing but the words.
    """
    import transformers as hf

    tokens = word_tokens(vocabulary, specials="bert" in architecture)
    shared: dict[str, Any] = {"vocab_size": len(tokens), "num_labels": classes, "pad_token_id": 0}
    shared |= {"bos_token_id": None, "eos_token_id": None}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module: Any
        if architecture == "bert":
            config: Any = hf.BertConfig(
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=4,
                intermediate_size=2 * width,
                max_position_embeddings=514,
                **shared,
            )
            module = hf.BertForSequenceClassification(config)
        elif architecture == "distilbert":
            config = hf.DistilBertConfig(
                dim=width, n_layers=layers, n_heads=4, hidden_dim=2 * width, max_position_embeddings=514, **shared
            )
            module = hf.DistilBertForSequenceClassification(config)
        elif architecture == "mamba":
            from slalom_bench.backends.nets import MambaForSequenceClassification

            config = hf.MambaConfig(
                hidden_size=width, state_size=8, num_hidden_layers=layers, time_step_rank=4, **shared
            )
            module = MambaForSequenceClassification(config)
        else:
            config = hf.GPT2Config(n_embd=width, n_layer=layers, n_head=4, n_positions=514, **shared)
            module = hf.GPT2ForSequenceClassification(config)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                is_table = any(part in name for part in ("embed", "wte", "wpe"))
                if parameter.dim() > 1 and architecture != "mamba" and not is_table:
                    parameter.mul_(scale)
    names = tuple(f"class{i}" for i in range(max(2, classes)))
    return HFBackend(module.eval(), tokens, name=f"random-{architecture}", class_names=names)
