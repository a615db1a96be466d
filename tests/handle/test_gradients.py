"""Gradients against closed forms and finite batches, counted as queries."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.types import Example, Sample
from slalom_bench.handle.classifier import Classifier


@cache
def backend(architecture: str) -> HFBackend:
    return random_backend(architecture)


def test_gradient_queries_count_and_equal_finite_differences():
    classifier = Classifier(slalom_transformer({"a": 1.0, "b": -2.0}, {"a": 0.5, "b": -0.5}))
    sample = classifier.encode(Example("x", "a b a"))
    words = classifier.embed(sample)
    with classifier.work() as cost:
        values, grads = classifier.gradients(torch.stack([words, words / 2]))
    assert (cost.queries, cost.forwards, cost.backwards) == (2, 2, 2)
    weights = np.exp([0.5, -0.5, 0.5]) / np.exp([0.5, -0.5, 0.5]).sum()
    v = np.array([1.0, -2.0, 1.0])
    assert values[0] == pytest.approx(weights @ v, abs=1e-6)
    np.testing.assert_allclose(grads[0, :, 0], weights * (v - weights @ v), atol=1e-6)
    np.testing.assert_allclose(grads[0, :, 1], weights, atol=1e-6)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_gradients_do_not_depend_on_the_batch(architecture):
    sample = Sample("x", np.arange(10, 30))
    small, large = (Classifier(backend(architecture), token_budget=size) for size in (1, 10_000))
    words = torch.stack([small.embed(sample) * a for a in (0.2, 0.6, 1.0)])
    (a, ga), (b, gb) = small.gradients(words), large.gradients(words)
    np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_allclose(ga, gb, rtol=1e-5, atol=1e-5)
    assert a[2] == pytest.approx(small.log_odds([sample.ids])[0], abs=1e-5)
