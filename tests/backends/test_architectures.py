"""Architectures: each described once, found by model type, and what is not known is left to the model itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf

from slalom_bench.backends.architectures import KNOWN, architecture_named, architecture_of, with_relevance
from slalom_bench.backends.architectures.base import Size
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.errors import InvalidInput, Unsupported

DECODERS = ("gpt2", "bloom", "llama", "mistral", "qwen2", "mamba")
ENCODERS = ("bert", "distilbert", "roberta", "xlm-roberta", "electra", "albert", "deberta-v2", "modernbert")
BUILT = (*ENCODERS, *DECODERS)


def test_a_name_is_that_of_the_configuration() -> None:
    assert len({architecture.model_type for architecture in KNOWN}) == len(KNOWN)
    for name in BUILT:
        module = random_backend(name).module
        assert architecture_of(module.config) is architecture_named(name)
        assert architecture_named(name).classifier in ("", type(module).__name__)
    assert set(BUILT) - set(with_relevance()) == {"mamba", "deberta-v2"}
    with pytest.raises(InvalidInput, match="unknown architecture 'lstm'; one of bert, distilbert"):
        architecture_named("lstm")


@pytest.mark.parametrize("architecture", BUILT)
def test_a_random_classifier_has_the_size_asked_for_and_follows_the_seed(architecture: str) -> None:
    a, b, c = (random_backend(architecture, seed=seed, layers=3, width=16, classes=3) for seed in (0, 0, 1))
    config = a.module.config
    assert (config.num_hidden_layers, config.hidden_size, config.num_labels) == (3, 16, 3)
    sequence = np.arange(5, 15)
    assert a.logits([sequence]).shape == (1, 3)
    assert (a.logits([sequence]) == b.logits([sequence])).all()
    assert (a.logits([sequence]) != c.logits([sequence])).all()
    assert a.reads_last == (architecture in DECODERS)
    assert bool(a.tokens.prefix) == (not a.reads_last)


def test_roberta_counts_positions_from_behind_its_padding_index() -> None:
    """The longest sequence that is allowed is the longest that the model can embed."""
    config = hf.RobertaConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=12,
        pad_token_id=1,
    )
    module = hf.RobertaForSequenceClassification(config).eval()
    backend = HFBackend(module, random_backend("roberta").tokens, name="r", class_names=("a", "b"))
    assert backend.max_length == 10
    assert np.isfinite(backend.logits([np.full(10, 5)])).all()
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        backend.logits([np.full(11, 5)])
    for name in ("xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm"):
        assert architecture_named(name).max_length(config) == 10


def test_an_architecture_of_which_nothing_is_known_works_by_its_own_pass() -> None:
    config = hf.ErnieConfig(
        vocab_size=65,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = hf.ErnieForSequenceClassification(config).eval()
    backend = HFBackend(module, random_backend("bert").tokens, name="ernie", class_names=("a", "b"))
    assert (backend.max_length, backend.reads_last, backend.pruned) == (16, False, None)
    assert backend.capabilities == {"queries", "gradients", "attentions"}
    assert np.isfinite(backend.logits([np.arange(5, 15)])).all()
    with pytest.raises(Unsupported, match="no random models of architecture ''"):
        architecture_of(config).random_classifier(Size(60, 0, ("a", "b"), layers=1, width=8, positions=16))
