"""Packing sequences of mixed length into batches, and remembering answers without changing them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slalom_bench.types import Ints

PADDING_SHARE = 0.02
"""A batch that is at least a quarter full is closed rather than padded by more than this."""


def digest(sequence: Ints) -> bytes:
    """A short key of one id sequence."""
    return hashlib.blake2b(np.ascontiguousarray(sequence, np.int64).data, digest_size=16).digest()


def pack(lengths: Sequence[int], token_budget: int, *, pads: bool = True) -> Iterator[slice]:
    """Cut sequences sorted by falling length into batches of at most `token_budget` tokens, padding included.

    A single sequence longer than the budget is a batch of its own.
    """
    start, real = 0, 0
    for i, length in enumerate(lengths):
        size = lengths[start] * (i - start + 1) if pads else real + length
        full = size > token_budget
        ragged = size - (real + length) > PADDING_SHARE * size and 4 * real >= token_budget
        if i > start and (full or ragged):
            yield slice(start, i)
            start, real = i, 0
        real += length
    if start < len(lengths):
        yield slice(start, len(lengths))


class QueryCache:
    """Answers of one model, in two tiers, so that what was asked before never changes a bit of an answer.

    Floating point makes an answer depend, in its last bits, on the batch it was computed in. Inside one `scope`
    (one sample of one cell) single sequences are remembered. Across scopes only whole sets are: a set of unknown
    sequences is answered from memory if exactly that set was computed before. An interrupted run that resumes with
    an empty cache therefore computes the same batches, and the same bits, as one that never stopped.
    """

    def __init__(self, limit: int = 4_000_000) -> None:
        self.limit = limit
        self._scope: dict[bytes, NDArray[np.float64]] = {}
        self._sets: OrderedDict[bytes, tuple[NDArray[np.float64], float]] = OrderedDict()
        self._held = 0

    def new_scope(self) -> None:
        self._scope = {}

    def known(self, keys: Iterable[bytes]) -> dict[bytes, NDArray[np.float64]]:
        """The answers of those that this scope has seen."""
        return {key: self._scope[key] for key in keys if key in self._scope}

    def remember(self, keys: Sequence[bytes], answers: NDArray[np.float64]) -> None:
        """Into the scope; a full scope starts afresh, which costs queries and nothing else."""
        if len(self._scope) + len(keys) > self.limit:
            self._scope = {}
        self._scope.update(zip(keys, answers, strict=True))

    def get_set(self, keys: Sequence[bytes]) -> tuple[NDArray[np.float64], float] | None:
        """The answers of exactly this set, and the model seconds that they took."""
        name = self._name(keys)
        if name in self._sets:
            self._sets.move_to_end(name)
        return self._sets.get(name)

    def put_set(self, keys: Sequence[bytes], answers: NDArray[np.float64], seconds: float) -> None:
        self._sets[self._name(keys)] = (answers, seconds)
        self._held += len(answers)
        while self._held > self.limit:
            _, (dropped, _) = self._sets.popitem(last=False)
            self._held -= len(dropped)

    @staticmethod
    def _name(keys: Sequence[bytes]) -> bytes:
        return hashlib.blake2b(b"".join(keys), digest_size=16).digest()
