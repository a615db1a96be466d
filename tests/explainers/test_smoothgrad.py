"""SmoothGrad against captum's noise tunnel on the bare module, given the same noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import NoiseTunnel, Saliency

from slalom_bench.backends.random_models import random_backend
from slalom_bench.contract.checking import check
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.smoothgrad import SmoothGrad
from slalom_bench.handle.classifier import Classifier

SAMPLE = Sample("a", np.random.default_rng(3).integers(5, 60, 9))


@pytest.mark.parametrize(("form", "kind"), [("plain", ""), ("squared", "_sq"), ("variance", "vargrad")])
def test_equal_to_captum_with_the_same_noise(form, kind, monkeypatch):
    backend = random_backend("gpt2", scale=3.0)
    classifier = Classifier(backend)
    words = classifier.embed(SAMPLE)[None]
    spread = 0.2 * float(words.double().std(correction=0))
    noise = torch.as_tensor(spread * np.random.default_rng(0).standard_normal((7, *words.shape[1:]))).float()

    def log_odds(embeddings: torch.Tensor) -> torch.Tensor:
        logits = backend.module.score(backend.module.transformer(inputs_embeds=embeddings)[0][:, -1])
        return logits[:, 1] - logits[:, 0]

    monkeypatch.setattr(torch, "normal", lambda *_, **__: noise)
    tunnel = NoiseTunnel(Saliency(log_odds))
    name = kind if kind == "vargrad" else f"smoothgrad{kind}"
    theirs = tunnel.attribute(words, nt_type=name, nt_samples=7, stdevs=spread, abs=False)[0].detach()
    expected = (theirs * words[0] if form == "plain" else theirs).sum(dim=1).numpy()
    with classifier.work(8) as cost:
        ours = SmoothGrad(form, samples=7).explain(classifier, SAMPLE, 8, np.random.default_rng(0))
    assert (cost.queries, cost.backwards) == (8, 8)
    np.testing.assert_allclose(ours.scores["attribution"], expected, atol=2e-5 * abs(expected).max())
    assert (ours.surrogate is None) == (form != "plain") == bool(ours.unsigned)


def test_what_cannot_be_done_is_named():
    classifier = Classifier(random_backend("gpt2"))
    for explainer, message in ((SmoothGrad("cubed"), "'cubed'"), (SmoothGrad(samples=0), "0 samples")):
        with pytest.raises(InvalidInput, match=message):
            explainer.explain(classifier, SAMPLE, 9, np.random.default_rng(0))


def test_it_keeps_the_contract():
    report = check("smoothgrad")
    assert report.passed, str(report)
