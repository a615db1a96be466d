"""Naive Bayes weights by hand and against scikit-learn; correlations by hand."""

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.nb_spearman import NaiveBayesSpearman, class_counts, naive_bayes_weights

# counts (class 0, class 1): good 1, 4; bad 3, 0; film 3, 1; the 2, 2
TRAIN = [
    Example("1", "good good good film the", 1),
    Example("2", "good the", 1),
    Example("3", "bad bad film film the", 0),
    Example("4", "bad good film the", 0),
    Example("5", "never counted", None),
]
WORDS = ("good", "bad", "film", "the", "rare")
COUNTS = np.array([[1.0, 4.0], [3.0, 0.0], [3.0, 1.0], [2.0, 2.0]])


def context(protocol="bench", train=TRAIN):
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), TRAIN[:1], train)
    return Context(task, protocol)


@pytest.fixture
def classifier():
    return Classifier(bag_of_words(dict.fromkeys(WORDS, 1.0)))


def correlate(classifier, text, scores, *, protocol="bench", metric=None, train=TRAIN, **more):
    explanation = Explanation({"lin": scores}, "lin", **more)
    return (metric or NaiveBayesSpearman()).score(
        classifier, classifier.encode(Example("s", text)), explanation, context(protocol, train)
    )


def test_weights_by_hand():
    # paper: a = 20 and nothing else
    assert naive_bayes_weights(COUNTS, 1, 20.0, normalise=False) == pytest.approx(
        np.log([24 / 21, 20 / 23, 21 / 23, 22 / 22])
    )
    # class totals 9 and 7, smoothed by 4 tokens x 40
    totals = np.log(167 / 169)
    bench = naive_bayes_weights(COUNTS, 1, 40.0, normalise=True)
    assert bench == pytest.approx(np.log([44 / 41, 40 / 43, 41 / 43, 42 / 42]) - totals)
    assert naive_bayes_weights(COUNTS, 0, 40.0, normalise=True) == pytest.approx(-bench)


def test_weights_equal_scikit_learns_multinomial_naive_bayes():
    from sklearn.naive_bayes import MultinomialNB

    counts = np.random.default_rng(0).integers(0, 30, (50, 2)).astype(float)
    model = MultinomialNB(alpha=40.0).fit(counts.T, [0, 1])
    expected = model.feature_log_prob_[1] - model.feature_log_prob_[0]
    assert naive_bayes_weights(counts, 1, 40.0, normalise=True) == pytest.approx(expected)


def test_counts_are_in_the_models_tokens_and_labelled_texts_only(classifier):
    ids, counts = class_counts(classifier, context(), None)
    assert classifier.tokens.words(ids) == ["good", "bad", "film", "the"]
    assert counts.tolist() == COUNTS.tolist()
    assert class_counts(classifier, context(), 2)[1].sum() == 7


def test_correlation_by_hand(classifier):
    # weights rank good > the > film > bad
    assert correlate(classifier, "good the film bad", [4.0, 3.0, 2.0, 1.0]).values["lin"] == pytest.approx(1.0)
    assert correlate(classifier, "good the film bad", [1.0, 2.0, 3.0, 4.0]).values["lin"] == pytest.approx(-1.0)
    # ranks 4 3 2 1 against 4 3 1 2: 1 - 6 * 2 / (4 * 15)
    assert correlate(classifier, "good the film bad", [4.0, 3.0, 1.0, 2.0]).values["lin"] == pytest.approx(0.8)
    # explaining class 0 the weights are negated
    assert correlate(classifier, "good the bad", [1.0, 2.0, 3.0], target=0).values["lin"] == pytest.approx(1.0)


def test_unsigned_scores_are_compared_with_the_size_of_the_weight(classifier):
    # |w|: log(44/41) + .012 = .083 good, |log(40/43) + .012| = .060 bad, .036 film, .012 the
    text, scores = "the film bad good", [1.0, 2.0, 3.0, 4.0]
    unsigned = correlate(classifier, text, scores, unsigned=frozenset({"lin"}))
    assert unsigned.values["lin"] == pytest.approx(1.0)
    assert correlate(classifier, text, scores).values["lin"] < 1.0


def test_repeated_tokens_count_once_and_unseen_ones_not_at_all(classifier):
    # good: positions 3 and -1, mean 1, below film's 2; its first position alone is above
    text, scores = "good rare film bad good", [3.0, 99.0, 2.0, 0.0, -1.0]
    bench = correlate(classifier, text, scores)
    paper = correlate(classifier, text, scores, protocol="paper")
    # good film bad: weights 3 2 1, scores 2 3 1 -> 1 - 6 * 2 / (3 * 8)
    assert bench.values["lin"] == pytest.approx(0.5)
    assert paper.values["lin"] == pytest.approx(1.0)


def test_undefined_cases(classifier):
    assert correlate(classifier, "good bad", [1.0, 1.0]).undefined == {"lin": undefined.CONSTANT_SCORES}
    assert correlate(classifier, "good rare", [1.0, 2.0]).undefined == {"lin": undefined.TOO_FEW_PAIRS}
    assert correlate(classifier, "good", [1.0]).undefined == {"lin": undefined.TOO_FEW_PAIRS}
    same = [Example("1", "good bad", 1), Example("2", "good bad", 0)]
    assert correlate(classifier, "good bad", [1.0, 2.0], train=same).undefined == {"lin": undefined.CONSTANT_REFERENCE}
    for train in ([], TRAIN[4:], TRAIN[:2]):
        assert correlate(classifier, "good bad", [1.0, 2.0], train=train).undefined == {"lin": undefined.NO_TRAIN}


def test_training_texts_are_tokenised_once(classifier):
    encoded = []
    original = classifier.tokens.encode
    classifier.tokens.encode = lambda text: encoded.append(text) or original(text)
    shared = context()
    sample = classifier.encode(Example("s", "good bad"))
    for _ in range(3):
        NaiveBayesSpearman().score(classifier, sample, Explanation({"lin": [1.0, 0.0]}, "lin"), shared)
    assert len(encoded) == 1 + 4
