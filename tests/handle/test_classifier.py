"""The handle: one answer whatever the batch, every query counted, the model never changed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend, pick_device, twin, weights_hash
from slalom_bench.core.removal import HIDDEN
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import BudgetExceeded, InvalidInput, Unsupported
from slalom_bench.handle.backend import OutOfMemory
from slalom_bench.handle.classifier import Classifier

ARCHITECTURES = ("bert", "distilbert", "gpt2", "mamba")


@cache
def backend(architecture: str) -> HFBackend:
    return random_backend(architecture)


def ids(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


sequences_of_ids = st.lists(
    st.lists(st.integers(5, 60), min_size=1, max_size=40).map(lambda xs: np.array(xs, np.int64)),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=8, deadline=None)
@given(sequences=sequences_of_ids, token_budget=st.integers(1, 400), seed=st.integers(0, 9))
def test_any_batch_order_and_padding_gives_the_same_log_odds(architecture, sequences, token_budget, seed):
    alone = np.array([Classifier(backend(architecture)).log_odds([s])[0] for s in sequences])
    order = np.random.default_rng(seed).permutation(len(sequences))
    batched = Classifier(backend(architecture), token_budget=token_budget).log_odds([sequences[i] for i in order])
    np.testing.assert_allclose(batched, alone[order], atol=1e-5)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_equal_to_transformers_called_directly(architecture):
    model = backend(architecture)
    content = ids(10, 11, 12, 13, 14)
    whole = torch.tensor([[*model.tokens.prefix, *content, *model.tokens.suffix]])
    with torch.no_grad():
        logits = model.module(input_ids=whole, attention_mask=torch.ones_like(whole)).logits[0].double()
    assert Classifier(model).log_odds([content])[0] == pytest.approx(float(logits[1] - logits[0]), abs=1e-6)


def test_decoder_with_padding_reads_the_last_real_position_even_if_it_is_the_pad_id():
    """GPT-2's pad id may be content: the read-out follows the attention, not the ids."""
    model = backend("gpt2")
    ends_with_pad = ids(10, 11, model.tokens.pad_id)
    together = Classifier(model).log_odds([ends_with_pad, np.arange(10, 40)])
    alone = Classifier(model).log_odds([ends_with_pad])
    assert together[0] == pytest.approx(alone[0], abs=1e-5)
    assert abs(alone[0] - Classifier(model).log_odds([ids(10, 11)])[0]) > 1e-3


def test_hidden_positions_are_not_attended_to_but_keep_their_place():
    model = backend("bert")
    classifier = Classifier(model)
    hidden = ids(10, HIDDEN, 12)
    whole = torch.tensor([[*model.tokens.prefix, 10, 30, 12, *model.tokens.suffix]])
    mask = torch.tensor([[1, 1, 0, 1, 1]])
    with torch.no_grad():
        logits = model.module(input_ids=whole, attention_mask=mask).logits[0].double()
    assert classifier.log_odds([hidden])[0] == pytest.approx(float(logits[1] - logits[0]), abs=1e-6)
    assert abs(classifier.log_odds([hidden])[0] - classifier.log_odds([ids(10, 12)])[0]) > 1e-6


def test_log_odds_and_probabilities_by_hand():
    classifier = Classifier(bag_of_words({"good": 1.5, "bad": -2.0}, bias=0.25))
    sample = classifier.encode(Example("x", "good bad good"))
    assert classifier.log_odds([sample.ids])[0] == pytest.approx(0.25 + 3.0 - 2.0, abs=1e-6)
    assert classifier.probabilities([sample.ids])[0, 1] == pytest.approx(1 / (1 + np.exp(-1.25)), abs=1e-6)


def test_multi_class_log_odds_are_one_against_the_rest():
    classifier = Classifier(random_backend("bert", classes=4))
    logits = classifier.logits([ids(10, 11)])[0]
    for target in range(4):
        others = np.delete(logits, target)
        expected = logits[target] - np.log(np.exp(others).sum())
        assert classifier.targeting(target).log_odds([ids(10, 11)])[0] == pytest.approx(expected)
    p = classifier.probabilities([ids(10, 11)])[0]
    assert p.sum() == pytest.approx(1)
    with pytest.raises(InvalidInput, match="class 4 of 4"):
        classifier.targeting(4)


def test_duplicates_and_repeats_are_computed_once():
    classifier = Classifier(backend("bert"))
    classifier.log_odds([ids(10, 11), ids(10, 11), ids(12)])
    assert (classifier.total.queries, classifier.total.forwards, classifier.total.hits) == (3, 2, 1)
    classifier.log_odds([ids(12), ids(13)])
    assert (classifier.total.queries, classifier.total.forwards, classifier.total.hits) == (5, 3, 2)


def test_ten_explainers_on_the_same_masks_query_the_model_once():
    classifier = Classifier(backend("bert"))
    sample = Sample("x", np.arange(10, 30))
    keep = np.random.default_rng(0).random((50, 20)) > 0.2
    costs = []
    for _ in range(10):
        with classifier.work() as cost:
            classifier.masked_log_odds(sample, keep)
        costs.append(cost)
    assert costs[0].forwards == len(np.unique(keep, axis=0))
    assert all(cost.forwards == 0 and cost.hits == cost.queries == 50 for cost in costs[1:])


def test_answers_never_depend_on_what_other_work_left_in_the_cache():
    """Bit-identical, because an interrupted run must end as an uninterrupted one does."""
    rng = np.random.default_rng(1)
    calls = [[rng.integers(5, 60, size=rng.integers(1, 30)) for _ in range(20)] for _ in range(4)]
    calls[2] = calls[2][:10] + calls[0][:10]
    warm = Classifier(backend("bert"), token_budget=200)
    for call in (*calls, calls[2]):
        with warm.work():
            seen = warm.log_odds(call)
        assert (seen == Classifier(backend("bert"), token_budget=200).log_odds(call)).all()


def test_cache_is_bounded():
    classifier = Classifier(backend("bert"))
    assert classifier._cache is not None
    classifier._cache.limit = 30
    for start in range(0, 50, 10):
        with classifier.work():
            classifier.log_odds([ids(5 + start % 40, i) for i in range(10, 20)])
    assert classifier._cache._held <= 30
    assert sum(len(block) for block, _ in classifier._cache._sets.values()) == classifier._cache._held


@pytest.mark.parametrize(("architecture", "tokens", "padding"), [("bert", 5 + 3, 0), ("mamba", 3 + 1, 2)])
def test_counts_of_tokens_and_padding_by_hand(architecture, tokens, padding):
    classifier = Classifier(backend(architecture), token_budget=1000)
    with classifier.work() as cost:
        classifier.log_odds([ids(10, 11, 12), ids(13)])
    assert (cost.tokens, cost.padding, cost.batches, cost.forwards) == (tokens, padding, 1, 2)
    assert cost.seconds >= cost.model_seconds > 0


def test_budget_is_enforced_and_counts_duplicates():
    classifier = Classifier(backend("bert"))
    with classifier.work(budget=3):
        classifier.log_odds([ids(10), ids(10), ids(10)])
        with pytest.raises(BudgetExceeded, match="4 model queries for a budget of 3"):
            classifier.log_odds([ids(10)])


def test_gradient_queries_count_and_equal_finite_differences():
    classifier = Classifier(slalom_transformer({"a": 1.0, "b": -2.0}, {"a": 0.5, "b": -0.5}))
    sample = classifier.encode(Example("x", "a b a"))
    words = classifier.embed(sample)
    with classifier.work() as cost:
        values, grads = classifier.gradients(torch.stack([words, words / 2]))
    assert (cost.queries, cost.forwards, cost.backwards) == (2, 2, 2)
    weights = np.exp([0.5, -0.5, 0.5]) / np.exp([0.5, -0.5, 0.5]).sum()
    v = np.array([1.0, -2.0, 1.0])
    assert values[0] == pytest.approx(weights @ v, abs=1e-6)
    np.testing.assert_allclose(grads[0, :, 0], weights * (v - weights @ v), atol=1e-6)
    np.testing.assert_allclose(grads[0, :, 1], weights, atol=1e-6)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_gradients_do_not_depend_on_the_batch(architecture):
    sample = Sample("x", np.arange(10, 30))
    small, large = (Classifier(backend(architecture), token_budget=size) for size in (1, 10_000))
    words = torch.stack([small.embed(sample) * a for a in (0.2, 0.6, 1.0)])
    (a, ga), (b, gb) = small.gradients(words), large.gradients(words)
    np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_allclose(ga, gb, atol=1e-5)
    assert a[2] == pytest.approx(small.log_odds([sample.ids])[0], abs=1e-5)


def test_truncation_is_said():
    classifier = Classifier(backend("bert"))
    sample = classifier.encode(Example("x", " ".join(["w1"] * 600)))
    assert (len(sample), sample.truncated) == (512, 88)
    assert classifier.encode(Example("x", "w1 w2 w3"), max_tokens=2).truncated == 1
    with pytest.raises(InvalidInput, match="max_tokens=512"):
        classifier.log_odds([np.full(513, 10)])


def test_empty_sequences_where_the_template_leaves_something():
    assert np.isfinite(Classifier(backend("bert")).log_odds([ids()])).all()
    with pytest.raises(InvalidInput, match="keep at least one token"):
        Classifier(backend("gpt2")).log_odds([ids()])


def test_out_of_memory_halves_the_batch_and_remembers(monkeypatch):
    model = random_backend("bert")
    real, sizes = model.logits, []

    def limited(sequences):
        sizes.append(len(sequences))
        if len(sequences) > 3:
            raise OutOfMemory("full")
        return real(sequences)

    monkeypatch.setattr(model, "logits", limited)
    classifier = Classifier(model, token_budget=10_000)
    batch = [ids(10, i) for i in range(10, 26)]
    expected = Classifier(random_backend("bert")).log_odds(batch)
    np.testing.assert_allclose(classifier.log_odds(batch), expected, atol=1e-5)
    assert sizes[:3] == [16, 8, 4]
    assert max(sizes[3:]) == 2
    before = len(sizes)
    classifier.log_odds([ids(11, i) for i in range(10, 16)])
    assert max(sizes[before:]) <= 3


def test_out_of_memory_on_one_sequence_is_an_error_with_a_remedy(monkeypatch):
    model = random_backend("bert")

    def never(sequences):
        raise OutOfMemory("full")

    monkeypatch.setattr(model, "logits", never)
    with pytest.raises(InvalidInput, match="single sequence of 3 tokens"):
        Classifier(model).log_odds([ids(10)])


def test_a_model_that_returns_nan_is_an_error(monkeypatch):
    model = random_backend("bert")
    monkeypatch.setattr(model, "logits", lambda sequences: np.full((len(sequences), 2), np.nan))
    with pytest.raises(InvalidInput, match="not a finite number"):
        Classifier(model).log_odds([ids(10)])


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_the_model_is_never_changed(architecture):
    model = random_backend(architecture)
    classifier = Classifier(model)
    sample = Sample("x", np.arange(10, 20))

    def state():
        modules = [(name, type(m), len(m._forward_hooks), m.training) for name, m in model.module.named_modules()]
        flags = [p.requires_grad for p in model.module.parameters()]
        return weights_hash(model.module), modules, flags, model.module.config.to_json_string(), real([whole]).tolist()

    (whole,) = classifier._whole([sample.ids])
    real = model.logits
    before = state()
    attn = model.module.config._attn_implementation
    classifier.masked_log_odds(sample, np.eye(10, dtype=bool))
    classifier.gradients(classifier.embed(sample)[None])
    classifier.attentions(sample)
    assert state() == before
    assert model.module.config._attn_implementation == attn == "sdpa"
    assert all(p.grad is None for p in model.module.parameters())


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_attention_rows_sum_to_one(architecture):
    classifier = Classifier(backend(architecture))
    sample = Sample("x", np.arange(10, 20))
    maps = classifier.attentions(sample)
    length = 10 if architecture == "gpt2" else 12
    assert maps.shape == (2, 4, length, length)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-5)
    assert classifier.read_position(sample) == (9 if architecture == "gpt2" else 0)


def test_what_a_model_cannot_give_is_said():
    classifier = Classifier(bag_of_words({"a": 1.0}))
    with pytest.raises(Unsupported, match="bag-of-words gives no attentions"):
        classifier.attentions(classifier.encode(Example("x", "a")))


def test_twin_shares_weights_and_nothing_else():
    model = random_backend("bert")
    other = twin(model.module)
    assert all(a is b for a, b in zip(model.module.parameters(), other.parameters(), strict=True))
    assert not any(a is b for a, b in zip(model.module.modules(), other.modules(), strict=True))


def test_identity_follows_weights_tokenizer_and_configuration():
    same = random_backend("bert").identity()
    assert random_backend("bert").identity() == same
    assert random_backend("bert", seed=1).identity() != same
    changed = random_backend("bert")
    with torch.no_grad():
        next(changed.module.parameters())[0, 0] += 1e-3
    assert changed.identity() != same


def test_training_mode_is_refused():
    model = random_backend("bert")
    with pytest.raises(InvalidInput, match="training mode"):
        HFBackend(model.module.train(), model.tokens, name="x", class_names=("a", "b"))


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(InvalidInput, match="one of cpu, cuda"):
        pick_device("tpu9")
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="is not here"):
            pick_device("cuda:0")


@pytest.mark.gpu
def test_the_same_log_odds_on_a_gpu():
    model = random_backend("bert")
    batch = [np.arange(10, 10 + k) for k in range(1, 30)]
    on_cpu = Classifier(model).log_odds(batch)
    moved = HFBackend(model.module.to("cuda"), model.tokens, name="x", class_names=model.class_names)
    np.testing.assert_allclose(Classifier(moved).log_odds(batch), on_cpu, atol=1e-4)


def test_the_model_time_of_known_answers_is_told():
    classifier = Classifier(random_backend("bert"))
    ids = np.arange(5, 15)
    keep = np.random.default_rng(0).random((20, 10)) < 0.7
    sample = Sample("x", ids)
    with classifier.work() as first:
        classifier.masked_log_odds(sample, keep)
    with classifier.work() as second:
        classifier.masked_log_odds(sample, keep)
    assert first.saved_seconds == 0 < first.model_seconds
    assert (second.model_seconds, second.saved_seconds) == (0, pytest.approx(first.model_seconds))


def test_numpy_has_one_thread_inside_a_piece_of_work_and_its_own_again_after_it():
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    classifier = Classifier(backend("bert"))
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with classifier.work(), classifier.work():
            assert set(threads()) == {1}
        assert threads() == before
        first, second = classifier.work(), classifier.work()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before
