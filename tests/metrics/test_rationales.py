"""Rationales of the highest scores, by hand: token F1, F1 of spans, and agreement with several annotators."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, Score, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.rationales import HumanIouF1, HumanSoftAgreement, HumanTokenF1, _iou, _runs


def score(metric, marks, scores, shares=None, text=None, **more) -> Score:
    classifier = Classifier(bag_of_words({"a": 1.0}))
    text = text or " ".join("a" * len(scores))
    example = Example("s", text, 1, None if marks is None else tuple(map(bool, marks)), shares)
    context = Context(TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [example]))
    return metric.score(classifier, classifier.encode(example), Explanation({"lin": scores}, "lin", **more), context)


def test_token_f1_by_hand():
    # three are marked; the three largest are -9, 5 and 3, of which two are marked
    assert score(HumanTokenF1(), [1, 1, 0, 0, 1], [-9.0, 5.0, 3.0, 0.0, 1.0]).values["lin"] == pytest.approx(2 / 3)
    # unsigned scores as they are: 5, 3 and 1 are the largest
    unsigned = score(HumanTokenF1(), [1, 1, 0, 0, 1], [-9.0, 5.0, 3.0, 0.0, 1.0], unsigned=frozenset({"lin"}))
    assert unsigned.values["lin"] == pytest.approx(2 / 3)
    # ties go to the earlier token: of three ones the first two are chosen
    assert score(HumanTokenF1(), [1, 0, 1, 0], [1.0, 1.0, 1.0, 0.0]).values["lin"] == pytest.approx(1 / 2)


def test_spans_by_hand():
    assert _runs(np.array([0, 1, 1, 0, 1], np.bool_)) == [(1, 3), (4, 5)]
    assert _runs(np.zeros(3, np.bool_)) == []
    assert _iou((0, 4), (2, 6)) == pytest.approx(2 / 6)
    assert _iou((0, 2), (3, 4)) == 0
    # marked: 0-3 and 6. Chosen: 0-1 (half of the first: found), 4 (not), 6 (found), and 8 (not): 2 * 2 / (4 + 2)
    marks = [1, 1, 1, 1, 0, 0, 1, 0, 0]
    scores = [9.0, 8.0, 0.0, 0.0, 7.0, 0.0, 6.0, 0.0, 5.0]
    assert score(HumanIouF1(), marks, scores).values["lin"] == pytest.approx(2 * 2 / (4 + 2))
    # the same number of right tokens, scattered: no run overlaps a run by half
    assert score(HumanIouF1(), [1, 1, 1, 1, 0, 0], [9.0, 0.0, 0.0, 8.0, 7.0, 6.0]).values["lin"] == 0.0


@settings(max_examples=50, deadline=None)
@given(arrays(np.bool_, st.integers(2, 12)), st.randoms(use_true_random=True))
def test_scores_that_are_the_marks_are_perfect_and_f1_is_at_most_one(marks, random):
    if undefined.one_class(marks):
        return
    for metric in (HumanTokenF1(), HumanIouF1()):
        assert score(metric, marks, marks.astype(float)).values["lin"] == 1.0
        drawn = score(metric, marks, [random.random() for _ in marks]).values["lin"]
        assert 0.0 <= drawn <= 1.0


def test_undefined_cases():
    for metric in (HumanTokenF1(), HumanIouF1()):
        assert score(metric, None, [1.0, 2.0]).undefined == {"lin": undefined.NO_MARKS}
        assert score(metric, [1, 1], [1.0, 2.0]).undefined == {"lin": undefined.ONE_CLASS_MARKS}
        assert score(metric, [1, 0], [2.0, 2.0]).undefined == {"lin": undefined.CONSTANT_SCORES}
    soft = HumanSoftAgreement()
    assert score(soft, [1, 0], [1.0, 2.0]).undefined == {"lin": undefined.NO_ANNOTATORS}
    assert score(soft, [1, 1], [1.0, 2.0], (0.5, 0.5)).undefined == {"lin": undefined.CONSTANT_REFERENCE}
    assert score(soft, [1, 0], [2.0, 2.0], (1.0, 0.5)).undefined == {"lin": undefined.CONSTANT_SCORES}


def test_soft_agreement_by_hand():
    # |scores| rank 4 3 1 2, shares (1, 1/3, 0, 2/3) rank 4 2 1 3: 1 - 6 * (0 + 1 + 0 + 1) / (4 * 15)
    found = score(HumanSoftAgreement(), None, [-9.0, 5.0, 1.0, 2.0], (1.0, 1 / 3, 0.0, 2 / 3))
    assert found.values["lin"] == pytest.approx(1 - 12 / 60)
