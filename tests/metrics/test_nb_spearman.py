"""Naive Bayes weights by hand and against scikit-learn; correlations by hand."""

import numpy as np
import pytest

from slalom_bench.backends.callable_backend import wrap
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.nb_spearman import (
    NaiveBayesSpearman,
    NaiveBayesStrength,
    class_counts,
    naive_bayes_weights,
)

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


def test_ids_far_apart_are_counted_too(classifier):
    """A callable's words have hashes for ids: no table up to the largest of them fits a memory."""
    by_hash = wrap(lambda texts: [float(len(text)) for text in texts])
    assert max(by_hash.tokens.encode(" ".join(WORDS))[0]) > 10**12
    scores = [3.0, 1.0, 2.0]
    assert correlate(by_hash, "good bad film", scores) == correlate(classifier, "good bad film", scores)


def test_correlation_by_hand(classifier):
    # weights rank good > the > film > bad
    assert correlate(classifier, "good the film bad", [4.0, 3.0, 2.0, 1.0]).values["lin"] == pytest.approx(1.0)
    assert correlate(classifier, "good the film bad", [1.0, 2.0, 3.0, 4.0]).values["lin"] == pytest.approx(-1.0)
    # ranks 4 3 2 1 against 4 3 1 2: 1 - 6 * 2 / (4 * 15)
    assert correlate(classifier, "good the film bad", [4.0, 3.0, 1.0, 2.0]).values["lin"] == pytest.approx(0.8)
    # explaining class 0 the weights are negated
    assert correlate(classifier, "good the bad", [1.0, 2.0, 3.0], target=0).values["lin"] == pytest.approx(1.0)


def test_unsigned_scores_have_no_sign_to_compare(classifier):
    text, scores = "the film bad good", {"lin": [1.0, 2.0, 3.0, 4.0], "norm": [1.0, 2.0, 3.0, 4.0]}
    sample = classifier.encode(Example("s", text))
    explanation = Explanation(scores, "lin", unsigned=frozenset({"norm"}))
    for protocol in ("bench", "paper"):
        score = NaiveBayesSpearman().score(classifier, sample, explanation, context(protocol))
        assert score.undefined == {"norm": undefined.UNSIGNED_SCORES}
        # weights rank good > the > film > bad: ranks 1 2 3 4 against 3 2 1 4
        assert score.values == pytest.approx({"lin": 1 - 6 * 8 / 60})


def test_strength_compares_sizes_for_every_method(classifier):
    # |w|: log(44/41) + .012 = .083 good, |log(40/43) + .012| = .060 bad, .036 film, .012 the
    text = "the film bad good"
    for scores, more in (
        ([1.0, 2.0, 3.0, 4.0], {"unsigned": frozenset({"lin"})}),
        ([1.0, 2.0, 3.0, 4.0], {}),
        ([1.0, -2.0, -3.0, 4.0], {}),
        ([-1.0, 2.0, 3.0, -4.0], {"target": 0}),
    ):
        score = correlate(classifier, text, scores, metric=NaiveBayesStrength(), **more)
        assert score.values["lin"] == pytest.approx(1.0)
    # unsigned scores are sizes as they stand, below zero too (importances)
    low = correlate(
        classifier, text, [-4.0, -3.0, -2.0, -1.0], metric=NaiveBayesStrength(), unsigned=frozenset({"lin"})
    )
    assert low.values["lin"] == pytest.approx(1.0)
    signed = correlate(classifier, text, [-4.0, -3.0, -2.0, -1.0], metric=NaiveBayesStrength())
    assert signed.values["lin"] == pytest.approx(-1.0)
    # a token that speaks for both classes has the size of its mean: good 3 and -1, below film's 2
    mean = correlate(classifier, "good film bad good", [3.0, 2.0, 0.0, -1.0], metric=NaiveBayesStrength())
    # sizes good 1, film 2, bad 0 against strengths 3 1 2
    assert mean.values["lin"] == pytest.approx(1 - 6 * 6 / 24)
    flat = correlate(classifier, text, [1.0, -1.0, 1.0, -1.0], metric=NaiveBayesStrength())
    assert flat.undefined == {"lin": undefined.CONSTANT_SCORES}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cls", [NaiveBayesSpearman, NaiveBayesStrength])
def test_many_ties_against_scipy(cls, seed):
    from scipy.stats import spearmanr

    rng = np.random.default_rng(seed)
    words = [f"t{i}" for i in range(40)]
    train = [Example(str(i), " ".join(rng.choice(words, 30)), i % 2) for i in range(4)]
    classifier = Classifier(bag_of_words(dict.fromkeys(words, 1.0)))
    scores = rng.integers(-2, 3, 40) * 0.1
    # a sum of k equal numbers over k is often another number, and would break the ties
    times = rng.integers(1, 12, 40)
    score = correlate(
        classifier, " ".join(np.repeat(words, times)), np.repeat(scores, times), metric=cls(), train=train
    )
    pairs = []
    counts = [" ".join(e.text for e in train if e.label == c).split() for c in (0, 1)]
    known = set(counts[0]) | set(counts[1])
    totals = [len(counts[c]) + 40 * len(known) for c in (0, 1)]
    for word, value in zip(words, scores, strict=True):
        if word in known:
            n0, n1 = (counts[c].count(word) + 40 for c in (0, 1))
            pairs.append((value, np.log(n1 / n0) - np.log(totals[1] / totals[0])))
    x, y = np.round(pairs, 12).T
    assert len(set(y.tolist())) < len(y)
    if cls is NaiveBayesStrength:
        x, y = abs(x), abs(y)
    assert score.values["lin"] == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("cls", [NaiveBayesSpearman, NaiveBayesStrength])
def test_a_positive_rescaling_changes_nothing(classifier, cls):
    text, scores = "good the film bad", np.array([0.3, -0.1, 0.2, -0.7])
    values = [correlate(classifier, text, k * scores, metric=cls()).values["lin"] for k in (1.0, 9.0, 1e-5)]
    assert values == pytest.approx([values[0]] * 3)


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
