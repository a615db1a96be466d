"""An explained text in the forms of other packages: `shap.Explanation`, captum's text records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.errors import Unsupported
from slalom_bench.showing.shades import contribution

if TYPE_CHECKING:
    from slalom_bench.showing.explained import ExplainedText


def to_shap(explained: ExplainedText, explainer: str | int = 0) -> Any:
    """One explanation as a `shap.Explanation`, for shap's plots.

    Its values are the contributions of the tokens in log-odds, its base value what they leave of F(full): shap's plots
    add them up to F(full), which for other than Shapley values is a way of drawing and no statement.

    Args:
        explained: the explained text.
        explainer: whose explanation, by name or place.
    """
    try:
        import shap
    except ImportError as error:
        raise Unsupported("shap is not installed; pip install shap") from error
    explanation = explained[explainer]
    values = np.array(explanation.scores[contribution(explanation)])
    return shap.Explanation(
        values=values,
        base_values=explained.log_odds - float(values.sum()),
        data=np.array(explained.words, dtype=object),
        feature_names=list(explained.words),
    )


def to_captum(explained: ExplainedText) -> list[Any]:
    """Every explanation as captum's `VisualizationDataRecord`, for `captum.attr.visualization.visualize_text`.

    Scores are divided by the largest of their sizes, because captum draws from -1 to 1; the convergence score is the
    method's own completeness gap where it has one, else 0.
    """
    import torch
    from captum.attr import visualization

    label = explained.sample.label
    records = []
    for _, explanation in explained.done:
        scores = np.array(explanation.scores[contribution(explanation)])
        largest = float(np.abs(scores).max()) or 1.0
        records.append(
            visualization.VisualizationDataRecord(
                word_attributions=torch.from_numpy(scores / largest),
                pred_prob=explained.probability,
                pred_class=explained.target_name,
                true_class="unknown" if label is None else explained.class_names[label],
                attr_class=explained.target_name,
                attr_score=float(scores.sum()),
                raw_input_ids=list(explained.words),
                convergence_score=float(explanation.diagnostics.get("completeness_gap", 0.0)),
            )
        )
    return records
