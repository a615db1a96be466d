"""Edits on a bag of words, where the change of log-odds is the change of the words' weights."""

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, Score, TaskData
from slalom_bench.explainers.linear import LeaveOneOut
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.edits import EditContrast, EditLocalisation, edits
from slalom_bench.running.explaining import explain_sample

WEIGHTS = {"a": 0.1, "film": 0.2, "dull": -2.0, "great": 3.0, "so": 0.5, "bad": -1.0, "fine": 1.0, "and": 0.0}


class Case:
    """A text, its pair, and an explainer on a bag of words."""

    def __init__(self, text, other, explainer=None, max_tokens=None):
        self.classifier = Classifier(bag_of_words(WEIGHTS))
        example = Example("s", text, 1, counterpart=other)
        self.sample = self.classifier.encode(example, max_tokens)
        task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [example])
        self.explainer = explainer
        self.context = Context(task, explain=self.explain if explainer else None, max_tokens=max_tokens)

    def explain(self, classifier, sample) -> Explanation:
        return explain_sample(self.explainer, classifier, sample, budget=50, seed=0, target=1).unwrap()

    def score(self, metric, scores=None, **more) -> Score:
        found = Explanation({"lin": scores}, "lin", **more) if scores else self.explain(self.classifier, self.sample)
        return metric.score(self.classifier, self.sample, found, self.context)


def test_words_that_differ_on_both_sides():
    one, other = ["a", "dull", "film"], ["a", "great", "film", "indeed"]
    assert [(one[e.words], other[e.others]) for e in edits(one, other)] == [(["dull"], ["great"]), ([], ["indeed"])]
    assert [(other[e.words], one[e.others]) for e in edits(other, one)] == [(["great"], ["dull"]), (["indeed"], [])]
    assert edits(one, one) == []


def test_localisation_by_hand():
    # edits: great and fine. |scores| 3 1 2 1 4; edited 1 and 4: pairs (1 > none, 1 = 1) and (4 > all): 3.5 of 6
    case = Case("a great film so fine", "a dull film so bad")
    found = case.score(EditLocalisation(), [3.0, -1.0, 2.0, 1.0, 4.0])
    assert found.values["lin"] == pytest.approx(3.5 / 6)
    # from the top: 4 (an edit), 3, 2, then the tie 1 1 with the other: 1/2 * 1 + 1/2 * 2/5
    assert found.values["lin auprc"] == pytest.approx(0.5 + 0.5 * 2 / 5)


def test_localisation_is_undefined_without_edits_that_were_read():
    for text, other in (("a film", "a dull film"), ("dull so", "great film")):
        found = Case(text, other).score(EditLocalisation(), [1.0, 2.0])
        assert set(found.undefined.values()) == {undefined.NO_EDIT}
    cut = Case("a film great", "a film dull", max_tokens=2).score(EditLocalisation(), [1.0, 2.0])
    assert cut.undefined == {"lin": undefined.NO_EDIT, "lin auprc": undefined.NO_EDIT}
    assert Case("a", None).score(EditLocalisation(), [1.0]).undefined["lin"] == undefined.NO_PAIR


def test_contrast_of_the_true_weights_is_one():
    """Leave-one-out on a bag of words gives the weights, so that both changes are the same numbers."""
    case = Case("great film and so fine a", "dull film and bad so a", LeaveOneOut())
    assert case.score(EditContrast()).values == pytest.approx({"attribution": 1.0})


def test_contrast_by_hand():
    # edits great/dull (+5), fine/bad (+2), so/"" (+0.5): scores of the text 1 2 3, of the pair all 0 but dull 4
    class Fixed:
        def explain(self, classifier, sample, budget, rng):
            scores = [4.0 if word == "dull" else 0.0 for word in classifier.tokens.words(sample.ids)]
            return Explanation({"lin": scores}, "lin")

    case = Case("great film fine a so", "dull film bad a", Fixed())
    # changes of attribution 1 - 4 = -3, 2, 3 against 5, 2, 0.5: the reverse order
    assert case.score(EditContrast(), [1.0, 0.0, 2.0, 0.0, 3.0]).values["lin"] == pytest.approx(-1.0)
    # 8 - 4 = 4, 2, 3: ranks 3 1 2 against 3 2 1
    assert case.score(EditContrast(), [8.0, 0.0, 2.0, 0.0, 3.0]).values["lin"] == pytest.approx(0.5)


def test_contrast_counts_only_edits_read_on_both_sides():
    case = Case("great film fine a so film bad", "dull film bad a film fine", LeaveOneOut(), max_tokens=4)
    assert set(case.score(EditContrast()).undefined.values()) == {undefined.TOO_FEW_EDITS}


def test_contrast_is_undefined_with_a_reason():
    three = ("great film fine a so", "dull film bad a")
    assert Case(*three).score(EditContrast(), [1.0] * 5).undefined == {"lin": undefined.NO_EXPLAINER}
    assert Case("a great", "a dull", LeaveOneOut()).score(EditContrast(), [1.0, 2.0]).undefined == {
        "lin": undefined.TOO_FEW_EDITS
    }

    class Unsigned:
        def explain(self, classifier, sample, budget, rng):
            return Explanation({"lin": np.ones(len(sample))}, "lin", unsigned=frozenset({"lin"}))

    found = Case(*three, Unsigned()).score(EditContrast())
    assert found.undefined == {"lin": undefined.UNSIGNED_SCORES}
