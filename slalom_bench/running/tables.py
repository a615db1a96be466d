"""Tables of a store for readers: read when they are looked at, and let go when others need the room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import ItemsView, Iterator, Mapping
from pathlib import Path
from typing import Any

from slalom_bench.running.records import is_failed
from slalom_bench.running.store import Rows

ROOM = 64_000_000
"""Bytes of files whose rows are held at once, over all tables of a process; as objects they are several times that."""

_held: OrderedDict[Path, tuple[int, dict[str, dict[str, Any]]]] = OrderedDict()


class Table(Mapping[str, Mapping[str, Any]]):
    """The rows of one file by id. Of many tables those that were looked at last are in memory, the others on the disk.

    A large run is read with the memory of a small one: what was let go is read again when it is asked for.
    """

    def __init__(self, rows: Rows) -> None:
        self._path, self._shape = rows.path, rows.shape
        self._failed: dict[str, dict[str, Any]] | None = None

    def _rows(self) -> dict[str, dict[str, Any]]:
        if self._path in _held:
            _held.move_to_end(self._path)
            return _held[self._path][1]
        size = self._path.stat().st_size if self._path.exists() else 0
        rows = Rows(self._path, self._shape).rows
        self._failed = {name: row for name, row in rows.items() if is_failed(row)}
        _held[self._path] = size, rows
        while len(_held) > 1 and sum(held for held, _ in _held.values()) > ROOM:
            _held.popitem(last=False)
        return rows

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return self._rows()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())

    def items(self) -> ItemsView[str, Mapping[str, Any]]:
        """Every row with its id, the file looked for once and not for each."""
        return self._rows().items()

    def failed(self) -> Mapping[str, Mapping[str, Any]]:
        """The rows that are errors: kept from the first look on, since they are few and often asked for."""
        if self._failed is None:
            self._rows()
        return self._failed or {}


def forget() -> None:
    """Let go of every table: what is on the disk may have changed."""
    _held.clear()
