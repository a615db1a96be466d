"""The handle as a whole: log-odds by hand, and a model that is never changed."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import weights_hash
from slalom_bench.core.types import Example, Sample
from slalom_bench.handle.classifier import Classifier
from slalom_bench.handle.template import whole


def test_log_odds_and_probabilities_by_hand():
    classifier = Classifier(bag_of_words({"good": 1.5, "bad": -2.0}, bias=0.25))
    sample = classifier.encode(Example("x", "good bad good"))
    assert classifier.log_odds([sample.ids])[0] == pytest.approx(0.25 + 3.0 - 2.0, abs=1e-6)
    assert classifier.probabilities([sample.ids])[0, 1] == pytest.approx(1 / (1 + np.exp(-1.25)), abs=1e-6)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_the_model_is_never_changed(architecture):
    model = random_backend(architecture)
    classifier = Classifier(model)
    sample = Sample("x", np.arange(10, 20))

    def state():
        modules = [(name, type(m), len(m._forward_hooks), m.training) for name, m in model.module.named_modules()]
        flags = [p.requires_grad for p in model.module.parameters()]
        return (
            weights_hash(model.module),
            modules,
            flags,
            model.module.config.to_json_string(),
            real([sequence]).tolist(),
        )

    (sequence,) = whole(model, [sample.ids])
    real = model.logits
    before = state()
    attn = model.module.config._attn_implementation
    classifier.masked_log_odds(sample, np.eye(10, dtype=bool))
    classifier.gradients(classifier.embed(sample)[None])
    classifier.attentions(sample)
    assert state() == before
    assert model.module.config._attn_implementation == attn == "sdpa"
    assert all(p.grad is None for p in model.module.parameters())
