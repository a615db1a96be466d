"""Torch modules as backends: transformers called directly is the oracle; weights, twins, devices."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from slalom_bench.backends.modules import twin
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend, pick_device
from slalom_bench.core.removal import HIDDEN
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier


@cache
def backend(architecture: str) -> HFBackend:
    return random_backend(architecture)


def ids(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_equal_to_transformers_called_directly(architecture):
    model = backend(architecture)
    content = ids(10, 11, 12, 13, 14)
    whole = torch.tensor([[*model.tokens.prefix, *content, *model.tokens.suffix]])
    with torch.no_grad():
        logits = model.module(input_ids=whole, attention_mask=torch.ones_like(whole)).logits[0].double()
    assert Classifier(model).log_odds([content])[0] == pytest.approx(float(logits[1] - logits[0]), abs=1e-6)


def test_decoder_with_padding_reads_the_last_real_position_even_if_it_is_the_pad_id():
    """GPT-2's pad id may be content: the read-out follows the attention, not the ids."""
    model = backend("gpt2")
    ends_with_pad = ids(10, 11, model.tokens.pad_id)
    together = Classifier(model).log_odds([ends_with_pad, np.arange(10, 40)])
    alone = Classifier(model).log_odds([ends_with_pad])
    assert together[0] == pytest.approx(alone[0], abs=1e-5)
    assert abs(alone[0] - Classifier(model).log_odds([ids(10, 11)])[0]) > 1e-3


def test_hidden_positions_are_not_attended_to_but_keep_their_place():
    model = backend("bert")
    classifier = Classifier(model)
    hidden = ids(10, HIDDEN, 12)
    whole = torch.tensor([[*model.tokens.prefix, 10, 30, 12, *model.tokens.suffix]])
    mask = torch.tensor([[1, 1, 0, 1, 1]])
    with torch.no_grad():
        logits = model.module(input_ids=whole, attention_mask=mask).logits[0].double()
    assert classifier.log_odds([hidden])[0] == pytest.approx(float(logits[1] - logits[0]), abs=1e-6)
    assert abs(classifier.log_odds([hidden])[0] - classifier.log_odds([ids(10, 12)])[0]) > 1e-6


def test_twin_shares_weights_and_nothing_else():
    model = random_backend("bert")
    other = twin(model.module)
    assert all(a is b for a, b in zip(model.module.parameters(), other.parameters(), strict=True))
    assert not any(a is b for a, b in zip(model.module.modules(), other.modules(), strict=True))


def test_identity_follows_weights_tokenizer_and_configuration():
    same = random_backend("bert").identity()
    assert random_backend("bert").identity() == same
    assert random_backend("bert", seed=1).identity() != same
    changed = random_backend("bert")
    with torch.no_grad():
        next(changed.module.parameters())[0, 0] += 1e-3
    assert changed.identity() != same


def test_training_mode_is_refused():
    model = random_backend("bert")
    with pytest.raises(InvalidInput, match="training mode"):
        HFBackend(model.module.train(), model.tokens, name="x", class_names=("a", "b"))


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(InvalidInput, match="one of cpu, cuda"):
        pick_device("tpu9")
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="is not here"):
            pick_device("cuda:0")


@pytest.mark.gpu
def test_the_same_log_odds_on_a_gpu():
    model = random_backend("bert")
    batch = [np.arange(10, 10 + k) for k in range(1, 30)]
    on_cpu = Classifier(model).log_odds(batch)
    moved = HFBackend(model.module.to("cuda"), model.tokens, name="x", class_names=model.class_names)
    np.testing.assert_allclose(Classifier(moved).log_odds(batch), on_cpu, atol=1e-4)
