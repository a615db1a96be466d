"""Special tokens round every sequence: what fits, what may be empty."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from slalom_bench import registry
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier


@cache
def backend(architecture: str) -> HFBackend:
    return random_backend(architecture)


def ids(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def test_truncation_is_said():
    classifier = Classifier(backend("bert"))
    sample = classifier.encode(Example("x", " ".join(["w1"] * 600)))
    assert (len(sample), sample.truncated) == (512, 88)
    assert classifier.encode(Example("x", "w1 w2 w3"), max_tokens=2).truncated == 1
    with pytest.raises(InvalidInput, match="max_tokens=512"):
        classifier.log_odds([np.full(513, 10)])


def test_empty_sequences_where_the_template_leaves_something():
    assert np.isfinite(Classifier(backend("bert")).log_odds([ids()])).all()
    with pytest.raises(InvalidInput, match="keep at least one token"):
        Classifier(backend("gpt2")).log_odds([ids()])


@pytest.mark.parametrize("rule", ["delete", "gap", "pad"])
def test_a_sequence_of_which_nothing_is_seen_is_refused_whatever_the_removal(rule):
    """Where the template leaves nothing to classify; beside others too."""
    classifier = Classifier(random_backend("gpt2")).under(registry.removals.build(rule))
    sample = classifier.encode(Example("a", "w1 w2 w3"))
    assert len(classifier.masked_log_odds(sample, np.eye(3, dtype=bool))) == 3
    with pytest.raises(InvalidInput, match="empty sequence"):
        classifier.masked_log_odds(sample, np.vstack([np.eye(3, dtype=bool), np.zeros((1, 3), bool)]))


def test_content_is_where_the_text_stands():
    for architecture, places in (("bert", slice(1, -1)), ("gpt2", slice(0, None))):
        classifier = Classifier(backend(architecture))
        sample = Sample("x", ids(10, 11, 12))
        assert classifier.content == places
        words = classifier.embed(sample)
        assert torch.equal(words[classifier.content], backend(architecture).embed(ids(10, 11, 12)))
