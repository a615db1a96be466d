"""partition-shap: exact Owen values by enumeration of orders, additive models, what a small budget leaves whole."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Bools, Example, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.partition_shap import PartitionShap, Tree, owen_values, segments, token_tree
from slalom_bench.handle.classifier import Classifier

WORDS = ["the", "good", "(", "bad", ")", "isn", "'", "t", ",", "fine", "."]


def table_game(n: int, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=2**n)


def value(table: Floats, keep: Bools) -> Floats:
    return table[keep @ (1 << np.arange(keep.shape[1]))]


def random_tree(n: int, seed: int) -> Tree:
    """Neighbouring groups merged at random."""
    rng, nodes, children = np.random.default_rng(seed), list(range(n)), []
    for step in range(n - 1):
        i = int(rng.integers(len(nodes) - 1))
        children.append((nodes[i], nodes[i + 1]))
        nodes[i : i + 2] = [n + step]
    return Tree.of(np.array(children, np.int64).reshape(-1, 2), n)


def owen_by_orders(table: Floats, tree: Tree) -> Floats:
    """The mean marginal contribution over the orders in which every node's tokens stand together."""
    n = tree.members.shape[1]
    total, count = np.zeros(n), 0
    for order in permutations(range(n)):
        places = np.argsort(order)
        spans = [places[members] for members in tree.members]
        if all(span.max() - span.min() + 1 == len(span) for span in spans):
            present = np.tril(np.ones((n, n), np.bool_))[:, places]
            path = value(table, np.vstack([np.zeros((1, n), np.bool_), present]))
            total[list(order)] += np.diff(path)
            count += 1
    return total / count


@given(st.integers(1, 7), st.integers(0, 10**6), st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_exact_owen_values_on_small_trees(n, seed, batch_size):
    table, tree = table_game(n, seed), random_tree(n, seed)
    found = owen_values(lambda keep: value(table, keep), tree, table[0], table[-1], 10**6, batch_size)
    np.testing.assert_allclose(found.values, owen_by_orders(table, tree), atol=1e-12)
    assert found.exact


@given(st.integers(2, 12), st.integers(0, 10**6), st.integers(0, 60), st.integers(1, 20))
@settings(max_examples=50, deadline=None)
def test_values_sum_up_and_evaluations_are_kept(n, seed, evaluations, batch_size):
    table, tree = table_game(n, seed), random_tree(n, seed)
    asked = []

    def game(keep: Bools) -> Floats:
        asked.append(keep)
        return value(table, keep)

    found = owen_values(game, tree, table[0], table[-1], evaluations, batch_size)
    assert found.values.sum() == pytest.approx(table[-1] - table[0])
    count = sum(map(len, asked))
    assert count == found.evaluations <= evaluations
    if count:
        assert len(np.unique(np.vstack(asked), axis=0)) == count, "no coalition is asked for twice"


def test_two_evaluations_by_hand():
    # the root is split into {0, 1} and {2}: with F(01) = 3, F(2) = 1, F(all) = 6, F(none) = 0
    game = {(True, True, False): 3.0, (False, False, True): 1.0}
    tree = Tree.of(np.array([[0, 1], [3, 2]]), 3)
    found = owen_values(lambda keep: np.array([game[tuple(row)] for row in keep.tolist()]), tree, 0.0, 6.0, 3, 10)
    assert found.values.tolist() == [2.0, 2.0, 2.0]  # (3 - 0 + 6 - 1) / 2 = 4 shared by two; (1 - 0 + 6 - 3) / 2
    assert (found.evaluations, found.exact) == (2, False)


@pytest.mark.parametrize("specials", [False, True])
def test_an_additive_model_gets_its_coefficients(specials):
    weights = dict(zip(WORDS, np.linspace(-2, 2, len(WORDS)), strict=True))
    classifier = Classifier(bag_of_words(weights, bias=0.7 if specials else 0.0, specials=specials))
    sample = classifier.encode(Example("a", " ".join(WORDS)))
    with classifier.work(200):
        result = PartitionShap().explain(classifier, sample, 200, np.random.default_rng(0))
    np.testing.assert_allclose(result.scores["attribution"], [weights[w] for w in WORDS], atol=1e-5)
    assert result.diagnostics["exact"]
    assert result.diagnostics["base"] == pytest.approx(0.7 if specials else 0.0, abs=1e-6)
    assert result.surrogate.predict(np.ones((1, 11), np.bool_)) == classifier.masked_log_odds(sample, np.ones((1, 11)))


def test_the_queries_are_those_that_the_budget_names():
    classifier = Classifier(random_backend("bert"))
    sample = Sample("a", np.random.default_rng(3).integers(5, 60, 40))
    for budget in (2, 3, 4, 101):
        with classifier.work(budget) as cost:
            PartitionShap().explain(classifier, sample, budget, np.random.default_rng(0))
        assert cost.queries == budget - budget % 2
    with pytest.raises(InvalidInput, match="at least 2 queries"):
        PartitionShap().explain(classifier, sample, 1, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="batch_size 0"):
        PartitionShap(batch_size=0).explain(classifier, sample, 100, np.random.default_rng(0))


def test_without_an_empty_text_the_base_is_even_odds():
    classifier = Classifier(slalom_transformer({"a": 1, "b": 3}, {"a": 0, "b": 0}))
    result = PartitionShap().explain(classifier, classifier.encode(Example("a", "a b")), 9, np.random.default_rng(0))
    # F(a) = 1, F(b) = 3, F(ab) = 2: (1 + 2 - 3) / 2 and (3 + 2 - 1) / 2
    np.testing.assert_allclose(result.scores["attribution"], [0.0, 2.0], atol=1e-5)


def test_words_are_whole_before_phrases_and_sentences_come_last():
    tree = token_tree(["a", "un", "##like", "##ly", "end", ".", "yes", ",", "it", "isn", "'", "t"])
    groups = {tuple(np.flatnonzero(row)) for row in tree.members}
    assert {(1, 2), (1, 2, 3), (9, 10, 11), (9, 10), tuple(range(6)), tuple(range(6, 12))} <= groups


def test_segments_of_a_sample_without_text_are_its_words():
    classifier = Classifier(bag_of_words({"good": 1.0, "bad": 2.0}))
    ids = classifier.encode(Example("a", "good bad")).ids
    assert segments(classifier.tokens, Sample("a", ids)) == ["good", "bad"]
