"""Human attention on marks and scores small enough to count pairs by hand."""

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.human_attention import HumanAttentionAuprc, HumanAttentionAuroc

WORDS = ["a", "b", "c", "d", "."]


def score(metric, text, marks, scores, protocol="bench", **more):
    classifier = Classifier(bag_of_words(dict.fromkeys(WORDS, 1.0)))
    example = Example("s", text, 1, None if marks is None else tuple(map(bool, marks)))
    context = Context(TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [example]), protocol)
    return metric.score(classifier, classifier.encode(example), Explanation({"lin": scores}, "lin", **more), context)


def test_hand_values():
    # |scores| 3 2 2 1, marked: first and third. Pairs: 3>2, 3>1, 2=2, 2>1 -> 3.5 of 4
    marks, scores = [1, 0, 1, 0], [3.0, 2.0, -2.0, 1.0]
    assert score(HumanAttentionAuroc(), "a b c d", marks, scores).values["lin"] == pytest.approx(3.5 / 4)
    # thresholds: at 3 recall 1/2 precision 1; at 2 recall 1 precision 2/3
    assert score(HumanAttentionAuprc(), "a b c d", marks, scores).values["lin"] == pytest.approx(0.5 + 0.5 * 2 / 3)


def test_unsigned_scores_are_taken_as_they_are():
    # importances may be negative: as signed, -3 would count as large
    marks, scores = [1, 0], [1.0, -3.0]
    assert score(HumanAttentionAuroc(), "a b", marks, scores).values["lin"] == 0.0
    unsigned = score(HumanAttentionAuroc(), "a b", marks, scores, unsigned=frozenset({"lin"}))
    assert unsigned.values["lin"] == 1.0


def test_constant_scores_are_at_chance():
    marks = [1, 0, 0, 0]
    assert score(HumanAttentionAuroc(), "a b c d", marks, [0.0] * 4).values["lin"] == 0.5
    assert score(HumanAttentionAuprc(), "a b c d", marks, [0.0] * 4).values["lin"] == 0.25


def test_undefined_cases():
    for metric in (HumanAttentionAuroc(), HumanAttentionAuprc()):
        for marks, reason in {(0, 0): undefined.ONE_CLASS_MARKS, (1, 1): undefined.ONE_CLASS_MARKS}.items():
            assert score(metric, "a b", marks, [1.0, 2.0]).undefined == {"lin": reason}
        assert score(metric, "a b", None, [1.0, 2.0]).undefined == {"lin": undefined.NO_MARKS}


def test_paper_protocol_keeps_distinct_words_without_punctuation():
    # a: first score 5, last mark 0. b: 1, marked. The full stop (9, unmarked) is dropped. Pair b > a fails
    text, marks, scores = "a b . a", [1, 1, 0, 0], [5.0, 1.0, 9.0, 0.5]
    assert score(HumanAttentionAuroc(), text, marks, scores, "paper").values["lin"] == 0.0
    # bench: marked 5, 1 against 9, 0.5 -> 2 of 4 pairs
    assert score(HumanAttentionAuroc(), text, marks, scores).values["lin"] == pytest.approx(0.5)


def test_auroc_is_the_rank_statistic():
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(0)
    scores, marks = rng.integers(0, 6, 40).astype(float), rng.random(40) < 0.3
    text = " ".join(rng.choice(WORDS, 40))
    u = mannwhitneyu(scores[marks], scores[~marks]).statistic
    expected = u / (marks.sum() * (~marks).sum())
    assert score(HumanAttentionAuroc(), text, marks, scores).values["lin"] == pytest.approx(expected)
