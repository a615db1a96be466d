"""Cards: what ships has a complete one, and its numbers by hand are what the code computes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from slalom_bench import Classifier, Example, Explanation, LinearSurrogate, Sample, SlalomSurrogate, registry, wrap
from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.nets_classic import inverse_document_frequencies
from slalom_bench.core.context import Context
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.removal import HIDDEN
from slalom_bench.core.tokens import WordTokens
from slalom_bench.core.types import DataSource, TaskData
from slalom_bench.showing.cards import REQUIRED, card, split
from slalom_bench.tasks.yelp import _Review

WEIGHTS = {"good": 2.0, "film": 0.0, "dull": -1.0}
GAME = {"": 0.0, "a": 2.0, "b": -1.0, "a b": 0.0}
TASK = TaskData(
    "cards", DataSource("generated", "by hand", "0"), ("negative", "positive"), (Example("1", "good film dull"),)
)


@pytest.mark.parametrize("kind", REQUIRED)
def test_every_card_that_ships_is_complete(kind):
    shipped = [entry for entry in registry.KINDS[kind].entries() if entry.origin.startswith("slalom_bench.")]
    lacking = {entry.name: card(entry).lacking for entry in shipped if card(entry).lacking}
    assert shipped
    assert not lacking, "their docstrings lack these sections; CONTRIBUTING.md says what belongs in them"


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_parameter_is_explained_and_every_explained_parameter_is_there(kind):
    for entry in registry.KINDS[kind].entries():
        made = card(entry)
        assert made.summary, entry.name
        if kind in ("explainer", "metric"):
            assert [p.name for p in made.parameters if not p.text] == [], entry.name


def test_a_class_says_itself_what_its_base_says_of_the_family():
    few, many = (card(registry.metrics.get(name)) for name in ("fidelity-few", "fidelity-many"))
    assert few.sections["Formula"] == many.sections["Formula"]
    assert few.sections["Choose it"] != many.sections["Choose it"]
    assert few.summary != many.summary


def test_every_explainers_card_says_its_least_budget():
    said = re.compile(r"budget of at least|least budget|(?:[Oo]ne|No) query|Two queries")
    lacking = [
        e.name
        for e in registry.explainers.entries()
        if not said.search(" ".join(f"{e.summary} {card(e).text}".split()))
    ]
    assert lacking == []


def test_no_card_says_what_is_meant_for_who_writes_a_subclass():
    for registered in registry.KINDS.values():
        for entry in registered.entries():
            assert "subclass" not in card(entry).text, entry.name


def test_the_card_of_a_plug_in_is_made_of_its_docstring():
    with registry.explainers.scratch():

        @registry.explainer("mine", version=1, needs={"queries"}, stochastic=False, family="additive")
        class Mine:
            """One line.

            More of it.

            Formula:
                a = b
                  c

            Args:
                x, y: two numbers.
            """

            def __init__(self, x: float = 1.0, y: float = 2.0) -> None:
                self.x, self.y = x, y

            def explain(self, classifier, sample, budget, rng):
                raise NotImplementedError

        made = card(registry.explainers.get("mine"))
    assert (made.summary, made.text, made.sections) == ("One line.", "More of it.", {"Formula": "a = b\n  c"})
    assert [(p.name, p.text) for p in made.parameters] == [("x", "two numbers."), ("y", "two numbers.")]
    assert made.lacking == ["Choose it", "Example", "Reference"]
    assert "a = b\n    c" in made.plain()


def test_a_doctest_is_no_part_of_a_card():
    assert split("A.\n\nFormula:\n    x\n\n>>> 1 + 1\n2") == ("", {"Formula": "x"})


def test_plain_cards_fit_eighty_columns():
    for kind in registry.KINDS.keys() - {"surrogate"}:  # `list` shows no surrogate
        for entry in registry.KINDS[kind].entries():
            wide = [line for line in card(entry).plain(80).splitlines() if len(line) > 80]
            assert not wide, entry.name


def said(kind: str, name: str) -> list[float]:
    """The numbers of a card's example."""
    text = card(registry.KINDS[kind].get(name)).sections["Example"]
    return [float(found) for found in re.findall(r"-?\d+(?:\.\d+)?", text)]


def assert_says(kind: str, name: str, values) -> None:
    for value in np.round(np.ravel(values), 2):
        assert any(abs(value - number) < 0.006 for number in said(kind, name)), (name, float(value))


def explained(classifier: Classifier, text: str, reference: str, budget: int = 400) -> dict[str, np.ndarray]:
    sample = classifier.encode(Example("1", text))
    with classifier.work(budget):
        made = registry.explainers.build(reference).explain(classifier, sample, budget, np.random.default_rng(0))
    return dict(made.scores) | {"primary": made.scores[made.primary]}


@pytest.mark.parametrize(
    "reference", ["leave-one-out", "linear-deletion", "occlusion-window:width=2", "greedy-deletion"]
)
def test_examples_of_methods_on_a_bag_of_words(reference):
    classifier = Classifier(bag_of_words(WEIGHTS, specials=True))
    name = reference.split(":")[0]
    assert_says("explainer", name, explained(classifier, "good film dull", reference)["primary"])


@pytest.mark.parametrize("name", ["kernel-shap", "partition-shap", "permutation-shap"])
def test_examples_of_shapley_values(name):
    tokens = WordTokens(["a", "b"], prefix=["[CLS]"], suffix=["[SEP]"])  # so that the empty text may be asked for
    game = wrap(lambda texts: np.array([GAME[text] for text in texts]), tokens, name="game")
    found = explained(game, "a b", name)["primary"]
    np.testing.assert_allclose(found, [1.5, -1.5], atol=1e-6)
    assert_says("explainer", name, found)


@pytest.mark.parametrize("name", ["slalom-exact", "slalom-eff"])
def test_examples_of_slalom(name):
    classifier = Classifier(slalom_transformer({"good": 2.0, "dull": -1.0}, {"good": 0.0, "dull": float(np.log(2))}))
    found = explained(classifier, "good dull", name)
    np.testing.assert_allclose(found["value"], [2.0, -1.0], atol=1e-3)
    assert_says("explainer", name, [*found["value"], *found["importance"]])


def test_examples_of_surrogates():
    without = [[1, 1, 1], [1, 0, 1], [0, 1, 1]]
    assert_says(
        "explainer", "slalom-fidel", SlalomSurrogate([2, -1, 0], np.log([1, 2, 1])).predict(np.array(without, bool))
    )
    anchored = SlalomSurrogate([2, -1], np.log([1, 2]), anchor=(0.0, 0.0))
    assert_says("explainer", "slalom-anchor", anchored.predict(np.array([[1, 1], [1, 0], [0, 1], [0, 0]], bool)))


RANKED = ["srg", "deletion-log-odds", "insertion-log-odds", "decision-flip", "sufficient-share"]


@pytest.mark.parametrize("name", RANKED)
def test_examples_of_rankings(name):
    classifier = Classifier(bag_of_words(WEIGHTS, specials=True))
    scores = np.array(list(WEIGHTS.values()))
    explanation = Explanation({"weight": scores}, "weight", 1, surrogate=LinearSurrogate(scores, 0.0))
    params = {"fractions": [1 / 3]} if "fractions" in registry.metrics.get(name).parameters else {}
    sample = classifier.encode(TASK.evaluation[0])
    with classifier.work():
        score = registry.metrics.get(name).build(params).score(classifier, sample, explanation, Context(TASK))
    assert_says("metric", name, score.values["weight"])


@pytest.mark.parametrize("name", ["human-attention-auroc", "human-attention-auprc", "human-token-f1", "human-iou-f1"])
def test_examples_of_human_marks(name):
    spans = name == "human-iou-f1"
    scores = np.array([9, 8, 7, 0, 0, 0, 6, 1.0] if spans else [3, 1, 2, 0.0])
    marks = np.arange(len(scores)) < (4 if spans else 2)
    classifier = Classifier(bag_of_words({"word": 1.0}, specials=True))
    sample = Sample("1", classifier.encode(Example("1", "word " * len(scores))).ids, marks=marks)
    explanation = Explanation({"score": scores}, "score", 1)
    score = registry.metrics.get(name).build().score(classifier, sample, explanation, Context(TASK))
    assert_says("metric", name, score.values["score"])


MINIS = ["mini-bert", "mini-distilbert", "mini-gpt2", "mini-rotary", "mini-alibi"]


@pytest.mark.parametrize("name", MINIS)
def test_examples_of_shipped_models(name):
    classifier = Classifier(registry.models.build(name).load(TASK, ModelOptions()))
    sample = classifier.encode(Example("1", "A dull start, but what a finish!"))
    keep = np.ones((2, len(sample)), bool)
    keep[1, 1] = False
    full, without = classifier.masked_log_odds(sample, keep)
    assert f"{1 / (1 + np.exp(-full)):.3f}" in card(registry.models.get(name)).sections["Example"]
    assert_says("model", name, [len(sample), full, without, without - full])


@pytest.mark.parametrize("kind", ["linear", "slalom"])
def test_examples_of_generated_tasks_and_their_models(kind):
    data = registry.tasks.build(f"synthetic-{kind}").load(None)
    text, name = ("best worst the", "bag-of-words") if kind == "linear" else ("great movie", "slalom-transformer")
    classifier = Classifier(registry.models.build(name).load(data, ModelOptions()))
    found = classifier.log_odds([classifier.encode(Example("1", text)).ids])
    assert_says("model", name, found)
    assert_says("task", f"synthetic-{kind}", found)


def test_examples_of_classes_and_marks():
    rest = np.logaddexp.reduce([1.0, 0.0, 2.0])
    assert_says("task", "ag-news", [rest, 4 - rest, 1 / (1 + np.exp(rest - 4))])
    assert_says("model", "hf", [2 - np.logaddexp(0, 1)])
    review = _Review(1, [(True, True, False), (True, False, False), (True, True, False)])
    assert (review.consensus("and"), review.consensus("majority")) == ((True, False, False), (True, True, False))
    assert_says("task", "yelp-hat", review.shares())
    idf = inverse_document_frequencies([np.array([1, 2]), np.array([3, 2])], 4)[[1, 2]]
    assert_says("model", "tfidf-mlp", [*idf, *idf / np.linalg.norm(idf)])


def removed(name: str) -> list[list[int]]:
    """The ids of 7 8 9 without the second."""
    tokens = WordTokens([*"abcdefghij"])
    ragged = registry.removals.build(name).apply(np.array([7, 8, 9]), np.array([[True, False, True]]), tokens)
    return [list(map(int, row)) for row in ragged]


def test_examples_of_removal_rules():
    assert removed("delete") == removed("gap") == [[7, 9]]
    assert removed("pad") == [[7, HIDDEN, 9]]


@pytest.mark.parametrize(
    ("name", "n", "count", "sizes"),
    [
        ("few", 20, 90, dict.fromkeys(range(2, 11), 10)),
        ("many", 20, 50, dict.fromkeys((2, 4, 6, 8, 10), 10)),
        ("paper", 20, 10, dict.fromkeys(range(1, 11), 1)),
    ],
)
def test_examples_of_laws(name, n, count, sizes):
    keep = registry.laws.build(name).draw(Sample("1", np.arange(n)), count, np.random.default_rng(0))
    found, often = np.unique((~keep).sum(axis=1), return_counts=True)
    assert dict(zip(found.tolist(), often.tolist(), strict=True)) == sizes
