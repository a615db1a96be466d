"""Naive Bayes: do scores, or their sizes, rank tokens as a bag-of-words model of the training texts does (Table 1a)?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Count, NonNegative
from slalom_bench.core.tokens import distinct_words, encode_all, reads_by_word
from slalom_bench.core.types import Explanation, Floats, Ints, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.correlation import spearman
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_ALPHA = {"bench": 40.0, "paper": 20.0}


class _NaiveBayesCorrelation(ABC):
    """Spearman correlation of the scores of distinct tokens with their Naive Bayes weights."""

    def __init__(self, documents: Count | None = 5000, alpha: NonNegative | None = None) -> None:
        self.documents = documents
        self.alpha = alpha

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """No query; a value for each score of the explanation."""
        paper = context.protocol == "paper"
        alpha = _ALPHA[context.protocol] if self.alpha is None else self.alpha
        key = ("naive-bayes", classifier.identity(), context.task.source.content_hash, self.documents)
        ids, counts = context.once(key, lambda: class_counts(classifier, context, self.documents), asking=classifier)
        target = explanation.target
        weights = context.once(
            (*key, target, alpha, paper), lambda: naive_bayes_weights(counts, target, alpha, normalise=not paper)
        )
        if weights is None:
            return undefined.everywhere(explanation.scores, undefined.NO_TRAIN)
        tokens, first, inverse = np.unique(sample.ids, return_index=True, return_inverse=True)
        index = np.searchsorted(ids, tokens)
        known = np.take(ids, index, mode="clip") == tokens
        w = weights[index[known]]
        results: dict[str, float | str] = {}
        for name, scores in explanation.scores.items():
            per_token = (scores[first] if paper else token_means(scores, inverse))[known]
            results[name] = self.compare(per_token, w, name, explanation)
        return undefined.as_score(results)

    @abstractmethod
    def compare(self, scores: Floats, weights: Floats, name: str, explanation: Explanation) -> float | str:
        """The correlation over tokens of the score of this name, or why there is none."""


@metric(
    "nb-spearman",
    version=3,
    order=50,
    needs={"train"},
    direction="higher",
    unit="correlation",
    headline="@primary",
    relevant=0.02,
    bounds=(-1, 1),
)
class NaiveBayesSpearman(_NaiveBayesCorrelation):
    """Spearman correlation of signed scores with Naive Bayes weights over the distinct tokens that have a weight.

    Class 1 is the explained class against the rest. A repeated token has the mean of its positions' scores. In the
    paper protocol the first position's score, a = 20, and weights without class totals. Equal numbers share their mean
    rank, and a token has its positions' common score to the last bit, however often it is repeated. Needs train.
    Undefined for unsigned scores (`nb-strength` has them), for fewer than two tokens with a weight, constant scores or
    weights, and where the training texts have one class only.

    Formula:
        Spearman correlation over distinct tokens t of: score, and w(t) = log((n_1(t) + a) / (n_0(t) + a)) - log(N_1 /
          N_0)
        n_c(t): count of t in the training texts of class c; N_c: the same of all tokens, smoothed

    Choose it:
        To ask whether a method finds what the training texts say of words, without people's marks. A model need not
        have learnt that.

    Example:
        Classes of equal size, a = 40: good 60 times in positive texts and 20 in negative has log(100 / 60) = 0.51, dull
        10 and 60 times log(50 / 100) = -0.69. A method that puts good above dull agrees.

    Args:
        documents: count tokens in the first so many training texts (None: all).
        alpha: the smoothing a; unless given 40, in the paper protocol 20.

    Reference:
        Leemann et al. 2025, Table 1a and section 6.3.
    """

    def compare(self, scores: Floats, weights: Floats, name: str, explanation: Explanation) -> float | str:
        """Score against weight."""
        return (
            undefined.unsigned_scores(name, explanation)
            or undefined.correlation(scores, weights)
            or spearman(scores, weights)
        )


@metric(
    "nb-strength",
    version=2,
    order=51,
    needs={"train"},
    direction="higher",
    unit="correlation",
    headline="@primary",
    relevant=0.02,
    bounds=(-1, 1),
)
class NaiveBayesStrength(_NaiveBayesCorrelation):
    """Spearman correlation of the size of scores with the size of Naive Bayes weights, for every method alike.

    |score| against |w| over the distinct tokens that have a weight: does a method find the tokens that tell the classes
    apart, whichever class they speak for? A repeated token has the size of the mean of its positions' scores. Unsigned
    scores are sizes already and stay as they are. Weights, protocols, arguments and the other undefined cases as for
    `nb-spearman`. Needs train.

    Formula:
        Spearman correlation over distinct tokens t of |score| and |w(t)|, w as in `nb-spearman`

    Choose it:
        In the place of `nb-spearman` where unsigned methods (norms, attention) are to be compared too.

    Example:
        Weights 0.51 (good), -0.69 (dull), 0 (film): sizes rank dull, good, film. |scores| 2, 1, 0 rank good, dull,
        film: 1 - 6 (1 + 1 + 0) / (3 x 8) = 0.5.

    Args:
        documents: count tokens in the first so many training texts (None: all).
        alpha: the smoothing a; unless given 40, in the paper protocol 20.

    Reference:
        Leemann et al. 2025, Table 1a, whose column compares unsigned scores with signed weights.
    """

    def compare(self, scores: Floats, weights: Floats, name: str, explanation: Explanation) -> float | str:
        """Size of the score against size of the weight."""
        sizes, strengths = scores if name in explanation.unsigned else np.abs(scores), np.abs(weights)
        return undefined.correlation(sizes, strengths) or spearman(sizes, strengths)


def token_means(scores: Floats, tokens: Ints) -> Floats:
    """The mean score of each token, to the last bit the same for tokens that have the same scores, so that ties are.

    The least score of a token and the mean of what its others exceed it by: of equal scores that is the score itself,
    where a sum of three or more over their number often is not.

    >>> token_means(np.array([0.1, 0.1, 0.7, 0.1, 0.1]), np.array([0, 0, 1, 0, 2])).tolist()
    [0.1, 0.7, 0.1]
    """
    order = np.lexsort((scores, tokens))
    count = np.bincount(tokens)
    least = scores[order][np.cumsum(count) - count]
    means: Floats = least + np.bincount(tokens[order], (scores - least[tokens])[order]) / count
    return means


def class_counts(classifier: Classifier, context: Context, documents: int | None) -> tuple[Ints, Floats]:
    """Token ids (sorted) and how often each occurs in every class (ids x classes), in the model's own tokens."""
    labelled = [(e.text, e.label) for e in context.task.train if e.label is not None][:documents]
    texts, labels = [text for text, _ in labelled], [label for _, label in labelled]
    classes = len(classifier.class_names)
    if labels and not 0 <= min(labels) <= max(labels) < classes:
        raise InvalidInput(f"training labels {min(labels)} to {max(labels)} for a model of {classes} classes")
    if reads_by_word(classifier.tokens):
        key = ("distinct-words", context.task.source.content_hash, documents, classes)
        parts, times = context.once(key, lambda: distinct_words(texts, labels, classes), asking=classifier)
    else:
        parts, times = texts, np.eye(classes, dtype=np.int64)[labels]
    encoded = encode_all(classifier.tokens, parts)
    flat = np.concatenate([*encoded, np.zeros(0, np.int64)])
    times = np.repeat(times, [len(ids) for ids in encoded], axis=0)
    ids, place = np.unique(flat, return_inverse=True)  # ids may be hashes of words, far apart
    counts = np.stack([np.bincount(place, column, len(ids)) for column in times.T], axis=1).astype(np.float64)
    return ids, counts


def naive_bayes_weights(counts: Floats, target: int, alpha: float, normalise: bool) -> Floats | None:
    """log((n1+a)/(n0+a)) of the target class against the rest, minus the same of the smoothed class totals.

    Args:
        counts: of each token in every class (tokens x classes).
        target: the class that counts for.
        alpha: the smoothing a.
        normalise: whether to subtract the ratio of class totals.

    Returns:
        A weight for each token, or None where the target or the rest has no token at all.

    >>> naive_bayes_weights(np.array([[3.0, 7.0], [7.0, 3.0]]), 1, 1.0, normalise=True).round(4).tolist()
    [0.6931, -0.6931]
    """
    inside = counts[:, target]
    outside = counts.sum(axis=1) - inside
    if not inside.any() or not outside.any():
        return None
    # the larger count over the smaller: swapped counts have weights of one size to the last bit, and tie in nb-strength
    high, low = np.maximum(inside, outside) + alpha, np.minimum(inside, outside) + alpha
    weights: Floats = np.copysign(np.log(high / low), inside - outside)
    if normalise:
        weights -= np.log((inside + alpha).sum() / (outside + alpha).sum())
    return weights
