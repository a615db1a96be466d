"""What the model itself says of a text: its log-odds beside the true ones, and whether it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Explanation, Sample, Score
from slalom_bench.metrics._truth import true_surrogate
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier


@metric(
    "log-odds",
    version=1,
    order=90,
    needs={"queries"},
    direction="higher",
    unit="log-odds",
    headline="model",
    level="model",
    default=False,
)
class LogOdds:
    """The model's log-odds of the explained class on the whole text, and the true ones where the task knows them.

    `model`: F(x). `truth`: the log-odds that the task draws its labels with, where it has a truth. A property of the
    model, not of the explanation: every explainer has the same scores. Needs queries. `truth` is undefined where the
    task has none and for a text with a token that is no word of the task.

    Formula:
        F(x), and F_true(x) where the task has a truth

    Choose it:
        To see the model's outputs themselves, beside the true ones: Fig. 1 and 3.

    Example:
        "perfect perfect" of `synthetic-linear`: true 2 x 1.5 = 3; a transformer that averages says about as much as for
        one "perfect".

    Reference:
        Leemann et al. 2025, Fig. 1 and Fig. 3.
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """One query."""
        said = float(classifier.targeting(explanation.target).log_odds([sample.ids])[0])
        if not context.task.truth:
            return undefined.as_score({"model": said, "truth": undefined.NO_TRUTH})
        true = true_surrogate(context.task.truth, classifier.tokens.words(sample.ids), explanation.target)
        if true is None:
            return undefined.as_score({"model": said, "truth": undefined.UNKNOWN_TOKEN})
        return Score({"model": said, "truth": float(true.predict(np.ones((1, len(sample)), np.bool_))[0])})


@metric(
    "accuracy",
    version=1,
    order=91,
    needs={"queries"},
    direction="higher",
    unit="share of texts",
    headline="correct",
    bounds=(0, 1),
    level="model",
    default=False,
)
class Accuracy:
    """Whether the model predicts the text's label: 1 or 0, so that the mean is the accuracy on these texts.

    A property of the model, not of the explanation: every explainer has the same scores. Needs queries. Undefined for
    texts without label.

    Formula:
        1 where argmax of the logits is the label, else 0

    Choose it:
        Beside the other columns of a board: an explanation of a model that is wrong explains its errors.

    Example:
        Predicted positive, positive, negative for labels positive, negative, negative: (1 + 0 + 1) / 3 = 0.67.

    Reference:
        Leemann et al. 2025, Table 4.
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """One query."""
        if sample.label is None:
            return undefined.everywhere(["correct"], undefined.NO_LABEL)
        return Score({"correct": float(classifier.probabilities([sample.ids])[0].argmax() == sample.label)})
