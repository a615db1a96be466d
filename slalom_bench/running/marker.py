"""The marker of a finished cell: which samples and metrics are there, and what each of its tables was then."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slalom_bench.errors import StoreError
from slalom_bench.running.files import SCHEMA, read_json, write_json
from slalom_bench.running.shapes import Done, why

NAME = "done.json"


class Marker:
    """`done.json` of a cell's folder. Its checksums tell what was lost or changed after the cell was finished."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    def read(self) -> dict[str, Any] | None:
        """What it says; None where the cell is not finished."""
        try:
            found = read_json(self.path)
        except StoreError:
            if not self.path.exists():
                return None
            raise
        try:
            Done.model_validate(found)
        except ValueError as error:
            raise StoreError(
                f"{self.path} is damaged ({why(error)}); delete it and run the same command again"
            ) from error
        return {"tables": {}, **found}

    def write(self, samples: Sequence[str], metrics: Sequence[str], tables: Sequence[Path]) -> None:
        """Say that these samples and metrics are all there, in these tables."""
        done = {
            "tables": {_name(self.path.parent, table): _checksum(table) for table in tables},
            "schema": SCHEMA,
            "samples": list(samples),
            "metrics": list(metrics),
        }
        if self.read() != done:
            write_json(self.path, done)

    def check(self) -> None:
        """Refuse tables that were changed since: what they say is not what was computed."""
        for name in self._changed():
            raise StoreError(
                f"{self.path.parent / name} was changed after its cell was finished; restore it, or compute the cell "
                "again: run its command with --mode restart"
            )

    def lost(self) -> list[str]:
        """What tables have lost since, for the rows to be computed again; anything else that changed is refused."""
        changed = self._changed()
        if any(lost <= 0 for lost in changed.values()):
            self.check()
        return [f"{name}: {lost} bytes were lost after its cell was finished" for name, lost in changed.items()]

    def _changed(self) -> dict[str, int]:
        """Tables that are not as they were, with how many bytes shorter they are."""
        said = self.read()
        found = {}
        for name, (size, digest) in (said["tables"] if said else {}).items():
            here = _checksum(self.path.parent / name)
            if here != [size, digest]:
                found[name] = size - here[0]
        # another process may have taken the cell up meanwhile
        return found if not found or self.read() == said else self._changed()


def _name(folder: Path, table: Path) -> str:
    return table.relative_to(folder).as_posix()


def _checksum(file: Path) -> list[Any]:
    """Size and sha256 of a table; of one that is not there, those of nothing."""
    data = file.read_bytes() if file.is_file() else b""
    return [len(data), hashlib.sha256(data).hexdigest()]
