"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place beside a file to write it to, renamed over it when the block ends, removed when the block raises.

    Nobody can guess the name, so that no link can lie in wait there.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    place = path.with_name(f".{path.name[:80]}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield place
        place.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str, *, forced: bool = True) -> None:
    """A text file, the whole of it or nothing, forced to the disk unless that is left to `force`."""
    with replacing(path) as place, place.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        if forced:
            os.fsync(file.fileno())


def force(path: Path) -> None:
    """Force a file to the disk."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())
