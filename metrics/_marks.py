"""What the metrics that compare scores with marked tokens share: scores by size, and the two areas."""

from __future__ import annotations

from slalom_bench.core.types import Bools, Explanation, Floats


def sizes(explanation: Explanation) -> dict[str, Floats]:
    """How much each token matters by every score: the absolute value of signed ones, unsigned ones as they are."""
    return {
        name: values if name in explanation.unsigned else abs(values) for name, values in explanation.scores.items()
    }


def auroc(marks: Bools, scores: Floats) -> float:
    """Area under the ROC curve, ties counted half; `undefined.one_class` says when there is none."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(marks, scores))


def auprc(marks: Bools, scores: Floats) -> float:
    """Average precision; `undefined.one_class` says when there is none."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(marks, scores))
