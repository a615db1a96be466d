"""Insertion and deletion on a bag of words, where every probability is a sigmoid of a known sum."""

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.aopc import FRACTIONS, Deletion, Insertion, paper_counts

WEIGHTS = {"a": 2.0, "b": 1.0, "c": -1.0, "d": 0.0}
SCORES = [2.0, 1.0, -1.0, 0.0]


def p(x):
    return 1 / (1 + np.exp(-x))


def context(protocol="bench"):
    return Context(TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [Example("e", "a")]), protocol)


def scored(metric, *, bias=0.0, text="a b c d", label=None, scores=SCORES, protocol="bench", specials=False, **more):
    classifier = Classifier(bag_of_words(WEIGHTS, bias, specials=specials))
    sample = classifier.encode(Example("s", text, label))
    explanation = Explanation({"lin": scores} if not isinstance(scores, dict) else scores, "lin", **more)
    return metric.score(classifier, sample, explanation, context(protocol)), classifier


def test_hand_values_for_a_positive_prediction():
    # F = 2. Without a: 0; without a, b: -1. Only a: 2; only a, b: 3
    score, _ = scored(Deletion([0.25, 0.5]))
    assert score.values["lin"] == pytest.approx(p(2) - (p(0) + p(-1)) / 2)
    score, _ = scored(Insertion([0.25, 0.5]))
    assert score.values["lin"] == pytest.approx(p(2) - (p(2) + p(3)) / 2)


def test_a_negative_prediction_turns_signed_scores_round():
    # F = -3, p(negative) = p(3); towards it c then d rank first. Unsigned scores still start with a, b
    both = {"lin": SCORES, "norm": SCORES}
    score, _ = scored(Deletion([0.25, 0.5]), bias=-5.0, scores=both, unsigned=frozenset({"norm"}))
    assert score.values["lin"] == pytest.approx(p(3) - (p(2) + p(2)) / 2)
    assert score.values["norm"] == pytest.approx(p(3) - (p(5) + p(6)) / 2)
    score, _ = scored(Insertion([0.25]), bias=-5.0, scores=both, unsigned=frozenset({"norm"}))
    assert score.values["lin"] == pytest.approx(p(3) - p(6))
    assert score.values["norm"] == pytest.approx(p(3) - p(3))


def test_scores_for_class_zero_mean_the_same_as_their_negatives_for_class_one():
    for bias in (0.0, -5.0):
        one, _ = scored(Deletion([0.25, 0.5]), bias=bias)
        zero, _ = scored(Deletion([0.25, 0.5]), bias=bias, scores=[-x for x in SCORES], target=0)
        assert one.values == pytest.approx(zero.values)


def test_ties_are_broken_by_position():
    assert undefined.descending_ranks(np.array([1.0, 2.0, 1.0, 2.0])).tolist() == [2, 0, 3, 1]
    # b b a: equal scores, the first half rounded up is b b
    score, _ = scored(Insertion([0.5]), text="b b a", scores=[1.0, 1.0, 0.5])
    assert score.values["lin"] == pytest.approx(p(4) - p(2))


def test_fractions_round_up_to_one_token_at_least_and_respect_the_template():
    assert Deletion(FRACTIONS).counts(200, True).tolist() == [2, 10, 20, 40, 100]
    assert Deletion(FRACTIONS).counts(7, True).tolist() == [1, 1, 1, 2, 4]
    assert Deletion([0.07]).counts(100, True).tolist() == [7]
    assert Deletion([1.0]).counts(4, False).tolist() == [3]
    # everything deleted is legal inside [CLS] [SEP] and leaves F = bias = 0
    whole, _ = scored(Deletion([1.0]), specials=True)
    assert whole.values["lin"] == pytest.approx(p(2) - p(0))
    # elsewhere the lowest-ranked token c stays
    capped, _ = scored(Deletion([1.0]))
    assert capped.values["lin"] == pytest.approx(p(2) - p(-1))
    with pytest.raises(InvalidInput, match=r"1\.5"):
        scored(Deletion([1.5]))


def test_paper_protocol_by_hand():
    # 11 tokens: points at 5 and 10. The true class is 0 though the model says 1: ranked towards 0, p of class 0
    text = "a d d d d d d d d d d"
    scores = [2.0, *[0.0] * 10]
    insertion, classifier = scored(Insertion(), text=text, scores=scores, label=0, protocol="paper")
    assert insertion.values["lin"] == pytest.approx(1 - (p(0) + p(0)) / 2)
    assert classifier.total.queries == 2
    # deletion keeps the 5 and 10 lowest-ranked towards 0: a ranks last, so it stays
    deletion, _ = scored(Deletion(), text=text, scores=scores, label=0, protocol="paper")
    assert deletion.values["lin"] == pytest.approx(1 - (p(-2) + p(-2)) / 2)
    # towards 1: a goes first; unsigned scores are turned round with the label too
    deletion, _ = scored(Deletion(), text=text, scores=scores, label=1, protocol="paper")
    assert deletion.values["lin"] == pytest.approx(1 - p(0))
    unsigned, _ = scored(Insertion(), text=text, scores=scores, label=0, protocol="paper", unsigned=frozenset({"lin"}))
    assert unsigned.values == pytest.approx(insertion.values)
    assert paper_counts(16).tolist() == [5, 10, 15]
    assert paper_counts(600)[-1] == 510


def test_undefined_cases():
    both = {"lin": [1.0] * 4, "value": SCORES}
    score, _ = scored(Deletion(), scores=both)
    assert score.undefined == {"lin": undefined.CONSTANT_SCORES}
    assert score.values.keys() == {"value"}
    score, classifier = scored(Deletion(), text="a", scores=[1.0])
    assert score.undefined == {"lin": undefined.TOO_SHORT}
    assert classifier.total.queries == 0
    assert scored(Insertion(), protocol="paper", label=1)[0].undefined == {"lin": undefined.TOO_SHORT}
    long = "a b c d a b c d"
    unlabelled, _ = scored(Insertion(), text=long, scores=SCORES * 2, protocol="paper")
    assert unlabelled.undefined == {"lin": undefined.NO_LABEL}


def test_of_three_classes_only_the_predicted_one_can_be_ranked():
    # logits 0, F, 1: of a b c d F = 2 and class 1 wins; without a 0, without a and b -1
    backend = bag_of_words(WEIGHTS)
    two = backend.logits
    backend.class_names = ("zero", "one", "two")
    backend.logits = lambda sequences: np.column_stack([two(sequences), np.ones(len(sequences))])
    classifier = Classifier(backend)
    sample = classifier.encode(Example("s", "a b c d"))
    for target in range(3):
        explanation = Explanation({"lin": SCORES}, "lin", target=target)
        score = Deletion([0.25, 0.5]).score(classifier, sample, explanation, context())
        if target == 1:
            share = [np.exp(x) / (1 + np.exp(x) + np.e) for x in (2.0, 0.0, -1.0)]
            assert score.values["lin"] == pytest.approx(share[0] - (share[1] + share[2]) / 2)
        else:
            assert score.undefined == {"lin": undefined.OTHER_CLASS}


def test_all_scores_of_an_explanation_go_to_the_model_together():
    scores = {"lin": SCORES, "value": [0.0, 3.0, 2.0, 1.0], "random": [0.3, 0.1, 0.2, 0.4]}
    calls = []
    classifier = Classifier(bag_of_words(WEIGHTS))
    asked = classifier.probabilities
    classifier.probabilities = lambda sequences: calls.append(len(sequences)) or asked(sequences)
    sample = classifier.encode(Example("s", "a b c d"))
    Deletion([0.25, 0.5]).score(classifier, sample, Explanation(scores, "lin"), context())
    assert calls == [1, 6]
