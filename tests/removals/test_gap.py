"""The removal rule gap: transformers' own forward pass with explicit position ids is the oracle."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench import registry
from slalom_bench.backends.callable_backend import wrap
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.modules import twin
from slalom_bench.backends.nets_classic import AttentionNet, AttentionNetBackend, EnglishWords, SlotBackend, SlotNet
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.loading import Loader
from slalom_bench.running.plan import check_removal
from slalom_bench.running.suite import make_suite

ARCHITECTURES = ("bert", "distilbert", "gpt2", "roberta")
PRUNED = [
    *((architecture, pruned) for architecture in ARCHITECTURES[:3] for pruned in (True, False)),
    *((architecture, True) for architecture in ("roberta", "xlm-roberta", "electra", "albert", "modernbert")),
]
"""Those behind the first three have no pruned pass: their own is asked either way."""


@cache
def backend(architecture: str, pruned: bool = True) -> HFBackend:
    found = random_backend(architecture)
    if not pruned:
        return HFBackend(found.module, found.tokens, name="own", class_names=found.class_names, pruned=False)
    return found


def handle(model, rule: str) -> Classifier:
    return Classifier(model, removal=registry.removals.build(rule))


def oracle(model: HFBackend, ids: np.ndarray, keep: np.ndarray) -> float:
    """transformers called on one kept text, every token with the position id that it has in the full one."""
    before, after = model.tokens.prefix, model.tokens.suffix
    whole = np.array([*before, *ids, *after])
    first = int(model.module.config.pad_token_id) + 1 if "roberta" in model.module.config.model_type else 0
    stays = np.concatenate([np.ones(len(before), bool), keep, np.ones(len(after), bool)])
    inputs = {
        "input_ids": torch.tensor(whole[stays])[None],
        "position_ids": torch.tensor(np.arange(len(whole))[stays] + first)[None],
    }
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    with torch.no_grad():
        if model.module.config.model_type == "gpt2":
            logits = model.module.score(model.module.transformer(**inputs)[0])[0, -1]
        else:
            logits = model.module(**inputs).logits[0]
    return float(logits[1] - logits[0])


texts = st.integers(1, 16).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(8, 40), min_size=n, max_size=n),
        st.lists(st.lists(st.booleans(), min_size=n, max_size=n).filter(any), min_size=1, max_size=6),
    )
)


@pytest.mark.parametrize(("architecture", "pruned"), PRUNED)
@settings(max_examples=12, deadline=None)
@given(text=texts)
def test_gap_is_the_models_own_answer_at_the_old_positions_and_pads(architecture, pruned, text):
    """A hidden position is attended to by nobody, so `pad` asks the same of the model with more tokens."""
    model, (ids, keep) = backend(architecture, pruned), text
    sample, masks = Sample("x", np.array(ids)), np.array(keep)
    found = handle(model, "gap").masked_log_odds(sample, masks)
    expected = [oracle(model, sample.ids, mask) for mask in masks]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(handle(model, "pad").masked_log_odds(sample, masks), expected, atol=2e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gap_is_not_delete_where_something_moves(architecture):
    sample = Sample("x", np.arange(10, 22))
    keep = np.ones((3, 12), np.bool_)
    keep[1, 0] = keep[2, -1] = False
    classifier = handle(backend(architecture), "gap")
    gap = classifier.masked_log_odds(sample, keep)
    delete = classifier.under(registry.removals.build("delete")).masked_log_odds(sample, keep)
    assert gap[0] == delete[0]
    assert abs(gap[1] - delete[1]) > 1e-3
    # without the last token only [SEP] moves, and GPT-2 has none
    assert (abs(gap[2] - delete[2]) > 1e-6) == bool(backend(architecture).tokens.suffix)


def test_views_under_other_rules_share_cache_counters_and_target():
    classifier = handle(backend("bert"), "delete").targeting(0)
    sample, keep = Sample("x", np.arange(10, 20)), np.eye(10, dtype=np.bool_)
    keep[0] = True
    view = classifier.under(registry.removals.build("gap"))
    with classifier.work() as cost:
        full = classifier.masked_log_odds(sample, keep)
        # under gap the full text is the same query, the rest are others
        other = view.masked_log_odds(sample, keep)
    assert view.target == 0
    assert (cost.queries, cost.forwards, cost.hits) == (20, 19, 1)
    assert full[0] == other[0]
    assert classifier.removal.closes_gaps
    assert not view.removal.closes_gaps


def test_the_batch_does_not_matter():
    rng = np.random.default_rng(0)
    sample, keep = Sample("x", rng.integers(8, 60, 30)), rng.random((40, 30)) < 0.8
    for architecture, pruned in PRUNED:
        model, gap = backend(architecture, pruned), registry.removals.build("gap")
        one = Classifier(model, token_budget=1, removal=gap).masked_log_odds(sample, keep)
        all_at_once = Classifier(model, token_budget=10_000, removal=gap).masked_log_odds(sample, keep)
        np.testing.assert_allclose(one, all_at_once, atol=1e-5)


def test_nets_with_slots_see_an_empty_one():
    words = [f"w{i}" for i in range(40)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        nets = (AttentionNet(42).eval(), SlotNet(41).eval())
    names = {"name": "net", "class_names": ("a", "b")}
    attention = AttentionNetBackend(nets[0], EnglishWords(words, cls=True), max_length=256, **names)
    slots = SlotBackend(nets[1], EnglishWords(words), max_length=32, **names)
    sample, keep = Sample("x", np.arange(2, 22)), np.random.default_rng(0).random((9, 20)) < 0.7
    for model in (attention, slots):
        gap, delete = (handle(model, rule).masked_log_odds(sample, keep) for rule in ("gap", "delete"))
        np.testing.assert_allclose(gap, handle(model, "pad").masked_log_odds(sample, keep), atol=1e-6)
        assert abs(gap - delete).max() > 1e-4


def bloom_oracle(model: HFBackend, ids: np.ndarray, keep: np.ndarray) -> float:
    """BLOOM on the kept tokens alone, its biases slope x old position written out again."""
    module: Any = twin(model.module)
    slopes, places = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]), torch.tensor(np.flatnonzero(keep))
    module.transformer.build_alibi_tensor = lambda mask, heads, dtype: slopes[:, None, None] * places
    inputs = torch.tensor(ids[keep])[None]
    with torch.no_grad():
        logits = module.score(module.transformer(inputs, attention_mask=torch.ones_like(inputs))[0])[0, -1]
    return float(logits[1] - logits[0])


def window_oracle(model: HFBackend, ids: np.ndarray, keep: np.ndarray) -> float:
    """ModernBERT on the kept tokens alone, rotated by and looking as far as their old positions."""
    stays = np.concatenate([[True], keep, [True]])
    whole, places = np.array([*model.tokens.prefix, *ids, *model.tokens.suffix]), np.flatnonzero(stays)
    near = abs(places[:, None] - places) <= model.module.config.sliding_window
    masks = {
        "full_attention": None,
        "sliding_attention": torch.tensor(np.where(near, 0.0, -np.inf)[None, None]).float(),
    }
    with torch.no_grad():
        logits = model.module(
            torch.tensor(whole[stays])[None], attention_mask=masks, position_ids=torch.tensor(places)[None]
        ).logits[0]
    return float(logits[1] - logits[0])


@pytest.mark.parametrize("architecture", ["bloom", "modernbert"])
def test_where_layers_count_places_hidden_tokens_fill_the_gaps(architecture):
    """The distances of ALiBi, and a window of two tokens to each side."""
    model = backend(architecture)
    if architecture == "modernbert":
        config = model.module.config.__class__(
            **{**model.module.config.to_dict(), "layer_types": ["full_attention", "sliding_attention"]}
        )
        config.sliding_window = 2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = type(model.module)(config).eval()
        module.load_state_dict(model.module.state_dict())
        model = HFBackend(module, model.tokens, name="windowed", class_names=model.class_names)
    assert model.spreads
    rng = np.random.default_rng(0)
    sample, keep = Sample("x", rng.integers(8, 60, 12)), rng.random((9, 12)) < 0.7
    found = handle(model, "gap").masked_log_odds(sample, keep)
    expected = [(bloom_oracle if architecture == "bloom" else window_oracle)(model, sample.ids, row) for row in keep]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(handle(model, "pad").masked_log_odds(sample, keep), expected, atol=2e-5)
    assert abs(found - handle(model, "delete").masked_log_odds(sample, keep)).max() > 1e-4


@pytest.mark.parametrize("architecture", ["llama", "mistral", "deberta-v2"])
def test_gap_is_pad_where_only_distances_count(architecture):
    model, rng = backend(architecture), np.random.default_rng(0)
    sample, keep = Sample("x", rng.integers(8, 60, 12)), rng.random((9, 12)) < 0.7
    gap, pad, delete = (handle(model, rule).masked_log_odds(sample, keep) for rule in ("gap", "pad", "delete"))
    np.testing.assert_allclose(gap, pad, atol=2e-5)
    assert abs(gap - delete).max() > 1e-4


def test_models_without_absolute_positions_are_refused():
    sample, keep = Sample("x", np.arange(10, 15)), np.array([[True, False, True, True, True]])
    others = (bag_of_words({"good": 1.0}), wrap(len).backend)
    for model in (random_backend("mamba"), *others):
        assert "positions" not in model.capabilities
        with pytest.raises(Unsupported, match=r"no absolute positions .*'gap'\); use delete"):
            handle(model, "gap").masked_log_odds(sample, keep)


def test_a_text_spans_its_gaps_when_its_length_is_checked():
    limit = backend("bert").max_length
    assert limit is not None
    sample, keep = Sample("x", np.full(limit - 1, 9)), np.zeros((1, limit - 1), np.bool_)
    with pytest.raises(InvalidInput, match=f"of {limit + 1} tokens"):
        handle(backend("bert"), "gap").masked_log_odds(sample, keep)


def test_a_plan_skips_models_without_positions_and_says_why():
    with pytest.raises(Unsupported, match="gap needs positions, which this model does not have"):
        check_removal("gap", frozenset({"queries", "gradients"}))
    check_removal("gap", None)
    check_removal("delete", frozenset({"queries"}))
    asked = {"name": "x", "tasks": ("synthetic-linear",), "explainers": ("zero",), "samples": 2}
    loader = Loader(ModelOptions(device="cpu", progress=False))
    with pytest.raises(InvalidInput, match=r"nothing to run: .*tfidf-mlp: removal rule gap needs positions"):
        loader.plan(make_suite(**asked, models=("bag-of-words", "tfidf-mlp"), removal="gap"))
    assert len(loader.plan(make_suite(**asked, models=("bag-of-words", "tfidf-mlp"))).cells) == 2
    mixed = loader.plan(make_suite(**asked, models=("bag-of-words", "fc"), removal="gap"))
    assert [cell.model for cell in mixed.cells] == ["fc"]
    assert [skip.what for skip in mixed.skips] == ["synthetic-linear · bag-of-words"]
