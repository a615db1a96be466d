"""Insertion and deletion: what happens to the prediction when the top-ranked tokens alone stay, or go (AOPC)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Bools, Explanation, Ints, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)
_PAPER_STEP, _PAPER_LIMIT = 5, 512


class _PerturbationCurve:
    """Area over the perturbation curve: probability of a class along a ranking, the top tokens kept or deleted.

    bench (ERASER): the predicted class, mean over fractions of p(x) - p(what is kept).
    paper: the true class, 1 - mean of p(what is kept) at 5, 10, 15, ... tokens.
    """

    deletes: bool

    def __init__(self, fractions: Sequence[float] = FRACTIONS) -> None:
        self.fractions = tuple(fractions)

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """All masks of all scores in one call; a value for each score of the explanation."""
        paper = context.protocol == "paper"
        counts = paper_counts(len(sample)) if paper else self.counts(len(sample), classifier.empty_allowed)
        if reason := undefined.too_few_points(len(sample), len(counts)):
            return undefined.everywhere(explanation.scores, reason)
        full = None if paper else classifier.probabilities([sample.ids])[0]
        towards = sample.label if full is None else int(full.argmax())
        if reason := undefined.not_rankable(towards, explanation.target, len(classifier.class_names)):
            return undefined.everywhere(explanation.scores, reason)
        results: dict[str, float | str | None] = {
            name: undefined.constant_scores(values) for name, values in explanation.scores.items()
        }
        ranked = [name for name, why in results.items() if why is None]
        masks = []
        for name in ranked:
            # the paper negates unsigned scores with the label too: part of what it published
            negate = towards != explanation.target and (paper or name not in explanation.unsigned)
            ranks = undefined.descending_ranks(-explanation.scores[name] if negate else explanation.scores[name])
            masks.append(self.keep(ranks, counts, paper))
        if not ranked:
            return undefined.as_score(results)
        p = classifier.probabilities(classifier.mask(sample, np.concatenate(masks)))[:, towards]
        start = 1.0 if full is None else float(full[towards])
        results |= dict(zip(ranked, start - p.reshape(len(ranked), -1).mean(axis=1), strict=True))
        return undefined.as_score(results)

    def keep(self, ranks: Ints, counts: Ints, paper: bool) -> Bools:
        """Keep-masks (counts x n). Where tokens are deleted, the paper's counts say how many stay."""
        if not self.deletes:
            return ranks < counts[:, None]
        return ranks >= (len(ranks) - counts if paper else counts)[:, None]

    def counts(self, n: int, empty_allowed: bool) -> Ints:
        """How many top tokens each fraction means: one at least, and not all where the empty input is not allowed."""
        if not self.fractions or min(self.fractions) <= 0 or max(self.fractions) > 1:
            raise InvalidInput(f"fractions must lie in (0, 1]: {self.fractions}")
        # 0.07 * 100 is a little over 7 in floating point, and means 7
        counts = np.ceil(np.asarray(self.fractions) * n - 1e-9).astype(np.int64)
        return np.clip(counts, 1, n if empty_allowed else max(1, n - 1))


@metric(
    "insertion",
    version=1,
    order=20,
    needs={"queries"},
    direction="lower",
    unit="probability",
    headline="@primary",
    relevant=0.01,
)
class Insertion(_PerturbationCurve):
    """Probability lost when only the top-ranked tokens are kept (sufficiency): lower is better.

    Mean over fractions q of p_c(x) - p_c(the top q of x alone), c the predicted class and tokens ranked by score
    towards c, ties by position; one value for each score. In the paper protocol 1 - mean of p_c(the top k alone) over
    k = 5, 10, 15, ... tokens, c the true class. Needs queries. Undefined for texts of one token (paper: under 5), for
    constant scores, for unlabelled texts in the paper protocol, and where more than two classes are known and c is not
    the explained one.

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
)
class Deletion(_PerturbationCurve):
    """Probability lost when the top-ranked tokens are deleted (comprehensiveness): higher is better.

    Mean over fractions q of p_c(x) - p_c(x without its top q), c the predicted class and tokens ranked by score towards
    c, ties by position; one value for each score. In the paper protocol 1 - mean of p_c(x without all but its k lowest)
    over k = 5, 10, 15, ... tokens, c the true class. Needs queries. Undefined as `insertion` is.

    Args:
        fractions: of the content tokens, each rounded up to whole tokens; ignored in the paper protocol.

    Reference:
        DeYoung et al. 2020, ERASER, ACL, section 4 (comprehensiveness); Leemann et al. 2025, Table 11.
    """

    deletes = True


def paper_counts(n: int) -> Ints:
    """5, 10, 15, ... up to the length of the text.

    >>> paper_counts(17).tolist()
    [5, 10, 15]
    """
    return np.arange(_PAPER_STEP, min(n, _PAPER_LIMIT - 1) + 1, _PAPER_STEP)
