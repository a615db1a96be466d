"""Attention maps and the position that is read."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import Unsupported
from slalom_bench.handle.classifier import Classifier


@cache
def backend(architecture: str) -> HFBackend:
    return random_backend(architecture)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_attention_rows_sum_to_one(architecture):
    classifier = Classifier(backend(architecture))
    sample = Sample("x", np.arange(10, 20))
    maps = classifier.attentions(sample)
    length = 10 if architecture == "gpt2" else 12
    assert maps.shape == (2, 4, length, length)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-5)
    assert classifier.read_position(sample) == (9 if architecture == "gpt2" else 0)


def test_what_a_model_cannot_give_is_said():
    classifier = Classifier(bag_of_words({"a": 1.0}))
    with pytest.raises(Unsupported, match="bag-of-words gives no attentions"):
        classifier.attentions(classifier.encode(Example("x", "a")))
