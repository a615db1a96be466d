"""DeepLIFT: captum's on networks that it has rules for, completeness on every architecture, a product by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import DeepLift as Captum
from torch import nn

from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.secants import Secants, attention, elementwise, product
from slalom_bench.contract.checking import check
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.deeplift import DeepLift
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.loading import Planned
from slalom_bench.running.plan import make_plan
from slalom_bench.running.suite import Suite

SAMPLE = Sample("a", np.random.default_rng(3).integers(5, 60, 12))
SOUND = ("bert", "distilbert", "roberta", "xlm-roberta", "electra", "albert", "gpt2")
UNSOUND = ("modernbert", "bloom", "llama", "mistral", "qwen2", "deberta-v2", "mamba")


def multipliers(f: nn.Module, pair: torch.Tensor) -> torch.Tensor:
    pair = pair.clone().requires_grad_(True)
    with Secants():
        out = f(pair)
    return torch.autograd.grad(out[0].sum(), pair)[0][0]


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU])
def test_equal_to_captum_on_a_perceptron(activation):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 7), activation(), nn.Linear(7, 5), activation(), nn.Linear(5, 1))
    net = net.double().requires_grad_(False)
    pair = torch.randn(2, 4, 3, dtype=torch.float64)
    theirs = Captum(net).attribute(pair[:1], pair[1:])[0].detach()
    torch.testing.assert_close(multipliers(net, pair) * (pair[0] - pair[1]), theirs)


def test_products_and_equal_inputs_by_hand():
    pair = torch.tensor([[3.0, 5.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    out = product(torch.mul, pair[:, 0], pair[:, 1])
    assert out.tolist() == [15.0, 2.0]
    (found,) = torch.autograd.grad(out[0], pair)
    assert found[0].tolist() == [3.5, 2.0]  # the other's mean
    same = torch.tensor([[2.0], [2.0]], requires_grad=True)
    (slope,) = torch.autograd.grad(elementwise(torch.square, same)[0], same)
    assert slope[0].tolist() == [4.0]  # the derivative where nothing changes


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_torchs_and_complete(causal):
    torch.manual_seed(0)
    q, k, v = (2 * torch.randn(2, 2, 5, 4, dtype=torch.float64) for _ in range(3))
    pair = torch.cat([q, k, v], dim=-1).requires_grad_(True)
    out = attention(*pair.split(4, dim=-1), None, causal, None)
    expected = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(out.detach(), expected)
    weights = torch.randn_like(expected[0])
    (found,) = torch.autograd.grad((out[0] * weights).sum(), pair)
    change = (found[0] * (pair[0] - pair[1])).sum().detach()
    torch.testing.assert_close(change, ((expected[0] - expected[1]) * weights).sum())


def louder(architecture: str, classes: int = 2) -> Classifier:
    """A random model whose words matter: its embeddings enlarged."""
    backend = random_backend(architecture, scale=6.0, classes=classes)
    with torch.no_grad():
        backend.word_embeddings().weight.mul_(20.0)
    return Classifier(backend)


@pytest.mark.parametrize("architecture", SOUND)
def test_complete_where_it_is_said_to_be(architecture):
    classifier = louder(architecture, classes=3)
    with classifier.work(2) as cost:
        found = DeepLift().explain(classifier, SAMPLE, 2, np.random.default_rng(0))
    assert (cost.queries, cost.backwards) == (2, 2)
    change = found.diagnostics["change"]
    full = classifier.log_odds([SAMPLE.ids])[0]
    assert found.surrogate.predict(np.ones((1, len(SAMPLE)), bool))[0] == pytest.approx(full, abs=1e-4)
    assert abs(change) > 1e-2
    assert found.diagnostics["completeness_gap"] == pytest.approx(0, abs=2e-4 * max(1.0, abs(change)))
    assert found.scores["attribution"].sum() == pytest.approx(change, rel=1e-2)


def test_the_gradient_alone_is_not_complete():
    """What captum's DeepLift gives of BERT: it has rules for its tanh, and for nothing else in it."""
    classifier = louder("bert")
    words = classifier.embed(SAMPLE)
    start = words.clone()
    start[classifier.content] = 0.0

    class Odds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = classifier.backend.module

        def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
            logits = self.model(inputs_embeds=embeddings).logits
            return logits[:, 1:] - logits[:, :1]

    theirs = Captum(Odds()).attribute(words[None].clone(), start[None].clone())
    found = DeepLift().explain(classifier, SAMPLE, 2, np.random.default_rng(0)).diagnostics
    assert abs(float(theirs.sum()) - found["change"]) > 100 * abs(found["completeness_gap"])


@pytest.mark.parametrize("architecture", UNSOUND)
def test_others_are_skipped_before_the_run(architecture):
    planned = Planned("imdb", architecture, 2, frozenset(), random_backend(architecture).capabilities)
    plan = make_plan(Suite(name="s", tasks=("imdb",), models=(architecture,), explainers=("deeplift",)), [planned])
    assert not plan.cells
    assert "needs deeplift" in plan.skips[0].reason


def test_what_cannot_be_done_is_named():
    with pytest.raises(InvalidInput, match="unknown baseline 'unk'"):
        DeepLift("unk").explain(louder("bert"), SAMPLE, 2, np.random.default_rng(0))


def test_it_keeps_the_contract():
    report = check("deeplift")
    assert report.passed, str(report)
