"""Insertion and deletion: what happens to the prediction when the top-ranked tokens alone stay, or go (AOPC)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.parameters import Share
from slalom_bench.core.types import Bools, Explanation, Ints, Sample, Score
from slalom_bench.metrics._rankings import FRACTIONS, fraction_counts, rank, rank_towards_prediction
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_PAPER_STEP, _PAPER_LIMIT = 5, 512


class _Curve:
    """A curve along a ranking, at fixed fractions of the tokens: the top tokens kept or deleted."""

    deletes: bool

    def __init__(self, fractions: Sequence[Share] = FRACTIONS) -> None:
        self.fractions = tuple(fractions)

    def counts(self, n: int, empty_allowed: bool) -> Ints:
        """How many top tokens each fraction means."""
        return fraction_counts(self.fractions, n, empty_allowed)

    def keep(self, ranks: Ints, counts: Ints) -> Bools:
        """Keep-masks (counts x n) with so many of the top tokens alone, or deleted."""
        return ranks >= counts[:, None] if self.deletes else ranks < counts[:, None]


class _ProbabilityCurve(_Curve):
    """Area over the perturbation curve: probability of a class along a ranking, the top tokens kept or deleted.

    bench (ERASER): the predicted class, mean over fractions of p(x) - p(what is kept).
    paper: the true class, 1 - mean of p(what is kept) at 5, 10, 15, ... tokens.
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All masks of all scores in one call; a value for each score of the explanation."""
        n, paper = len(sample), context.protocol == "paper"
        counts = paper_counts(n) if paper else self.counts(n, classifier.empty_allowed)
        if reason := undefined.too_few_points(n, len(counts)):
            return undefined.everywhere(explanation.scores, reason)
        full = None if paper else classifier.probabilities([sample.ids])[0]
        towards = sample.label if full is None else int(full.argmax())
        # the paper negates unsigned scores with the label too: part of what it published
        ranking = rank(explanation, towards, len(classifier.class_names), turn_unsigned=paper)
        if not ranking.ranks:
            return ranking.score()
        # where tokens are deleted, the paper's counts say how many stay
        taken = n - counts if paper and self.deletes else counts
        masks = np.concatenate([self.keep(ranks, taken) for ranks in ranking.ranks.values()])
        p = classifier.probabilities(classifier.mask(sample, masks))[:, ranking.towards]
        start = 1.0 if full is None else float(full[ranking.towards])
        return ranking.score(start - p.reshape(len(ranking.ranks), -1).mean(axis=1))


class _LogOddsCurve(_Curve):
    """The same curves in log-odds of the predicted class: mean over fractions of F(x) - F(what is kept)."""

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """Queries that the same curve in probability asks too: the handle answers them once for both."""
        counts = self.counts(len(sample), classifier.empty_allowed)
        ranking, full = rank_towards_prediction(classifier, sample, explanation, len(counts))
        if not ranking.ranks:
            return ranking.score()
        kept = ranking.log_odds(classifier, sample, lambda ranks: self.keep(ranks, counts))
        return ranking.score((full - kept).mean(axis=1))


@metric(
    "insertion",
    version=1,
    order=31,
    needs={"queries"},
    direction="lower",
    unit="probability",
    headline="@primary",
    relevant=0.01,
    bounds=(-1, 1),
)
class Insertion(_ProbabilityCurve):
    """Probability lost when only the top-ranked tokens are kept (sufficiency): lower is better.

    With c the predicted class, tokens are ranked by score towards c, ties by position; one value for each score. In the
    paper protocol 1 - mean of p_c(the top k alone) over k = 5, 10, 15, ... tokens, c the true class. Needs queries.
    Undefined for texts of one token (paper: under 5), for constant scores, for unlabelled texts in the paper protocol,
    and where more than two classes are known and c is not the explained one.

    Formula:
        mean over fractions q of p_c(x) - p_c(the top q of x alone)

    Choose it:
        To compare with published sufficiency. It saturates where the model is sure (on `mini-gpt2` signed methods lie
        within 4e-4 of each other): prefer `insertion-log-odds` or `srg`.

    Example:
        p(x) = 0.9; the top tenth alone 0.7, the top fifth alone 0.9: ((0.9 - 0.7) + 0) / 2 = 0.1.

    Args:
        fractions: of the content tokens, each rounded up to whole tokens; ignored in the paper protocol.

    Reference:
        DeYoung et al. 2020, ERASER, ACL, section 4 (sufficiency); Leemann et al. 2025, Table 1c and appendix F.4.
    """

    deletes = False


@metric(
    "deletion",
    version=1,
    order=30,
    needs={"queries"},
    direction="higher",
    unit="probability",
    headline="@primary",
    relevant=0.01,
    bounds=(-1, 1),
)
class Deletion(_ProbabilityCurve):
    """Probability lost when the top-ranked tokens are deleted (comprehensiveness): higher is better.

    With c the predicted class, tokens are ranked by score towards c, ties by position; one value for each score. In the
    paper protocol 1 - mean of p_c(x without all but its k lowest) over k = 5, 10, 15, ... tokens, c the true class.
    Needs queries. Undefined as `insertion` is.

    Formula:
        mean over fractions q of p_c(x) - p_c(x without its top q)

    Choose it:
        To compare with published comprehensiveness. Probabilities saturate: prefer `srg` or `deletion-log-odds`.

    Example:
        p(x) = 0.9; without the top tenth 0.4, without the top fifth 0.2: ((0.9 - 0.4) + (0.9 - 0.2)) / 2 = 0.6.

    Args:
        fractions: of the content tokens, each rounded up to whole tokens; ignored in the paper protocol.

    Reference:
        DeYoung et al. 2020, ERASER, ACL, section 4 (comprehensiveness); Leemann et al. 2025, Table 11.
    """

    deletes = True


@metric(
    "deletion-log-odds",
    version=1,
    order=22,
    needs={"queries"},
    direction="higher",
    unit="log-odds",
    headline="@primary",
    relevant=0.05,
)
class DeletionLogOdds(_LogOddsCurve):
    """Log-odds lost when the top-ranked tokens are deleted: `deletion` on the scale that does not saturate.

    With F_c the log-odds of the predicted class c, tokens are ranked by score towards c, ties by position; one value
    for each score. Unsigned scores rank from the largest down. The same in both protocols. Needs queries, the very ones
    of `deletion`. Undefined for texts of one token, for constant scores, and where more than two classes are known and
    c is not the explained one.

    Formula:
        mean over fractions q of F_c(x) - F_c(x without its top q)

    Choose it:
        For comprehensiveness that does not saturate. Deleting anything may lower F: `srg` takes that out.

    Example:
        A bag of words with weights good 2, film 0, dull -1, ranked so: F = 1, without good -1: 1 + 1 = 2 at one token.

    Args:
        fractions: of the content tokens, each rounded up to whole tokens.

    Reference:
        DeYoung et al. 2020, ERASER, ACL, section 4 (comprehensiveness, there in probability); in log-odds as in
        Shrikumar et al. 2017, Learning Important Features Through Propagating Activation Differences, ICML.
    """

    deletes = True


@metric(
    "insertion-log-odds",
    version=1,
    order=23,
    needs={"queries"},
    direction="lower",
    unit="log-odds",
    headline="@primary",
    relevant=0.05,
)
class InsertionLogOdds(_LogOddsCurve):
    """Log-odds lost when only the top-ranked tokens are kept: `insertion` on the scale that does not saturate.

    Below zero where the top tokens alone say c more clearly than the whole text. Otherwise as `deletion-log-odds`; its
    queries are the very ones of `insertion`.

    Formula:
        mean over fractions q of F_c(x) - F_c(the top q of x alone)

    Choose it:
        For sufficiency that does not saturate. Very short texts are far from what models saw in training.

    Example:
        A bag of words with weights good 2, film 0, dull -1, ranked so: F = 1, good alone 2: 1 - 2 = -1 at one token.

    Args:
        fractions: of the content tokens, each rounded up to whole tokens.

    Reference:
        DeYoung et al. 2020, ERASER, ACL, section 4 (sufficiency, there in probability).
    """

    deletes = False


def paper_counts(n: int) -> Ints:
    """5, 10, 15, ... up to the length of the text.

    >>> paper_counts(17).tolist()
    [5, 10, 15]
    """
    return np.arange(_PAPER_STEP, min(n, _PAPER_LIMIT - 1) + 1, _PAPER_STEP)
