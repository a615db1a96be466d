"""Global SLALOM: one value and importance per token id, fitted over many texts (as for the synthetic tasks)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.types import Floats, Ints, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.numerics.fits import SlalomFit


@dataclass(frozen=True)
class GlobalSlalom:
    """A SLALOM over a vocabulary: parameters of every token id of the texts, in the order of `ids` (rising)."""

    ids: Ints
    fit: SlalomFit

    @property
    def value(self) -> Floats:
        """v of each token id."""
        return self.fit.value

    @property
    def importance(self) -> Floats:
        """s of each token id, centred over them."""
        return self.fit.importance

    def surrogate(self, sample: Sample) -> SlalomSurrogate:
        """The global parameters at a sample's positions."""
        index = np.searchsorted(self.ids, sample.ids)
        known = self.ids[np.minimum(index, len(self.ids) - 1)] == sample.ids
        if not known.all():
            unknown = sorted(set(sample.ids[~known].tolist()))
            raise InvalidInput(f"sample {sample.id}: token ids {unknown} were not fitted")
        return SlalomSurrogate(self.value[index], self.importance[index])


def fit_global(
    classifier: Classifier, samples: Sequence[Sample], budget: int, rng: np.random.Generator
) -> GlobalSlalom:
    """Fit one SLALOM to `budget` queries; each keeps a random number (1 to all) of a random text's tokens, in order.

    Sequences of every length in the texts' own mixture: what tells values from importances is which tokens compete.

    Args:
        classifier: the handle of the model.
        samples: texts in its tokens, at least one.
        budget: how many queries to make, at least one.
        rng: the generator.
    """
    from slalom_bench.numerics.fits import fit_slalom

    if not samples or budget < 1:
        raise InvalidInput(f"global SLALOM needs a text and a query at least, not {len(samples)} and {budget}")
    sequences = []
    for which in rng.integers(0, len(samples), size=budget):
        ids = samples[which].ids
        kept = np.sort(rng.choice(len(ids), size=rng.integers(1, len(ids) + 1), replace=False))
        sequences.append(ids[kept])
    vocabulary = np.unique(np.concatenate([sample.ids for sample in samples]))
    rows = np.repeat(np.arange(budget), [len(sequence) for sequence in sequences])
    cells = rows * len(vocabulary) + np.searchsorted(vocabulary, np.concatenate(sequences))
    counts = np.bincount(cells, minlength=budget * len(vocabulary)).reshape(budget, len(vocabulary))
    return GlobalSlalom(vocabulary, fit_slalom(counts, classifier.log_odds(sequences)))
