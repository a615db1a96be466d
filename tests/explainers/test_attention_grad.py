"""attention-grad on a one-layer model by hand, and on transformers' own maps and their retained gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.nets_classic import T_MAX, AttentionNet, AttentionNetBackend, EnglishWords
from slalom_bench.backends.random_models import random_backend
from slalom_bench.contract.checking import check
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import Unsupported
from slalom_bench.explainers.attention_grad import AttentionGrad, relevance
from slalom_bench.handle.classifier import Classifier

SAMPLE = Sample("a", np.random.default_rng(0).integers(5, 60, 7))


def test_one_layer_by_hand():
    # F = sum of a_j v_j, read at the first token: dF/dA is v_j in its row and 0 elsewhere
    value, importance = {"a": 2.0, "b": -3.0, "c": 0.5}, {"a": 0.0, "b": 1.0, "c": -1.0}
    classifier = Classifier(slalom_transformer(value, importance))
    sample = classifier.encode(Example("x", "a b c b"))
    with classifier.work(1) as cost:
        found = AttentionGrad().explain(classifier, sample, 1, np.random.default_rng(0)).scores
    assert (cost.queries, cost.forwards, cost.backwards) == (1, 1, 1)
    v, weight = np.array([2.0, -3.0, 0.5, -3.0]), np.exp([0.0, 1.0, -1.0, 1.0])
    share = weight / weight.sum()
    np.testing.assert_allclose(found["evidence_for"], share * np.maximum(v, 0) + [1, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(found["evidence_against"], share * np.maximum(-v, 0) + [1, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(found["attribution"], share * v, atol=1e-6)
    other = AttentionGrad().explain(classifier.targeting(0), sample, 1, np.random.default_rng(0)).scores
    np.testing.assert_allclose(other["attribution"], -share * v, atol=1e-6)


def test_two_layers_by_hand():
    # heads (1, -1) and (3, 1) of layer 1 average to (2, 0.5) where negative ones count 0; layer 2 adds to it
    first = np.zeros((2, 2, 2))
    first[:, 1] = [[1.0, -1.0], [3.0, 1.0]]
    second = np.zeros((2, 2, 2))
    second[:, 1] = [[0.0, 4.0], [0.0, 0.0]]
    np.testing.assert_allclose(relevance(np.stack([first, second])), [[1, 0], [2 + 2 * 2, 1.5 + 2 * 1.5]])


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2", "roberta", "electra", "modernbert", "bloom"])
def test_the_maps_of_transformers_and_their_retained_gradients(architecture):
    backend = random_backend(architecture)
    classifier = Classifier(backend)
    maps, grads = classifier.attention_gradients(SAMPLE)
    np.testing.assert_allclose(maps, classifier.attentions(SAMPLE), atol=1e-6)
    whole = torch.tensor([[*classifier.tokens.prefix, *SAMPLE.ids, *classifier.tokens.suffix]])
    backend.module.set_attn_implementation("eager")
    out = backend.module(input_ids=whole, output_attentions=True)
    for layer in out.attentions:
        layer.retain_grad()
    (out.logits[0, 1] - out.logits[0, 0]).backward()
    expected = torch.cat([layer.grad for layer in out.attentions]).double().numpy()
    np.testing.assert_allclose(grads, expected, atol=1e-4 * np.abs(expected).max())
    assert np.abs(expected).max() > 0


@pytest.mark.parametrize("layers", [1, 2])
def test_the_attention_classifier_gives_the_same_logits_by_way_of_its_maps(layers):
    torch.manual_seed(layers)
    tokens = EnglishWords([f"w{i}" for i in range(60)], cls=True)
    net = AttentionNet(len(tokens.strings), layers=layers).eval()
    backend = AttentionNetBackend(net, tokens, name="net", class_names=("a", "b"), max_length=T_MAX)
    classifier = Classifier(backend)
    words = classifier.embed(SAMPLE)[None]
    torch.testing.assert_close(backend.attended_logits(words)[0], backend.logits_from_embeddings(words))
    maps, grads = classifier.attention_gradients(SAMPLE)
    assert maps.shape == grads.shape == (layers, *classifier.attentions(SAMPLE).shape[1:])
    np.testing.assert_allclose(maps, classifier.attentions(SAMPLE), atol=1e-7)
    assert np.abs(grads[:, :, 0]).max() > 0


def test_what_cannot_be_done_is_named():
    classifier = Classifier(bag_of_words({"a": 1.0}))
    with pytest.raises(Unsupported, match="attentions"):
        AttentionGrad().explain(classifier, classifier.encode(Example("a", "a a")), 1, np.random.default_rng(0))


def test_it_keeps_the_contract():
    report = check("attention-grad")
    assert report.passed, str(report)
