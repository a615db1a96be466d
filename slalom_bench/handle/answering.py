"""Answering: from content sequences to logits, each distinct one computed once, in batches that fit the memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.sequences import Keys, Ragged, distinct
from slalom_bench.core.types import Floats, Ints
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.backend import Backend, OutOfMemory
from slalom_bench.handle.cache import QueryCache
from slalom_bench.handle.device import single_sequence
from slalom_bench.handle.ledger import Ledger
from slalom_bench.handle.packing import TokenBudget, pack
from slalom_bench.handle.template import Contents, whole


def log_odds(logits: Floats, target: int) -> Floats:
    """F_c = l_c - logsumexp of the other logits (m), of logits (m x classes).

    >>> log_odds(np.array([[0.0, 1.5]]), 1).tolist()
    [1.5]
    """
    if logits.shape[1] == 2:
        return logits[:, target] - logits[:, (target + 1) % 2]
    return logits[:, target] - np.logaddexp.reduce(np.delete(logits, target, axis=1), axis=1)


class Answering:
    """Logits of content sequences. What is computed and in which batches depends on the set asked for alone."""

    def __init__(self, backend: Backend, ledger: Ledger, budget: TokenBudget, cache: QueryCache | None) -> None:
        self._backend = backend
        self._ledger = ledger
        self._budget = budget
        self._cache = cache

    def new_scope(self) -> None:
        """Forget single answers (not whole sets): see `QueryCache`."""
        if self._cache is not None:
            self._cache.new_scope()

    def logits(self, sequences: Contents) -> Floats:
        """Logits (m x classes) in float64; every sequence counts as a query, a repeat as a hit too."""
        contents = Ragged.of(sequences)
        self._ledger.ask(len(contents))
        classes = len(self._backend.class_names)
        if not len(contents):
            return np.empty((0, classes))
        keys = contents.keys()
        self._ledger.record(keys[:, 0].copy())
        rows, places = distinct(keys, contents.lengths)
        keys = keys.take(rows, axis=0)
        known = {} if self._cache is None else self._cache.known(keys)
        self._ledger.count(hits=len(contents) - len(rows) + len(known))
        if not known:
            return self._answer(keys, contents, rows).take(places, axis=0)
        answers, unknown = np.empty((len(rows), classes)), np.ones(len(rows), np.bool_)
        unknown[list(known)] = False
        answers[~unknown] = list(known.values())
        if len(known) < len(rows):
            answers[unknown] = self._answer(keys[unknown], contents, rows[unknown])
        return answers.take(places, axis=0)

    def _answer(self, keys: Keys, contents: Ragged, rows: Ints) -> Floats:
        """The answers of a set that this scope has not seen: from the memory of whole sets, or computed."""
        if self._cache is None:
            return self._compute(whole(self._backend, contents, rows))
        name = self._cache.name(keys)
        if (known := self._cache.get_set(name)) is not None:
            answers, cost = known
            self._ledger.charge(cost)
        else:
            with self._ledger.work() as cost:
                answers = self._compute(whole(self._backend, contents, rows))
            self._cache.put_set(name, answers, cost)
        self._cache.remember(keys, answers)
        return answers

    def _compute(self, sequences: Ragged) -> Floats:
        """Whole sequences, sorted by falling length, batch after batch; smaller ones from where memory ran out."""
        out = np.empty((len(sequences), len(self._backend.class_names)))
        done = 0
        while done < len(sequences):
            rest = sequences[done:]
            for part in pack(rest.lengths, self._budget.tokens, pads=self._backend.pads):
                try:
                    out[done : done + part.stop - part.start] = self._batch(rest[part])
                except OutOfMemory as error:
                    self._halve(rest.lengths[part], error)
                    break
                done += part.stop - part.start
        return out

    def _batch(self, sequences: Ragged) -> NDArray[np.floating]:
        with self._ledger.model_time():
            logits = self._backend.logits(sequences)
        if not np.isfinite(logits).all():
            raise InvalidInput(f"model {self._backend.name} returned a logit that is not a finite number")
        count, real = len(sequences), len(sequences.ids)
        padding = count * int(sequences.lengths[0]) - real if self._backend.pads else 0
        self._ledger.count(forwards=count, batches=1, tokens=real, padding=padding)
        return logits

    def _halve(self, lengths: Ints, error: OutOfMemory) -> None:
        if len(lengths) == 1:
            raise single_sequence(int(lengths[0]), self._backend.device) from error
        self._budget.halve(lengths)
