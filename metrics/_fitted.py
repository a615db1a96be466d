"""Surrogates of a whole model, fitted once for each model and seed, whichever metric asks first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.numerics.surrogate_fit import SurrogateFit


def fitted(classifier: Classifier, context: Context, count: int) -> SurrogateFit:
    """The surrogates that `count` fresh texts of the context's task give."""
    from slalom_bench.numerics.surrogate_fit import surrogate_fit

    key = ("surrogate-fit", classifier.identity(), context.task.source.content_hash, context.seed, count)
    return context.once(
        key, lambda: surrogate_fit(classifier, context.task, count, context.rng("surrogate-fit")), asking=classifier
    )
