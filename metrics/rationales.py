"""Plausibility beside the areas: the highest scores as a rationale (ERASER), and agreement with several annotators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.tokens import word_of_token
from slalom_bench.core.types import Bools, Explanation, Sample, Score
from slalom_bench.metrics._marks import sizes
from slalom_bench.numerics.correlation import spearman
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_MATCH = 0.5
"""The overlap from which on a span counts as found, in ERASER."""


class _Rationale:
    """Scores turned into a rationale of as many tokens as people marked: those that matter most."""

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """No query; a value for each score of the explanation."""
        if sample.marks is None:
            return undefined.everywhere(explanation.scores, undefined.NO_MARKS)
        marks = sample.marks
        if reason := undefined.one_class(marks):
            return undefined.everywhere(explanation.scores, reason)
        results: dict[str, float | str] = {
            name: undefined.constant_scores(size)
            or self.agreement(marks, undefined.descending_ranks(size) < marks.sum())
            for name, size in sizes(explanation).items()
        }
        return undefined.as_score(results)

    def agreement(self, marks: Bools, chosen: Bools) -> float:
        """How far the chosen tokens are the marked ones."""
        return float((marks & chosen).sum() / marks.sum())


@metric(
    "human-token-f1",
    version=1,
    order=62,
    needs={"marks"},
    direction="higher",
    unit="F1",
    headline="@primary",
    relevant=0.02,
    bounds=(0, 1),
)
class HumanTokenF1(_Rationale):
    """Share of marked tokens among the highest scores, as many as people marked: the share of marked ones is chance.

    With m marked tokens the rationale is the m tokens of largest |score| (ties in the order of the text), and
    precision, recall and F1 are all |rationale and marked| / m. Marks that a cut of the text took away do not count.
    Needs marks. Undefined for samples without marks, where all tokens or none are marked, and for constant scores,
    which choose nothing.

    Formula:
        |the m tokens of largest |score| and marked| / m, m: the number of marked tokens

    Choose it:
        For ERASER's token F1, where the number of tokens to choose should not matter.

    Example:
        |scores| 3, 1, 2, 0, the first two marked, m = 2: the highest are the first and the third, one of them marked:
        0.5.

    Reference:
        DeYoung et al. 2020, ERASER: A Benchmark to Evaluate Rationalized NLP Models, ACL, section 4.1 (there at the
        mean length of a rationale, here at each text's own).
    """


@metric(
    "human-iou-f1",
    version=1,
    order=63,
    needs={"marks"},
    direction="higher",
    unit="F1",
    headline="@primary",
    relevant=0.02,
    bounds=(0, 1),
)
class HumanIouF1(_Rationale):
    """F1 of spans: how many runs of high scores overlap by half with a run of marked tokens.

    The rationale is that of `human-token-f1`; its spans are its runs of neighbouring tokens, those of people the runs
    of marked ones. Precision is found / spans, recall found / human spans. Scores that are high at single words score
    near 0 where people marked passages. Needs marks. Undefined cases as in `human-token-f1`.

    Formula:
        F1 = 2 found / (spans + human spans); found: spans with intersection over union >= 1/2 with a human span

    Choose it:
        Where people marked passages and passages are what one wants to find.

    Example:
        People marked tokens 1 to 4; the four highest scores are 1, 2, 3 and 7. The span 1 to 3 overlaps by 3/4, the
        span 7 not: 2 x 1 / (2 + 1) = 0.67.

    Reference:
        DeYoung et al. 2020, ERASER: A Benchmark to Evaluate Rationalized NLP Models, ACL, section 4.1.
    """

    def agreement(self, marks: Bools, chosen: Bools) -> float:
        """F1 of the spans."""
        human, spans = _runs(marks), _runs(chosen)
        found = sum(max(map(_iou, [span] * len(human), human)) >= _MATCH for span in spans)
        return 2 * found / (len(spans) + len(human))


def _runs(chosen: Bools) -> list[tuple[int, int]]:
    """The runs of neighbouring chosen tokens, each from its first to behind its last.

    >>> _runs(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    steps = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    return [(int(start), int(end)) for start, end in steps.reshape(-1, 2)]


def _iou(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Intersection over union of two spans."""
    both = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return both / (one[1] - one[0] + other[1] - other[0] - both)


@metric(
    "human-soft-agreement",
    version=1,
    order=64,
    needs={"annotators"},
    direction="higher",
    unit="rank correlation",
    headline="@primary",
    relevant=0.02,
    bounds=(-1, 1),
)
class HumanSoftAgreement:
    """Rank correlation of scores with the share of annotators who marked each word: 0 is chance.

    Ties have mean ranks. No consensus rule has to turn several people into one. Needs the marks of several annotators.
    Undefined for texts with one annotator, where every word has the same share, and for constant scores.

    Formula:
        Spearman correlation over tokens of |score| and the share of annotators who marked the token's word

    Choose it:
        Where several people marked each text and disagree.

    Example:
        Shares 1, 0.5, 0 and |scores| 3, 1, 2 have ranks 3, 2, 1 and 3, 1, 2: 1 - 6 (0 + 1 + 1) / (3 x 8) = 0.5.

    Reference:
        Sen et al. 2020, Human Attention Maps for Text Classification, ACL (the annotators' maps).
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """No query; a value for each score of the explanation."""
        shares = context.example(sample).word_shares
        if shares is None or sample.text is None or sample.offsets is None:
            return undefined.everywhere(explanation.scores, undefined.NO_ANNOTATORS)
        reference = np.asarray(shares)[word_of_token(sample.text, sample.offsets)]
        results: dict[str, float | str] = {
            name: undefined.correlation(size, reference) or spearman(size, reference)
            for name, size in sizes(explanation).items()
        }
        return undefined.as_score(results)
