"""The pruned forward pass gives the model's own answers: transformers called directly is the oracle."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench.backends import pruned_forward
from slalom_bench.backends.architectures.bert import BertParts
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import DifferentiableBackend, HFBackend, TorchBackend
from slalom_bench.core.removal import HIDDEN

ARCHITECTURES = ("bert", "distilbert", "modernbert", "gpt2", "bloom")
DECODERS = ("gpt2", "bloom")


@cache
def backend(architecture: str, layers: int = 2) -> HFBackend:
    found = random_backend(architecture, layers=layers)
    assert found.pruned is not None
    return found


def own(model: HFBackend, sequences: list[np.ndarray]) -> np.ndarray:
    """The padded pass of the model itself, a sequence at a time."""
    return np.concatenate([TorchBackend.logits(model, [sequence]) for sequence in sequences])


sequences_of_ids = st.lists(
    st.lists(st.integers(5, 60), min_size=1, max_size=30).map(lambda xs: np.array(xs, np.int64)),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=15, deadline=None)
@given(sequences=sequences_of_ids, layers=st.sampled_from([1, 2, 3]), chunk=st.integers(1, 80))
def test_any_sequences_in_any_order_and_chunk(architecture, sequences, layers, chunk):
    model = backend(architecture, layers)
    before, pruned_forward.CHUNK = pruned_forward.CHUNK, chunk
    try:
        found = model.logits(sequences)
    finally:
        pruned_forward.CHUNK = before
    np.testing.assert_allclose(found, own(model, sequences), atol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hidden_positions(architecture):
    """Of a decoder the first and the last may be hidden too: the last attended position is read."""
    model = backend(architecture)
    rows = [np.array(row) for row in ([10, HIDDEN, 12, 13], [HIDDEN, 11, 12, HIDDEN], [10, 11, 12, 13], [9, HIDDEN])]
    if model.tokens.prefix:
        rows = [np.concatenate([model.tokens.prefix, row, model.tokens.suffix]) for row in rows]
    np.testing.assert_allclose(model.logits(rows), own(model, rows), atol=1e-5)
    assert abs(model.logits([rows[0]]) - model.logits([rows[2]])).max() > 1e-6


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gradients(architecture):
    model = backend(architecture)
    words = torch.stack([model.embed(np.arange(10, 22)) * scale for scale in (0.5, 1.0)]).requires_grad_(True)
    ours = model.logits_from_embeddings(words)
    theirs = DifferentiableBackend.logits_from_embeddings(model, words)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    (a,) = torch.autograd.grad((ours[:, 1] - ours[:, 0]).sum(), words)
    (b,) = torch.autograd.grad((theirs[:, 1] - theirs[:, 0]).sum(), words)
    assert b.abs().max() > 1e-3
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_the_table_holds_each_pair_of_token_and_position_once(monkeypatch):
    model = backend("bert")
    assert model.pruned is not None
    seen, embed = [], model.pruned.parts.embed

    def watched(words, places):
        seen.append(len(words))
        return embed(words, places)

    monkeypatch.setattr(model.pruned.parts, "embed", watched)
    text = np.arange(10, 30)
    model.logits([np.delete(text, i) for i in range(20)])
    assert seen == [19 + 19]  # 19 tokens where they were, 19 one place earlier


@pytest.mark.parametrize("architecture", DECODERS)
@pytest.mark.parametrize("layers", [1, 2, 3])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), chunk=st.integers(20, 300))
def test_deletions_that_share_their_beginnings(architecture, layers, seed, chunk):
    """Batches of one share nothing: the same answers to rounding, whatever stands beside a text."""
    model, rng = backend(architecture, layers), np.random.default_rng(seed)
    text = rng.integers(5, 8, 14)  # few words: the same ones come again, at the same and at other places
    sequences = [np.delete(text, rng.choice(14, rng.integers(0, 5), replace=False)) for _ in range(20)]
    before, pruned_forward.CHUNK = pruned_forward.CHUNK, chunk
    try:
        found = model.logits(sequences)
    finally:
        pruned_forward.CHUNK = before
    alone = np.concatenate([model.logits([sequence]) for sequence in sequences])
    np.testing.assert_allclose(found, alone, atol=2e-6)
    np.testing.assert_allclose(found, own(model, sequences), atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(sequences=sequences_of_ids, hidden=st.integers(0, 2**30), after=st.booleans())
def test_bloom_with_either_residual(sequences, hidden, after):
    """What a layer adds to may be its norm; hidden places keep the distances as they are."""
    model = random_backend("bloom", layers=2)
    model.module.config.apply_residual_connection_post_layernorm = after
    for layer in model.module.transformer.h:  # type: ignore[union-attr, operator]
        layer.apply_residual_connection_post_layernorm = after  # type: ignore[union-attr]
    model = HFBackend(model.module, model.tokens, name="b", class_names=model.class_names)
    assert model.pruned is not None
    holes = [np.where([hidden >> i & 1 for i in range(len(ids))], HIDDEN, ids) for ids in sequences]
    given = [row for row in holes if (row != HIDDEN).any()] or sequences
    np.testing.assert_allclose(model.logits(given), own(model, given), atol=1e-5)


def test_a_beginning_is_computed_once(monkeypatch):
    model = backend("gpt2", 3)
    assert model.pruned is not None
    seen, finish = [], model.pruned.parts.finish

    def watched(layer, x, attended):
        seen.append(len(x))
        return finish(layer, x, attended)

    monkeypatch.setattr(model.pruned.parts, "finish", watched)
    text = np.arange(10, 20)
    model.logits([np.delete(text, 8), np.delete(text, 3)])
    assert seen == [8 + 1 + 6, 15, 2]  # the first's 8 and 1, the other's 6 behind the 3 that both begin with
    backend("bert")
    assert "prefixes" in model.settings()
    assert "prefixes" not in backend("bert").settings()


def test_a_model_that_was_changed_keeps_its_own_pass():
    """A hook that the parts do not pass through: the probe sees it."""
    model = random_backend("bert")
    model.module.bert.encoder.layer[0].register_forward_hook(lambda layer, inputs, out: out * 1.5)  # type: ignore
    changed = HFBackend(model.module, model.tokens, name="changed", class_names=("a", "b"))
    assert changed.pruned is None
    assert changed.pads
    sequence = np.arange(5, 15)
    assert abs(changed.logits([sequence]) - backend("bert").logits([sequence])).max() > 1e-3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_hook_on_the_gradient_alone_is_not_passed_by(architecture):
    """It changes no answer, so that the probe cannot see it."""
    model = random_backend(architecture)
    part = next(part for part in model.module.modules() if not list(part.children()))
    part.register_forward_hook(lambda module, inputs, out: out)
    assert pruned_forward.pruned_forward(model.module, 0) is None


def test_bloom_keeps_no_copy_of_its_weights_for_the_backward_pass():
    model = backend("bloom", 3)
    weights = {parameter.data_ptr() for parameter in model.module.parameters()}
    kept = []
    words = model.embed(np.arange(10, 22))[None].requires_grad_(True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        model.logits_from_embeddings(words)
    width = words.shape[-1]
    large = [x for x in kept if x.untyped_storage().data_ptr() not in weights and tuple(x.shape) == (width, width)]
    assert len(large) <= 3  # of the last layer, where each is needed by itself


def test_a_model_whose_parts_are_elsewhere_keeps_its_own_pass(monkeypatch):
    def gone(self, layer):
        raise AttributeError("scaling")

    monkeypatch.setattr(BertParts, "scale", gone)
    assert random_backend("bert").pruned is None
    assert random_backend("gpt2").pruned is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layer_types", ["full_attention", "sliding_attention"]),
        ("classifier_pooling", "mean"),
        ("rope_parameters", {"full_attention": {"rope_theta": 1e4, "rope_type": "dynamic", "factor": 2.0}}),
    ],
)
def test_a_modernbert_that_is_not_pruned_keeps_its_own_pass(name, value):
    """Windows, means of states, and frequencies that depend on the longest text of a call."""
    module = random_backend("modernbert").module
    windows = {"rope_theta": 1e4, "rope_type": "dynamic", "factor": 2.0}  # of layers that it has not
    module.config.rope_parameters = {**module.config.rope_parameters, "sliding_attention": windows}
    assert pruned_forward.pruned_forward(module, 0) is not None
    setattr(module.config, name, value)
    assert pruned_forward.pruned_forward(module, 0) is None


def test_a_bert_that_reads_one_way_keeps_its_own_pass():
    module = random_backend("bert").module
    module.config.is_decoder = True
    assert pruned_forward.pruned_forward(module, 0) is None


def test_half_precision_is_probed_at_its_own_resolution():
    model = random_backend("bert")
    half = HFBackend(model.module.to(torch.bfloat16), model.tokens, name="half", class_names=model.class_names)
    assert half.pruned is not None
    sequences = [np.arange(5, 25), np.arange(8, 12)]
    np.testing.assert_allclose(half.logits(sequences), own(half, sequences), atol=0.05)


def test_which_pass_answers_is_part_of_the_identity():
    model = random_backend("bert")
    plain = HFBackend(model.module, model.tokens, name=model.name, class_names=model.class_names, pruned=False)
    assert plain.identity() != model.identity()
    assert plain.pads
    assert not model.pads


def test_of_a_wide_model_fewer_tokens_are_computed_together(monkeypatch):
    """Twice as wide, half as many; and its answers are the model's own."""
    model = random_backend("bert", width=2 * pruned_forward.NARROW, scale=1.0)
    assert model.pruned is not None
    seen, finish = [], model.pruned.parts.finish

    def watched(layer, x, attended):
        seen.append(len(x))
        return finish(layer, x, attended)

    monkeypatch.setattr(model.pruned.parts, "finish", watched)
    monkeypatch.setattr(pruned_forward, "CHUNK", 40)
    sequences = [np.arange(5, 15) + i for i in range(4)]
    found = model.logits(sequences)
    assert seen == [20, 2, 20, 2]
    np.testing.assert_allclose(found, own(model, sequences), atol=1e-5)
    assert pruned_forward.WIDE in model.settings()
    assert pruned_forward.WIDE not in backend("bert").settings()
    wide_decoder = random_backend("gpt2", width=2 * pruned_forward.NARROW)
    assert pruned_forward.WIDE not in wide_decoder.settings()


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_same_on_a_gpu(architecture):
    model = random_backend(architecture)
    sequences = [np.arange(10, 10 + k) for k in (1, 7, 7, 30)]
    on_cpu = model.logits(sequences)
    moved = HFBackend(model.module.to("cuda"), model.tokens, name="x", class_names=model.class_names)
    assert moved.pruned is not None
    np.testing.assert_allclose(moved.logits(sequences), on_cpu, atol=1e-4)
