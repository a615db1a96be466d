"""Which family of surrogates can describe a model at all: linear, GAM and SLALOM fitted to its outputs (Table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.types import Example, Floats, Ints, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.fits import SlalomFit, fit_slalom
from slalom_bench.numerics.gam import Additive, design_matrices, fit_gam, fit_linear
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier

FAMILIES = ("linear", "gam", "slalom")
_IMPORTANCE_VARIANCE = 10.0
"""Of the Gaussian prior on importances: wide, so that the texts and not the ridge decide (fits scale it by noise)."""


@dataclass(frozen=True)
class SurrogateFit:
    """Three surrogates of one model over the tokens `vocabulary`, and their errors on the texts they were fitted to."""

    vocabulary: Ints
    linear: Additive
    gam: Additive
    slalom: SlalomFit
    train_error: dict[str, float]

    def knows(self, ids: Ints) -> bool:
        """Whether all of these tokens were in the texts that the surrogates were fitted to."""
        return bool(np.isin(ids, self.vocabulary).all())

    def predict(self, texts: Sequence[Ints]) -> dict[str, Floats]:
        """Log-odds by family, of content ids that the vocabulary knows."""
        return _predict(self.linear, self.gam, self.slalom, _columns(texts, self.vocabulary))

    def slalom_surrogate(self, ids: Ints) -> SlalomSurrogate:
        """The SLALOM at the positions of a text whose tokens the vocabulary knows."""
        index = np.searchsorted(self.vocabulary, ids)
        return SlalomSurrogate(self.slalom.value[index], self.slalom.importance[index])


def surrogate_fit(classifier: Classifier, task: TaskData, count: int, rng: np.random.Generator) -> SurrogateFit:
    """Fit all families to the log-odds of class 1 on fresh texts, in one set of queries.

    Args:
        classifier: the model to describe.
        task: whose training texts give lengths and word frequencies.
        count: how many texts are drawn, at least 10.
        rng: draws the texts, and what the GAM holds out.

    Reference:
        Leemann et al. 2025, Table 6. The paper's GAM is an under-fitted Lasso; this one contains the linear model.
    """
    texts = fresh_texts(classifier, task, count, rng)
    targets = classifier.log_odds(texts, target=1)
    vocabulary = np.unique(np.concatenate(texts))
    columns, size = _columns(texts, vocabulary), len(vocabulary)
    counts, _ = design_matrices(columns, size, 0)
    linear = fit_linear(columns, targets, size)
    gam = fit_gam(columns, targets, size, rng)
    slalom = fit_slalom(counts.toarray(), targets, prior_importance=_IMPORTANCE_VARIANCE)
    predicted = _predict(linear, gam, slalom, columns)
    errors = {name: float(np.mean((values - targets) ** 2)) for name, values in predicted.items()}
    return SurrogateFit(vocabulary, linear, gam, slalom, errors)


def fresh_texts(classifier: Classifier, task: TaskData, count: int, rng: np.random.Generator) -> list[Ints]:
    """Texts of independent words, with the lengths and word frequencies of the task's training texts."""
    if not task.train or count < 10:
        raise InvalidInput(f"surrogate-fit needs training texts and a count of at least 10, not {count}")
    words = [example.text.split() for example in task.train]
    lengths = rng.choice([len(text) for text in words], count)
    drawn = rng.choice(np.array([word for text in words for word in text]), int(lengths.sum()))
    texts = np.split(drawn, np.cumsum(lengths)[:-1])
    return [classifier.encode(Example(f"fresh-{i}", " ".join(text))).ids for i, text in enumerate(texts)]


def _columns(texts: Sequence[Ints], vocabulary: Ints) -> list[Ints]:
    """Token ids as their indices 0..U-1 in the sorted vocabulary."""
    return [np.searchsorted(vocabulary, text) for text in texts]


def _predict(linear: Additive, gam: Additive, slalom: SlalomFit, columns: Sequence[Ints]) -> dict[str, Floats]:
    counts, _ = design_matrices(columns, len(slalom.value), 0)
    weight = np.exp(slalom.importance - slalom.importance.max())
    return {
        "linear": linear.predict(columns),
        "gam": gam.predict(columns),
        "slalom": (counts @ (weight * slalom.value)) / (counts @ weight),
    }
