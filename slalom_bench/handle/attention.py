"""Attention maps of a sample, and the position at which the classifier reads, counted like every other query."""

from __future__ import annotations

import numpy as np

from slalom_bench.core.types import Floats, Sample
from slalom_bench.handle.backend import Backend, attention_backend
from slalom_bench.handle.ledger import Ledger
from slalom_bench.handle.template import whole


class Attention:
    """The attention maps of a backend that has them."""

    def __init__(self, backend: Backend, ledger: Ledger) -> None:
        self._backend = backend
        self._ledger = ledger

    def maps(self, sample: Sample) -> Floats:
        """Attention maps (layers x heads x length x length) of a sample inside its template."""
        backend = attention_backend(self._backend)
        self._ledger.ask(1)
        (sequence,) = whole(backend, [sample.ids])
        with self._ledger.model_time():
            maps = backend.attentions(sequence)
        self._ledger.count(forwards=1, batches=1, tokens=len(sequence))
        return np.asarray(maps, np.float64)

    def read_position(self, sample: Sample) -> int:
        """The position, in the whole sequence, whose state is classified."""
        backend = attention_backend(self._backend)
        (sequence,) = whole(backend, [sample.ids])
        return backend.read_position(len(sequence))
