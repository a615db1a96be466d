"""One answer whatever the batch, order, padding and cache; batches that fit the memory."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.answering import Answering
from slalom_bench.handle.backend import OutOfMemory
from slalom_bench.handle.cache import QueryCache
from slalom_bench.handle.classifier import Classifier
from slalom_bench.handle.ledger import Ledger
from slalom_bench.handle.packing import TokenBudget

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
    assert all(cost.shared == cost.forwards == costs[0].forwards for cost in costs[1:])
    assert classifier.total.forwards - classifier.total.shared == costs[0].forwards


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


def test_a_cache_that_is_too_small_costs_queries_and_changes_no_answer():
    small = Answering(backend("bert"), Ledger(), TokenBudget(1000), QueryCache(limit=30))
    none = Answering(backend("bert"), Ledger(), TokenBudget(1000), None)
    for start in (0, 10, 20, 30, 0):
        small.new_scope()
        batch = [ids(5 + start, i) for i in range(10, 20)]
        assert (small.logits(batch) == none.logits(batch)).all()


def test_a_matrix_and_its_rows_have_the_same_answers():
    ids = np.random.default_rng(0).integers(5, 60, size=(20, 3))
    classifier = Classifier(random_backend("bert"), token_budget=40)
    assert (classifier.log_odds(ids) == Classifier(classifier.backend, token_budget=40).log_odds(list(ids))).all()
    assert (classifier.log_odds(ids[::2]) == classifier.log_odds(ids)[::2]).all()
    assert classifier.log_odds(ids[:0]).shape == (0,)


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
