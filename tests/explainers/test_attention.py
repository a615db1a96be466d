"""Attention explainers: closed-form attention, the maps of transformers itself, and a rollout worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example, Explanation, Sample
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.explainers.attention import AttentionAvg, AttentionMax, AttentionRollout
from slalom_bench.handle.classifier import Classifier

SAMPLE = Sample("a", np.random.default_rng(0).integers(5, 60, 9))


def explain(explainer, classifier: Classifier, sample: Sample = SAMPLE) -> tuple[Explanation, np.ndarray]:
    with classifier.work(1):
        result = explainer.explain(classifier, sample, 1, np.random.default_rng(0))
    return result, result.scores["attention"]


@pytest.mark.parametrize("explainer", [AttentionAvg(), AttentionMax()])
def test_a_slalom_attends_with_its_softmax(explainer):
    importance = {"a": 0.3, "b": 1.0, "c": -0.5}
    classifier = Classifier(slalom_transformer(dict.fromkeys(importance, 1.0), importance))
    result, scores = explain(explainer, classifier, classifier.encode(Example("a", "b a c b")))
    weights = np.exp([1.0, 0.3, -0.5, 1.0])
    np.testing.assert_allclose(scores, weights / weights.sum(), atol=1e-6)
    assert result.surrogate is None
    assert result.unsigned == {"attention"}


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
@pytest.mark.parametrize("layer", [-1, 0])
def test_the_row_of_the_token_that_is_classified(architecture, layer):
    """CLS for encoders, the last token for decoders; specials are dropped and the rest is not renormalised."""
    backend = random_backend(architecture)
    classifier = Classifier(backend)
    whole = [*classifier.tokens.prefix, *SAMPLE.ids, *classifier.tokens.suffix]
    backend.module.set_attn_implementation("eager")
    with torch.no_grad():
        maps = backend.module(input_ids=torch.tensor([whole]), output_attentions=True).attentions[layer][0]
    encoder = architecture != "gpt2"
    row = maps[:, 0, 1:-1] if encoder else maps[:, -1]
    np.testing.assert_allclose(explain(AttentionAvg(layer=layer), classifier)[1], row.mean(dim=0), atol=1e-6)
    np.testing.assert_allclose(explain(AttentionMax(layer=layer), classifier)[1], row.amax(dim=0), atol=1e-6)
    assert (explain(AttentionAvg(layer=layer), classifier)[1].sum() < 0.999) == encoder


def test_rollout_by_hand():
    classifier = Classifier(random_backend("gpt2"))
    first = np.array([[[1.0, 0.0], [0.4, 0.6]], [[1.0, 0.0], [0.8, 0.2]]])
    second = np.array([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.3, 0.7]]])
    classifier.backend.attentions = lambda sequence: np.stack([first, second])
    # mean heads, half identity: layer 1 row (0.3, 0.7), layer 2 row (0.2, 0.8); rolled 0.2 (1, 0) + 0.8 (0.3, 0.7)
    _, scores = explain(AttentionRollout(), classifier, Sample("a", np.array([7, 8])))
    np.testing.assert_allclose(scores, [0.2 + 0.8 * 0.3, 0.8 * 0.7], atol=1e-12)


def test_rollout_rows_are_distributions_over_the_whole_sequence():
    _, scores = explain(AttentionRollout(), Classifier(random_backend("gpt2")))
    assert scores.sum() == pytest.approx(1, abs=1e-5)


def test_what_cannot_be_done_is_named():
    with pytest.raises(InvalidInput, match="layer 2 of a model with 2"):
        explain(AttentionAvg(layer=2), Classifier(random_backend("bert")))
    classifier = Classifier(bag_of_words({"a": 1.0}))
    with pytest.raises(Unsupported, match="attentions"):
        explain(AttentionAvg(), classifier, classifier.encode(Example("a", "a a")))
