"""Relevance propagation: explicit rules worked layer by layer, conservation, and a model that is never touched."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from slalom_bench.backends import lrp
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.errors import Unsupported
from slalom_bench.explainers.attnlrp import AttnLRP, CpLRP
from slalom_bench.handle.classifier import Classifier

SAMPLE = Sample("a", np.random.default_rng(0).integers(5, 60, 12))
TABLES = ["bert", "distilbert", "gpt2", "roberta", "xlm-roberta", "electra", "albert"]
"""Architectures with a table of positions."""
BIASED = [*TABLES, "bloom"]
ARCHITECTURES = [*BIASED, "modernbert", "llama", "mistral", "qwen2"]


def backend_of(architecture: str, *, biases: float = 0.0, seed: int = 0, layers: int = 2) -> HFBackend:
    """A random model with all biases, those of layer norms included, drawn with the given spread."""
    backend = random_backend(architecture, seed=seed, layers=layers, scale=4.0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in backend.module.named_parameters():
            if name.endswith("bias"):
                parameter.copy_(biases * torch.randn(parameter.shape, generator=generator))
    return backend


def explain(explainer, backend: HFBackend) -> Explanation:
    classifier = Classifier(backend)
    with classifier.work(1) as cost:
        result = explainer.explain(classifier, SAMPLE, 1, np.random.default_rng(0))
    assert (cost.queries, cost.forwards, cost.backwards) == (1, 1, 1)
    return result


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_cp_without_biases_conserves_the_log_odds(architecture):
    backend = backend_of(architecture)
    result = explain(CpLRP(), backend)
    (full,) = Classifier(backend).log_odds([SAMPLE.ids])
    parts = sum(result.diagnostics[part] for part in ("words", "special_tokens", "positions"))
    assert abs(full) > 1e-3
    assert parts == pytest.approx(full, rel=1e-4)
    assert result.diagnostics["conservation_gap"] == pytest.approx(0, abs=1e-4 * abs(full))
    assert (abs(result.diagnostics["positions"]) > 1e-4) == (architecture in TABLES)
    if architecture in BIASED:
        gap = explain(CpLRP(), backend_of(architecture, biases=0.5)).diagnostics["conservation_gap"]
        assert abs(gap) > 1e-3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("explainer", [AttnLRP(), CpLRP()])
def test_the_twin_computes_what_the_model_computes(architecture, explainer):
    backend = backend_of(architecture, biases=0.5)
    (full,) = Classifier(backend).log_odds([SAMPLE.ids])
    result = explain(explainer, backend)
    assert result.diagnostics["log_odds"] == pytest.approx(full, abs=1e-5)
    assert result.surrogate.predict(np.ones((1, 12), np.bool_)) == pytest.approx([full], abs=1e-5)


def linear_rule(x: torch.Tensor, weight: torch.Tensor, z: torch.Tensor, relevance: torch.Tensor) -> torch.Tensor:
    """R_i = x_i sum_j W_ij R_j / z_j with z = x W + b (epsilon rule, epsilon 0)."""
    return x * ((relevance / z) @ weight.T)


def norm_rule(x: torch.Tensor, norm: torch.nn.LayerNorm, relevance: torch.Tensor) -> torch.Tensor:
    """Centring is linear; dividing by the deviation and scaling pass relevance on; the bias keeps its share."""
    width = x.shape[-1]
    deviation = (x.var(dim=-1, keepdim=True, correction=0) + norm.eps).sqrt()
    centring = torch.eye(width, dtype=x.dtype) - 1 / width
    scaled = (x @ centring) / deviation * norm.weight
    at_scaled = relevance if norm.bias is None else scaled * relevance / (scaled + norm.bias)
    return linear_rule(x, centring, x @ centring, at_scaled)


def gpt2_relevance(module: torch.nn.Module, words: torch.Tensor, target: torch.Tensor, rule: str) -> torch.Tensor:
    """Explicit relevance of a one-layer GPT-2, rule by rule, from the two logits back to the word embeddings."""
    body, block = module.transformer, module.transformer.h[0]
    heads, width, length = 4, words.shape[1], len(words)

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(length, heads, -1).transpose(0, 1)

    def join(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1).reshape(length, width)

    start = words + body.wpe.weight[:length]
    a = block.ln_1(start)
    qkv = block.attn.c_attn(a)
    q, k, v = (split(part) for part in qkv.split(width, dim=1))
    causal = torch.full((length, length), -torch.inf, dtype=words.dtype).triu(1)
    scores = q @ k.transpose(1, 2) / (width // heads) ** 0.5
    attention = (scores + causal).softmax(dim=-1)
    mixed = join(attention @ v)
    out = block.attn.c_proj(mixed)
    middle = start + out
    b = block.ln_2(middle)
    hidden = block.mlp.c_fc(b)
    active = block.mlp.act(hidden)
    second = block.mlp.c_proj(active)
    end = middle + second
    final = body.ln_f(end)
    logits = module.score(final[-1])
    # l_1 - l_0 as two relevances, one for each logit
    at_final = torch.zeros_like(final)
    at_final[-1] = linear_rule(final[-1], module.score.weight.T, logits, target * logits)
    at_end = norm_rule(end, body.ln_f, at_final)
    at_active = linear_rule(active, block.mlp.c_proj.weight, second, at_end * second / end)
    at_b = linear_rule(b, block.mlp.c_fc.weight, hidden, at_active)
    at_middle = at_end * middle / end + norm_rule(middle, block.ln_2, at_b)
    at_mixed = split(linear_rule(mixed, block.attn.c_proj.weight, out, at_middle * out / middle))
    per_product = at_mixed / (attention @ v)
    to_value = v * (attention.transpose(1, 2) @ per_product)
    if rule == "cp":
        at_qkv = [torch.zeros_like(words), torch.zeros_like(words), join(to_value)]
    else:
        at_attention = 0.5 * attention * (per_product @ v.transpose(1, 2))
        at_scores = torch.where(
            causal == 0, scores * (at_attention - attention * at_attention.sum(dim=-1, keepdim=True)), 0.0
        )
        shared = 0.5 * at_scores / scores / (width // heads) ** 0.5
        at_qkv = [join(q * (shared @ k)), join(k * (shared.transpose(1, 2) @ q)), join(0.5 * to_value)]
    at_a = linear_rule(a, block.attn.c_attn.weight, qkv, torch.cat(at_qkv, dim=1))
    at_start = at_middle * start / middle + norm_rule(start, block.ln_1, at_a)
    return (at_start * words / start).sum(dim=1)


def modernbert_relevance(module: torch.nn.Module, words: torch.Tensor, target: torch.Tensor, rule: str) -> torch.Tensor:
    """The same for a one-layer ModernBERT: rotated queries and keys, a gate, no biases, read at the first token."""
    body, layer = module.model, module.model.layers[0]
    heads, width, length = 4, words.shape[1], len(words)
    size = width // heads

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(length, heads, -1).transpose(0, 1)

    def join(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1).reshape(length, width)

    angles = torch.arange(length)[:, None] * 160_000.0 ** (-torch.arange(0, size, 2) / size)
    cos, sin = (f(torch.cat([angles, angles], dim=1).float()).double() for f in (torch.cos, torch.sin))
    turn = torch.zeros(size, size, dtype=words.dtype)
    turn[torch.arange(size // 2) + size // 2, torch.arange(size // 2)] = -1.0
    turn[torch.arange(size // 2), torch.arange(size // 2) + size // 2] = 1.0
    rotation = torch.diag_embed(cos) + turn * sin[:, None, :]  # of each position, applied from the right

    start = body.embeddings.norm(words)
    qkv = layer.attn.Wqkv(start)
    q, k, v = (split(part) for part in qkv.split(width, dim=1))
    turned_q, turned_k = (torch.einsum("hld,lde->hle", part, rotation) for part in (q, k))
    scores = turned_q @ turned_k.transpose(1, 2) / size**0.5
    attention = scores.softmax(dim=-1)
    mixed = join(attention @ v)
    out = layer.attn.Wo(mixed)
    middle = start + out
    b = layer.mlp_norm(middle)
    both = layer.mlp.Wi(b)
    inner, gate = both.chunk(2, dim=1)
    product = layer.mlp.act(inner) * gate
    second = layer.mlp.Wo(product)
    end = middle + second
    final = body.final_norm(end)
    hidden = module.head.dense(final[0])
    active = module.head.act(hidden)
    pooled = module.head.norm(active)
    logits = module.classifier(pooled)
    at_active = norm_rule(
        active, module.head.norm, linear_rule(pooled, module.classifier.weight.T, logits, target * logits)
    )
    at_final = torch.zeros_like(final)
    at_final[0] = linear_rule(final[0], module.head.dense.weight.T, hidden, at_active)
    at_end = norm_rule(end, body.final_norm, at_final)
    at_product = linear_rule(product, layer.mlp.Wo.weight.T, second, at_end * second / end)
    at_both = torch.cat([0.5 * at_product, 0.5 * at_product], dim=1)
    at_middle = at_end * middle / end + norm_rule(
        middle, layer.mlp_norm, linear_rule(b, layer.mlp.Wi.weight.T, both, at_both)
    )
    at_mixed = split(linear_rule(mixed, layer.attn.Wo.weight.T, out, at_middle * out / middle))
    per_product = at_mixed / (attention @ v)
    to_value = v * (attention.transpose(1, 2) @ per_product)
    if rule == "cp":
        at_qkv = [torch.zeros_like(words), torch.zeros_like(words), join(to_value)]
    else:
        at_attention = 0.5 * attention * (per_product @ v.transpose(1, 2))
        at_scores = scores * (at_attention - attention * at_attention.sum(dim=-1, keepdim=True))
        shared = 0.5 * at_scores / scores / size**0.5
        back = [torch.einsum("hle,lde->hld", part, rotation) for part in (shared @ turned_k, shared.mT @ turned_q)]
        at_qkv = [join(q * back[0]), join(k * back[1]), join(0.5 * to_value)]
    at_start = at_middle * start / middle + linear_rule(start, layer.attn.Wqkv.weight.T, qkv, torch.cat(at_qkv, dim=1))
    return norm_rule(words, body.embeddings.norm, at_start).sum(dim=1)[1:-1]


@pytest.mark.parametrize("explainer", [AttnLRP(), CpLRP()])
@pytest.mark.parametrize("by_hand", [gpt2_relevance, modernbert_relevance])
def test_equal_to_the_published_rules_worked_layer_by_layer(by_hand, explainer):
    backend = backend_of(by_hand.__name__.partition("_")[0], biases=0.3, layers=1)
    backend.module.double()
    if by_hand is modernbert_relevance:
        with torch.no_grad():
            backend.module.classifier.bias.zero_()
    words = Classifier(backend).embed(SAMPLE)
    with torch.no_grad():
        truth = by_hand(backend.module, words, torch.tensor([-1.0, 1.0], dtype=torch.float64), explainer.rule)
    ours = explain(explainer, backend).scores["attribution"]
    assert np.abs(truth.numpy()).max() > 1e-2
    np.testing.assert_allclose(ours, truth.numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != "bloom"])  # it has no SDPA
@pytest.mark.parametrize("explainer", [AttnLRP(), CpLRP()])
def test_sdpa_and_eager_attention_give_the_same_relevance(architecture, explainer):
    scores = []
    for implementation in ("sdpa", "eager"):
        backend = backend_of(architecture, biases=0.2)
        backend.module.set_attn_implementation(implementation)
        scores.append(explain(explainer, backend).scores["attribution"])
    assert np.abs(scores[0]).max() > 1e-4
    np.testing.assert_allclose(*scores, atol=1e-5 * np.abs(scores[0]).max())


def plain_gradient(backend: HFBackend) -> torch.Tensor:
    return Classifier(backend).gradients(Classifier(backend).embed(SAMPLE)[None])[1]


def test_the_models_own_gradients_are_bit_identical_before_after_and_after_an_error(monkeypatch):
    backend = backend_of("bert", biases=0.2)
    before, answers = plain_gradient(backend), Classifier(backend).log_odds([SAMPLE.ids])
    hooks = [len(part._forward_hooks) for part in backend.module.modules()]
    explain(AttnLRP(), backend)
    assert torch.equal(plain_gradient(backend), before)

    def broken(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("in the middle of a forward pass")

    monkeypatch.setattr(lrp, "identity_rule", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        explain(AttnLRP(), backend)
    assert torch.equal(plain_gradient(backend), before)
    assert (Classifier(backend).log_odds([SAMPLE.ids]) == answers).all()
    assert [len(part._forward_hooks) for part in backend.module.modules()] == hooks
    assert all(p.grad is None for p in backend.module.parameters())


def test_the_models_own_gradients_are_bit_identical_while_another_thread_explains():
    backend = backend_of("gpt2", biases=0.2)
    before, alone = plain_gradient(backend), explain(AttnLRP(), backend).scores["attribution"]
    running, results = threading.Event(), []

    def explain_often() -> None:
        for _ in range(8):
            results.append(explain(AttnLRP(), backend).scores["attribution"])
            running.set()

    thread = threading.Thread(target=explain_often)
    thread.start()
    running.wait(30)
    during = [plain_gradient(backend) for _ in range(8)]
    thread.join()
    assert all(torch.equal(gradient, before) for gradient in during)
    assert len(results) == 8
    assert all((scores == alone).all() for scores in results)


def test_an_unsupported_model_is_told_what_is_supported():
    classifier = Classifier(bag_of_words({"a": 1.0}))
    with pytest.raises(Unsupported, match="supported: bert, distilbert, gpt2, roberta, xlm-roberta, electra"):
        AttnLRP().explain(classifier, Sample("a", np.array([3])), 1, np.random.default_rng(0))
    backend = backend_of("bert")
    backend.module.config.model_type = "newbert"
    with pytest.raises(Unsupported, match="newbert; supported: bert"):
        explain(AttnLRP(), backend)
