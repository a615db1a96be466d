"""Remembering answers without changing a bit of any later one."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from slalom_bench.core.sequences import Keys
from slalom_bench.core.types import Cost, Floats


class QueryCache:
    """Answers of one model, in two tiers, so that what was asked before never changes a bit of an answer.

    Floating point makes an answer depend, in its last bits, on the batch it was computed in. Inside one `scope`
    (one sample of one cell) single sequences are remembered. Across scopes only whole sets are: a set of unknown
    sequences is answered from memory if exactly that set was computed before. An interrupted run that resumes with
    an empty cache therefore computes the same batches, and the same bits, as one that never stopped.

    Args:
        limit: the most answers of each tier.
    """

    def __init__(self, limit: int = 4_000_000) -> None:
        self.limit = limit
        self._sets: OrderedDict[bytes, tuple[Floats, Cost]] = OrderedDict()
        self._held = 0
        self.new_scope()

    def new_scope(self) -> None:
        """Forget single sequences; whole sets are kept."""
        self._scope: dict[bytes, list[float]] = {}
        self._recent: list[tuple[Keys, Floats]] = []
        self._seen = 0

    def known(self, keys: Keys) -> dict[int, list[float]]:
        """The answers of those rows that this scope has seen."""
        for recent, answers in self._recent:
            self._scope.update(zip(_names(recent), answers.tolist(), strict=True))
        self._recent = []
        if not self._scope:
            return {}
        return {row: self._scope[name] for row, name in enumerate(_names(keys)) if name in self._scope}

    def remember(self, keys: Keys, answers: Floats) -> None:
        """Into the scope, sorted in when it is next asked; a full one starts afresh, which costs queries only."""
        if self._seen + len(keys) > self.limit:
            self.new_scope()
        self._recent.append((keys, answers))
        self._seen += len(keys)

    def get_set(self, name: bytes) -> tuple[Floats, Cost] | None:
        """The answers of exactly the set of this name, and what they cost when they were computed."""
        if name in self._sets:
            self._sets.move_to_end(name)
        return self._sets.get(name)

    def put_set(self, name: bytes, answers: Floats, cost: Cost) -> None:
        """Keep a set's answers across scopes; the sets that were least recently asked for make room."""
        self._sets[name] = (answers, cost)
        self._held += len(answers)
        while self._held > self.limit:
            _, (dropped, _) = self._sets.popitem(last=False)
            self._held -= len(dropped)

    @staticmethod
    def name(keys: Keys) -> bytes:
        """Of a set, by its keys in their order."""
        return hashlib.blake2b(keys.tobytes(), digest_size=16).digest()


def _names(keys: Keys) -> list[bytes]:
    names: list[bytes] = keys.view("V16")[:, 0].tolist()
    return names
