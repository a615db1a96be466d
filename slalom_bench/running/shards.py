"""Parts of a run that are computed apart, by any scheduler, each into a directory of its own."""

from __future__ import annotations

import re
from pathlib import Path

from slalom_bench.errors import InvalidInput

Shard = tuple[int, int]
WHOLE: Shard = (1, 1)


def parse_shard(text: str | None) -> Shard:
    """The part of `I/N`; the whole where nothing is said.

    >>> parse_shard("3/8")
    (3, 8)
    """
    if text is None:
        return WHOLE
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InvalidInput(f"--shard {text!r}: I/N with I from 1 to N, as in 3/8")
    return int(found[1]), int(found[2])


def shard_directory(directory: Path, shard: Shard) -> Path:
    """Where a part of a run goes unless told otherwise.

    >>> shard_directory(Path("imdb"), (3, 8)).name
    'imdb-3of8'
    """
    return directory if shard == WHOLE else directory.with_name(f"{directory.name}-{shard[0]}of{shard[1]}")
