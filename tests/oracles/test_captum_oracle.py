"""captum on the bare transformers module: the same attributions as through our handle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient, IntegratedGradients, Saliency

from slalom_bench import registry
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Sample
from slalom_bench.handle.classifier import Classifier

SAMPLE = Sample("a", np.random.default_rng(3).integers(5, 60, 15))


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_equal_to_captum(architecture, classes):
    backend = random_backend(architecture, classes=classes)
    target = max(1, classes - 1)
    classifier = Classifier(backend).targeting(target)
    content = slice(1, -1) if architecture != "gpt2" else slice(None)
    words = classifier.embed(SAMPLE)[None]

    def log_odds(embeddings: torch.Tensor) -> torch.Tensor:
        """Log-odds of the target written out again from the module's own logits."""
        if architecture == "gpt2":
            hidden = backend.module.transformer(inputs_embeds=embeddings).last_hidden_state
            logits = backend.module.score(hidden[:, -1])
        else:
            logits = backend.module(inputs_embeds=embeddings).logits
        if classes == 1:
            return logits[:, 0]
        others = [c for c in range(classes) if c != target]
        return logits[:, target] - logits[:, others].logsumexp(dim=1)

    leaf = words.clone().requires_grad_(True)
    baseline = words.clone()
    baseline[:, content] = 0
    gradient = Saliency(log_odds).attribute(leaf, abs=False)[0, content]
    integrated = IntegratedGradients(log_odds).attribute(words, baselines=baseline, n_steps=50, internal_batch_size=7)
    expected = {
        "grad-avg": gradient.mean(dim=1),
        "grad-l1": gradient.abs().sum(dim=1),
        "grad-l2": gradient.pow(2).sum(dim=1).sqrt(),
        "grad-x-input": InputXGradient(log_odds).attribute(leaf)[0, content].sum(dim=1),
        "integrated-gradients": integrated[0, content].sum(dim=1),
    }
    for name, theirs in expected.items():  # 52 queries: both ends of the path and 50 steps
        explainer = registry.explainers.get(name).build()
        ours = explainer.explain(classifier, SAMPLE, 52, np.random.default_rng(0)).scores["attribution"]
        # layer normalisation makes the mean component a sum that cancels: there the summands are the scale
        scale = float((gradient.abs().mean() if name == "grad-avg" else theirs.abs().max()).detach())
        assert scale > 1e-5
        assert np.abs(ours - theirs.detach().numpy()).max() < 1e-5 * scale, name


def test_the_last_round_of_integrated_gradients_is_captum_at_its_number_of_steps():
    backend = random_backend("bert", scale=3.0)
    classifier = Classifier(backend)
    words = classifier.embed(SAMPLE)[None]
    baseline = words.clone()
    baseline[:, 1:-1] = 0
    explainer = registry.explainers.get("integrated-gradients").build({"tolerance": 0.0})
    ours = explainer.explain(classifier, SAMPLE, 452, np.random.default_rng(0))
    assert ours.diagnostics["steps"] == 300

    def log_odds(embeddings: torch.Tensor) -> torch.Tensor:
        logits = backend.module(inputs_embeds=embeddings).logits
        return logits[:, 1] - logits[:, 0]

    theirs = IntegratedGradients(log_odds).attribute(words, baselines=baseline, n_steps=300)[0, 1:-1].sum(dim=1)
    np.testing.assert_allclose(ours.scores["attribution"], theirs.detach().numpy(), atol=1e-5 * theirs.abs().max())
