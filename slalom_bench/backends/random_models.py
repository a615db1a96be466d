"""Small random models for tests and for `slalom-bench check`: every architecture, no download, under a second."""

from __future__ import annotations

import torch

from slalom_bench.backends.architectures import architecture_named
from slalom_bench.backends.architectures.base import Size
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.tokens import WordTokens

POSITIONS = 514
"""The longest sequence, special tokens included."""


def word_tokens(size: int = 60, architecture: str = "bert") -> WordTokens:
    """A vocabulary w0..w{size-1} inside an architecture's special tokens: [CLS] .. [SEP] for BERT.

    >>> word_tokens(2).strings
    ['[PAD]', '[UNK]', '[MASK]', '[CLS]', '[SEP]', 'w0', 'w1']
    """
    return architecture_named(architecture).word_tokens([f"w{i}" for i in range(size)])


def random_backend(
    architecture: str = "bert",
    *,
    seed: int = 0,
    classes: int = 2,
    width: int = 32,
    layers: int = 2,
    vocabulary: int = 60,
    scale: float | None = None,
) -> HFBackend:
    """A randomly initialised sequence classifier over the words w0, w1, ..., the same in every process.

    Args:
        architecture: the `model_type` of one that `backends.architectures` knows how to build.
        seed: of the weights; torch's own generator is left as it was.
        classes: of the output; 1 makes a one-logit model of two classes.
        width: of the embeddings.
        layers: how many.
        vocabulary: how many words there are beside the special tokens.
        scale: what the weights (tables of embeddings excepted) are multiplied by, so that tokens matter; by default
            what the architecture says.

    Returns:
        The model in evaluation mode on the CPU. Encoders read [CLS] .. [SEP], decoders nothing but the words.
    """
    family = architecture_named(architecture)
    tokens = word_tokens(vocabulary, architecture)
    names = [f"class{i}" for i in range(classes)]
    factor = family.random_scale if scale is None else scale
    size = Size(len(tokens), tokens.pad_id, names, layers=layers, width=width, positions=POSITIONS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = family.random_classifier(size)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_table = any(part in name for part in ("embed", "wte", "wpe"))
            if parameter.dim() > 1 and not is_table:
                parameter.mul_(factor)
    known = tuple(f"class{i}" for i in range(max(2, classes)))
    return HFBackend(module.eval(), tokens, name=f"random-{architecture}", class_names=known)
