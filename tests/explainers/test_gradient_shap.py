"""GradientSHAP against captum's on the bare module, given the same draws, and against integrated gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import GradientShap as Captum

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.contract.checking import check
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.gradient_shap import GradientShap
from slalom_bench.handle.classifier import Classifier

SAMPLE = Sample("a", np.random.default_rng(3).integers(5, 60, 9))


def test_equal_to_captum_with_the_same_draws(monkeypatch):
    backend = random_backend("gpt2", scale=3.0)
    classifier = Classifier(backend)
    words = classifier.embed(SAMPLE)[None]
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((7, *words.shape[1:]))
    noise = torch.as_tensor(0.1 * float(words.double().std(correction=0)) * draws).float()
    along = rng.uniform(size=(7, 1, 1)).ravel()

    def log_odds(embeddings: torch.Tensor) -> torch.Tensor:
        logits = backend.module.score(backend.module.transformer(inputs_embeds=embeddings)[0][:, -1])
        return logits[:, 1] - logits[:, 0]

    monkeypatch.setattr(torch, "normal", lambda *_, **__: noise)
    monkeypatch.setattr(np.random, "uniform", lambda *_, **__: along)
    theirs = Captum(log_odds).attribute(words, baselines=torch.zeros_like(words), n_samples=7, stdevs=1.0)
    expected = theirs[0].sum(dim=1).detach().numpy()
    with classifier.work(9) as cost:
        ours = GradientShap().explain(classifier, SAMPLE, 9, np.random.default_rng(0))
    assert (cost.queries, cost.backwards) == (9, 7)
    np.testing.assert_allclose(ours.scores["attribution"], expected, atol=2e-5 * abs(expected).max())


def test_complete_where_the_model_is_linear_and_nothing_is_noisy():
    classifier = Classifier(bag_of_words({"good": 2.0, "bad": -3.0, "film": 0.5}, bias=1.0, specials=True))
    sample = classifier.encode(Example("a", "bad film good"))
    found = GradientShap(noise=0.0).explain(classifier, sample, 4, np.random.default_rng(0))
    np.testing.assert_allclose(found.scores["attribution"], [-3.0, 0.5, 2.0], atol=1e-6)
    assert found.diagnostics["completeness_gap"] == pytest.approx(0, abs=1e-6)
    assert found.diagnostics["samples"] == 2


def test_what_cannot_be_done_is_named():
    with pytest.raises(InvalidInput, match="0 samples"):
        GradientShap(samples=0).explain(Classifier(random_backend("gpt2")), SAMPLE, 9, np.random.default_rng(0))


def test_it_keeps_the_contract():
    report = check("gradient-shap")
    assert report.passed, str(report)
