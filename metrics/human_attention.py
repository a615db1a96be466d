"""Human attention: do scores find the words that people marked (Table 1b)?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample, Score
from slalom_bench.metrics._marks import auprc, auroc, sizes
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_PUNCTUATION = frozenset("!.,;:?")


class _MarkDetection:
    """How well scores separate marked from unmarked tokens; |score| for signed kinds.

    paper: distinct tokens only, with the first position's score and the last one's mark, punctuation dropped.
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """No query; a value for each score of the explanation."""
        if sample.marks is None:
            return undefined.everywhere(explanation.scores, undefined.NO_MARKS)
        positions, marks = np.arange(len(sample)), sample.marks
        if context.protocol == "paper":
            positions, marks = _distinct_tokens(sample.ids, marks, classifier.tokens.words(sample.ids))
        if reason := undefined.one_class(marks):
            return undefined.everywhere(explanation.scores, reason)
        return Score({name: self.area(marks, values[positions]) for name, values in sizes(explanation).items()})

    def area(self, marks: Bools, scores: Floats) -> float:
        """Area under the curve of this metric, ties counted half."""
        return auroc(marks, scores)


@metric(
    "human-attention-auroc",
    version=1,
    order=60,
    needs={"marks"},
    direction="higher",
    unit="area",
    headline="@primary",
    relevant=0.02,
    bounds=(0, 1),
)
class HumanAttentionAuroc(_MarkDetection):
    """Area under the ROC curve of scores against human marks: 0.5 is chance.

    Signed scores count by size. In the paper protocol distinct tokens only, with the first position's score and the
    last one's mark, punctuation dropped. Needs marks. Undefined for samples without marks, or where all tokens or none
    are marked.

    Formula:
        P(|score_i| > |score_j|) + P(|score_i| = |score_j|) / 2 over marked i and unmarked j

    Choose it:
        To ask whether scores stand where people look. That is plausibility: a model may be right to look elsewhere.

    Example:
        |scores| 3, 1, 2, 0, the first two marked: of the pairs (3, 2), (3, 0), (1, 2), (1, 0) three are in order: 0.75.

    Reference:
        Sen et al. 2020, Human Attention Maps for Text Classification, ACL; Leemann et al. 2025, Table 1b.
    """


@metric(
    "human-attention-auprc",
    version=1,
    order=61,
    needs={"marks"},
    direction="higher",
    unit="area",
    headline="@primary",
    relevant=0.02,
    bounds=(0, 1),
)
class HumanAttentionAuprc(_MarkDetection):
    """Average precision of scores against human marks: the share of marked tokens is chance.

    Protocols, needs and undefined cases as in `human-attention-auroc`.

    Formula:
        sum over thresholds of (recall_k - recall_(k-1)) precision_k, tokens ranked by |score|

    Choose it:
        Beside the AU-ROC where few tokens are marked: it looks at the top of the ranking.

    Example:
        |scores| 3, 1, 2, 0, the first two marked. Recall 1/2 at precision 1/1, recall 1 at precision 2/3: 0.5 x 1 + 0.5
        x 0.67 = 0.83.

    Reference:
        Sen et al. 2020, Human Attention Maps for Text Classification, ACL.
    """

    def area(self, marks: Bools, scores: Floats) -> float:
        """Average precision."""
        return auprc(marks, scores)


def _distinct_tokens(ids: Ints, marks: Bools, words: list[str]) -> tuple[Ints, Bools]:
    """The first position of every distinct token that is no punctuation, and the mark of its last one."""
    first = np.unique(ids, return_index=True)[1]
    last = len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]
    word = np.array([words[position].strip() not in _PUNCTUATION for position in first])
    return first[word], marks[last[word]]
