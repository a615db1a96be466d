"""Architectures of transformers, one file each: what the forward pass, LRP, random models and limits know of them.

Private to the backends: models are registered by name, architectures are found by a configuration's `model_type`.
"""

from __future__ import annotations

from typing import Any

from slalom_bench.backends.architectures.albert import Albert
from slalom_bench.backends.architectures.base import Architecture
from slalom_bench.backends.architectures.bert import Bert
from slalom_bench.backends.architectures.bloom import Bloom
from slalom_bench.backends.architectures.deberta import DebertaV2
from slalom_bench.backends.architectures.distilbert import DistilBert
from slalom_bench.backends.architectures.electra import Electra
from slalom_bench.backends.architectures.gpt2 import Gpt2
from slalom_bench.backends.architectures.llama import Llama
from slalom_bench.backends.architectures.mamba import Mamba
from slalom_bench.backends.architectures.modernbert import ModernBert
from slalom_bench.backends.architectures.roberta import Roberta, RobertaPositions
from slalom_bench.errors import InvalidInput

KNOWN: tuple[Architecture, ...] = (
    Bert(),
    DistilBert(),
    Gpt2(),
    Roberta("roberta"),
    Roberta("xlm-roberta"),
    RobertaPositions("xlm-roberta-xl"),
    RobertaPositions("roberta-prelayernorm"),
    Electra(),
    Albert(),
    DebertaV2(),
    ModernBert(),
    Llama("llama"),
    Llama("mistral"),
    Llama("qwen2"),
    Bloom(),
    Mamba(),
)
_BY_TYPE = {architecture.model_type: architecture for architecture in KNOWN}
_UNKNOWN = Architecture()


def architecture_of(config: Any) -> Architecture:
    """The architecture of a model's configuration; one of which nothing is known has no optional part."""
    return _BY_TYPE.get(getattr(config, "model_type", ""), _UNKNOWN)


def architecture_named(model_type: str) -> Architecture:
    """The architecture of a name that the code gives.

    >>> architecture_named("bert").prefix
    ('[CLS]',)
    """
    if model_type not in _BY_TYPE:
        raise InvalidInput(f"unknown architecture {model_type!r}; one of {', '.join(_BY_TYPE)}")
    return _BY_TYPE[model_type]


def with_relevance() -> list[str]:
    """The architectures that layer-wise relevance propagation has rules for."""
    return [architecture.model_type for architecture in KNOWN if architecture.maps is not None]
