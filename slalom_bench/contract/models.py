"""The small models that the contract runs explainers on: a random one, and two where a few tokens carry all signal."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache

import numpy as np
import torch

from slalom_bench.backends.architectures import architecture_named
from slalom_bench.backends.architectures.base import Size
from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.backends.random_models import POSITIONS, random_backend, word_tokens
from slalom_bench.backends.torch_backend import HFBackend, TorchBackend
from slalom_bench.core.seeds import generator
from slalom_bench.core.types import Example

WORDS = 60
PLANTED = 12
"""The first words of the vocabulary: the even ones speak for class 1, the odd ones against it."""
VALUE, IMPORTANCE = 4.0, 2.0


@cache
def random_bert() -> TorchBackend:
    """A random BERT: queries, gradients and attentions, [CLS] and [SEP] round every text."""
    return random_backend("bert", vocabulary=WORDS)


@cache
def three_classes() -> TorchBackend:
    """The same with three classes."""
    return random_backend("bert", vocabulary=WORDS, classes=3)


@cache
def planted_transformer() -> TorchBackend:
    """The SLALOM transformer (proposition 5.1) with planted values and importances; no special tokens."""
    value, importance = _planted()
    return slalom_transformer(value, importance)


@cache
def planted_bert() -> TorchBackend:
    """The same signal in a one-layer BERT, for the explainers that know only real architectures.

    Word embeddings hold importance, value, nothing and a little noise; the query bias makes importance the attention
    score, the value map moves value to the third component, and the head reads it at [CLS].
    """
    tokens = word_tokens(WORDS)
    width, classes = 32, ("negative", "positive")
    size = Size(len(tokens), tokens.pad_id, classes, layers=1, width=width, positions=POSITIONS, heads=1, inner=width)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        module = architecture_named("bert").random_classifier(size)
        embeddings, attention = module.bert.embeddings, module.bert.encoder.layer[0].attention
        table = torch.randn(len(tokens), width)
        table[:, :3] = 0.0
        for words, column, scale in zip(_planted(), (1, 0), (0.5, 1.0), strict=True):
            for word, amount in words.items():
                table[tokens.index[word], column] = scale * amount
        embeddings.word_embeddings.weight.copy_(table)
        embeddings.position_embeddings.weight.mul_(0.1)
        heads = attention.self
        heads.query.weight.zero_()
        heads.query.bias.copy_(torch.eye(width)[0] * width**0.5)
        heads.key.weight.copy_(torch.eye(width))
        heads.value.weight.zero_()
        heads.value.weight[2, 1] = 2.0
        attention.output.dense.weight.copy_(torch.eye(width))
        module.bert.pooler.dense.weight.copy_(torch.eye(width))
        module.classifier.weight.zero_()
        module.classifier.weight[1, 2] = 4.0
    return HFBackend(module.eval(), tokens, name="planted-bert", class_names=classes)


def _planted() -> tuple[dict[str, float], dict[str, float]]:
    """Value and importance of every word: large for the planted ones, next to nothing for the others."""
    rng = generator(0, "planted")
    value = {f"w{i}": float(rng.normal(scale=0.05)) for i in range(WORDS)}
    importance = {f"w{i}": float(rng.normal(scale=0.05)) for i in range(WORDS)}
    for i in range(PLANTED):
        value[f"w{i}"] = VALUE if i % 2 == 0 else -VALUE
        importance[f"w{i}"] = IMPORTANCE
    return value, importance


def planted_example(number: int, length: int = 12, planted: int = 3) -> tuple[Example, np.ndarray]:
    """A text in random order, and which of its words are planted; every other text repeats words without signal."""
    rng = generator(number, "planted example")
    others = PLANTED + rng.choice(WORDS - PLANTED, length - planted, replace=number % 2 == 1)
    order = rng.permutation(np.concatenate([rng.choice(PLANTED, planted, replace=False), others]))
    return Example(f"planted-{number}", " ".join(f"w{i}" for i in order)), order < PLANTED


def random_example(name: str, length: int, words: int = WORDS) -> Example:
    """A text of random words, repeats allowed."""
    chosen = generator(0, "random example", name).integers(words, size=length)
    return Example(name, " ".join(f"w{i}" for i in chosen))


def copy_of(make: Callable[[], TorchBackend]) -> TorchBackend:
    """A backend of its own for every run, so that one explainer's damage to a model is never another rule's failure."""
    return copy.deepcopy(make())
