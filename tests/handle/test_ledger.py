"""Counts by hand, budgets that hold, pieces of work inside each other."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from slalom_bench import registry
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.types import Sample
from slalom_bench.errors import BudgetExceeded
from slalom_bench.handle.classifier import Classifier
from slalom_bench.handle.ledger import Ledger
from slalom_bench.running.explaining import explain_sample


@cache
def backend(architecture: str) -> HFBackend:
    return random_backend(architecture)


def ids(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


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


COUNTED = ("queries", "forwards", "backwards", "hits", "batches", "tokens", "padding", "model_seconds")


@pytest.mark.parametrize("architecture", ["bert", "mamba"])
def test_known_answers_are_charged_what_they_cost_when_computed(architecture):
    """Mamba has no pruned pass, so that its batches are padded."""
    classifier = Classifier(random_backend(architecture), token_budget=60)
    keep = np.random.default_rng(0).random((20, 10)) < 0.7
    sample = Sample("x", np.arange(5, 15))
    with classifier.work() as first:
        classifier.masked_log_odds(sample, keep)
        classifier.masked_log_odds(sample, keep[:3])
    with classifier.work() as second:
        classifier.masked_log_odds(sample, keep)
        classifier.masked_log_odds(sample, keep[:3])
    distinct = np.unique(keep, axis=0)
    template = len(classifier.tokens.prefix) + len(classifier.tokens.suffix)
    assert (first.forwards, first.tokens) == (len(distinct), distinct.sum() + template * len(distinct))
    assert first.hits == 23 - len(distinct)
    assert first.batches > 1
    assert [getattr(first, name) for name in COUNTED] == [getattr(second, name) for name in COUNTED]
    assert (first.shared, first.saved_seconds) == (0, 0)
    assert (second.shared, second.saved_seconds) == (first.forwards, first.model_seconds)
    assert second.seconds > second.model_seconds > 0


def test_the_order_of_two_explainers_changes_no_count_and_no_score():
    """`slalom-fidel` asks what `linear-deletion` asks: each costs the same whichever comes first."""
    found = {}
    for order in (("linear-deletion", "slalom-fidel"), ("slalom-fidel", "linear-deletion")):
        classifier = Classifier(random_backend("bert"), token_budget=60)
        for name in order:
            explainer = registry.explainers.get(name).build()
            outcome = explain_sample(explainer, classifier, Sample("x", np.arange(5, 25)), budget=60, seed=0)
            counts = [getattr(outcome.cost, count) for count in COUNTED[:-1]]
            found.setdefault(name, []).append((counts, outcome.unwrap().scores, outcome.cost.shared))
    for first, second in found.values():
        assert first[0] == second[0]
        assert first[0][1] > 0
        assert {bool(first[2]), bool(second[2])} == {False, True}
        assert all((first[1][name] == second[1][name]).all() for name in first[1])


def test_work_inside_work_counts_in_both_and_each_has_its_own_budget():
    ledger = Ledger()
    with ledger.work(budget=5) as outer:
        ledger.ask(2)
        with ledger.work(budget=2) as inner:
            ledger.ask(2)
            with pytest.raises(BudgetExceeded, match="3 model queries for a budget of 2"):
                ledger.ask(1)
        with pytest.raises(BudgetExceeded, match="6 model queries for a budget of 5"):
            ledger.ask(1)
    ledger.ask(1)
    assert (inner.queries, outer.queries, ledger.total.queries) == (3, 6, 7)
    assert outer.seconds >= inner.seconds > 0


def test_views_share_counters_batches_and_answers():
    classifier = Classifier(random_backend("bert", classes=3))
    other = classifier.targeting(2)
    other.log_odds([ids(10), ids(11)])
    classifier.log_odds([ids(10)])
    assert (classifier.total.queries, classifier.total.forwards) == (3, 2)
    other.token_budget = 7
    assert classifier.token_budget == 7
    bare = classifier.bare()
    bare.log_odds([ids(10)])
    assert (classifier.total.queries, classifier.total.forwards, bare.token_budget) == (4, 3, 7)
