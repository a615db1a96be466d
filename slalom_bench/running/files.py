"""Files that are whole or not there: written beside their place and renamed, by one way for everything."""

from __future__ import annotations

import errno
import json
import stat
from pathlib import Path
from typing import Any

from slalom_bench.core.writing import write_whole
from slalom_bench.errors import StoreError
from slalom_bench.running.shapes import parse_stored

SCHEMA = 3
"""Goes up when the layout changes; directories of another schema are refused, and left as they are."""


def write_json(path: Path, data: Any, *, forced: bool = True) -> None:
    """Data as a JSON file, the whole of it or nothing."""
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False), forced=forced)


def write_text(path: Path, text: str, *, forced: bool = True) -> None:
    """The whole file or nothing; one that cannot be written is an error with the remedy."""
    try:
        write_whole(path, text, forced=forced)
    except OSError as error:
        raise write_error(path, error) from error


def sweep(path: Path) -> None:
    """Remove what a killed process left of writing this file; only for who holds its lock."""
    for left in path.parent.glob(f".{path.name}.????????????.tmp"):
        left.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """The data of a JSON file; one that cannot be read is an error with the remedy."""
    try:
        return parse_stored(read_bytes(path))
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {path}: {error}; restore it, or start anew with another --out") from error


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; what is none (a pipe, a device) could be read for ever, and is an OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a file", str(path))
    return path.read_bytes()


def write_error(path: Path, error: OSError) -> StoreError:
    """What to say of a file that cannot be written."""
    return StoreError(
        f"cannot write {path}: {error.strerror or error}. What was finished before is kept: "
        "make room (or choose another --out) and run the same command again"
    )
