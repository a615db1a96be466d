"""Randomised copies: drawn from the top down, on the scale of what was there, the model itself never touched."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.backends.modules import cascade, parts_from_the_top
from slalom_bench.backends.random_models import random_backend
from slalom_bench.handle.backend import RandomisableBackend
from slalom_bench.handle.classifier import Classifier

ARCHITECTURES = ("bert", "distilbert", "gpt2", "mamba")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_head_first_then_layers_then_embeddings_and_every_parameter_once(architecture):
    module = random_backend(architecture).module
    parts = parts_from_the_top(module)
    layers = module.config.num_hidden_layers
    assert len(parts) == layers + 2
    assert sorted(name for part in parts for name in part) == sorted(dict(module.named_parameters()))
    assert any(word in parts[0][-1] for word in ("classifier", "score"))
    for number, part in zip(reversed(range(layers)), parts[1:-1], strict=True):
        assert all(f".{number}." in name for name in part)
    words = module.get_input_embeddings().weight
    assert any(parameter is words for name, parameter in module.named_parameters() if name in parts[-1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_copy_differs_in_the_top_parts_alone_and_shares_the_rest(architecture):
    module = random_backend(architecture).module
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    own, parts = dict(module.named_parameters()), parts_from_the_top(module)
    copies = [dict(copy.named_parameters()) for copy in cascade(module, 3)]
    for count, copy in enumerate(copies, start=1):
        changed = {name for part in parts[:count] for name in part}
        assert {name for name in own if copy[name] is not own[name]} == changed
        assert all(copies[-1][name] is copy[name] for name in changed)
    assert all((tensor == before[name]).all() for name, tensor in module.state_dict().items())


def test_draws_have_the_mean_and_spread_of_the_tensor_and_nothing_of_its_order():
    backend = random_backend("bert", scale=3.0)
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    old = backend.module.get_parameter(name).detach().numpy().ravel()
    (*_, last), (*_, again), (*_, other) = (list(cascade(backend.module, seed)) for seed in (0, 0, 1))
    new = last.get_parameter(name).detach().numpy().ravel()
    error = old.std() / np.sqrt(len(old))
    assert abs(new.mean() - old.mean()) < 5 * error
    assert abs(new.std() - old.std()) < 5 * error
    assert abs(np.corrcoef(old, new)[0, 1]) < 5 / np.sqrt(len(old))
    assert (again.get_parameter(name).detach().numpy().ravel() == new).all()
    assert not (other.get_parameter(name).detach().numpy().ravel() == new).any()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_randomised_backend_answers_as_its_own_module_does(architecture):
    """Not as the original: neither the pruned pass nor the attention twin may be left over from it."""
    backend = random_backend(architecture)
    assert isinstance(backend, RandomisableBackend)
    ids = np.arange(5, 15)
    identity, before = backend.identity(), Classifier(backend).log_odds([ids])
    if "attentions" in backend.capabilities:
        backend.attentions(ids)
    copies = backend.cascade(0)
    assert len({copy.identity() for copy in copies} | {identity}) == len(copies) + 1
    for copy in copies:
        with torch.inference_mode():
            inputs = torch.tensor([[*copy.tokens.prefix, *ids, *copy.tokens.suffix]])
            logits = copy.forward(copy.module, None, input_ids=inputs)[0]
        assert Classifier(copy).log_odds([ids])[0] == pytest.approx(float(logits[1] - logits[0]), abs=1e-4)
        assert Classifier(copy).log_odds([ids])[0] != pytest.approx(before[0], abs=1e-6)
    if "attentions" in backend.capabilities:
        assert not np.allclose(copies[-1].attentions(ids), backend.attentions(ids), atol=1e-4)
    assert (backend.identity(), Classifier(backend).log_odds([ids])[0]) == (identity, before[0])


def test_a_module_without_layers_is_randomised_child_by_child():
    backend = slalom_transformer({"a": 1.0, "b": -1.0}, {"a": 0.0, "b": 1.0})
    assert [part[0] for part in parts_from_the_top(backend.module)] == [
        "head.weight",
        "move.weight",
        "key.weight",
        "query.weight",
        "words.weight",
    ]
    assert len(backend.cascade(0)) == 5
