"""value-zeroing against layers computed by hand, one summand of the attention left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.contract.checking import check
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.explainers.value_zeroing import ValueZeroing
from slalom_bench.handle.classifier import Classifier

SAMPLE = Sample("a", np.random.default_rng(0).integers(5, 60, 6))


def explain(classifier: Classifier, sample: Sample = SAMPLE, budget: int = 50) -> np.ndarray:
    with classifier.work(budget):
        return ValueZeroing().explain(classifier, sample, budget, np.random.default_rng(0)).scores["mixing"]


def layer_by_hand(architecture: str, layer, maps: torch.Tensor, x: torch.Tensor) -> tuple[np.ndarray, torch.Tensor]:
    """C, rows normalised, and the layer's output: attention is the sum over tokens k of A_ik v_k, one k left out."""
    if architecture == "bert":
        value = layer.attention.self.value(x)
    else:
        value = layer.attn.c_attn(layer.ln_1(x)).chunk(3, dim=-1)[2]
    heads = len(maps)
    summands = torch.einsum("hik,khd->kihd", maps, value.unflatten(-1, (heads, -1))).flatten(2)

    def output(attended: torch.Tensor) -> torch.Tensor:
        if architecture == "bert":
            return layer.feed_forward_chunk(layer.attention.output(attended, x))
        y = x + layer.attn.c_proj(attended)
        return y + layer.mlp(layer.ln_2(y))

    full = output(summands.sum(dim=0))
    without = torch.stack([output(summands.sum(dim=0) - left_out) for left_out in summands])
    distance = 1 - torch.cosine_similarity(without.double(), full.double()[None], dim=-1).T.numpy()
    return distance / distance.sum(axis=1, keepdims=True), full


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
@pytest.mark.parametrize("layers", [1, 2])
def test_layers_by_hand(architecture, layers):
    backend = random_backend(architecture, layers=layers, scale=4.0)
    classifier = Classifier(backend)
    maps = torch.from_numpy(classifier.attentions(SAMPLE)).float()
    base, words = backend.module.base_model, classifier.embed(SAMPLE)[None]
    with torch.no_grad():
        if architecture == "bert":
            x, blocks = base.embeddings(inputs_embeds=words)[0], base.encoder.layer
        else:
            x, blocks = words[0] + base.wpe.weight[: words.shape[1]], base.h
        rolled = np.eye(len(x))
        for layer, attention in zip(blocks, maps, strict=True):
            mixing, x = layer_by_hand(architecture, layer, attention, x)
            rolled = mixing @ rolled
    row = rolled[0, 1:-1] if architecture == "bert" else rolled[-1]
    np.testing.assert_allclose(explain(classifier), row, atol=1e-4)
    assert np.ptp(row) > 100 * 1e-4, "told apart by far more than the tolerance"


@pytest.mark.parametrize("architecture", ["distilbert", "roberta", "electra", "modernbert", "bloom", "llama"])
def test_zeroing_the_values_of_other_architectures(architecture):
    """A row of the map, over all positions, is a distribution: that of the text is part of it."""
    classifier = Classifier(random_backend(architecture))
    found = explain(classifier)
    assert (found > 0).all()
    assert found.sum() <= 1 + 1e-9


def test_the_budget_is_one_query_for_the_text_and_one_for_each_position():
    classifier = Classifier(random_backend("bert"))
    with classifier.work(9) as cost:
        ValueZeroing().explain(classifier, SAMPLE, 9, np.random.default_rng(0))
    assert (cost.queries, cost.forwards, cost.backwards) == (9, 9, 0)
    with pytest.raises(InvalidInput, match="at least 9"):
        explain(classifier, budget=8)


def test_models_without_known_values_are_refused():
    classifier = Classifier(slalom_transformer({"a": 1.0}, {"a": 0.0}))
    with pytest.raises(Unsupported, match="values"):
        explain(classifier, classifier.encode(Example("x", "a a")))
    with pytest.raises(Unsupported, match="values"):
        explain(Classifier(random_backend("albert")))


def test_it_keeps_the_contract():
    report = check("value-zeroing")
    assert report.passed, str(report)
