"""Reading what a stranger's file says: regular, of bounded size, depth and numbers, every key once, nothing unknown."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from slalom_bench.core.safe_text import line
from slalom_bench.errors import InvalidInput
from slalom_bench.running.identity import Record

LARGEST_FILE = 20_000_000
DEEPEST = 20
"""Brackets inside each other: a submission has eight."""
CONTAINERS = (dict, list)
DIGITS = 18
LARGEST = 1e50
"""Whole numbers of more digits and numbers beyond this are refused: their squares must not overflow."""
R = TypeVar("R", bound=Record)


def read_record(path: Path, cls: type[R], command: str) -> R:
    """A file as a record, or an error that says what in it is wrong and where.

    Args:
        path: the file.
        cls: what it should be; its `schema_version` says which schema is read.
        command: the command that writes such files.
    """
    kind = cls.__name__.lower()
    try:
        data = json.loads(
            _text(path, kind, command),
            parse_constant=_refuse,
            parse_int=_integer,
            parse_float=_number,
            object_pairs_hook=_once,
        )
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; give a file that `slalom-bench {command}` wrote") from error
    except RecursionError as error:
        raise InvalidInput(f"{path}: nested too deeply for a {kind}") from error
    except ValueError as error:
        raise InvalidInput(f"{path}: not JSON in UTF-8: {error}") from error
    schema = data.get("schema_version") if isinstance(data, dict) else None
    reads = cls.model_fields["schema_version"].default
    if schema != reads:
        raise InvalidInput(
            f"{path}: schema_version is {repr(schema)[:20]}, this version reads {reads}; {command} it again"
        )
    if _depth(data) > DEEPEST:
        raise InvalidInput(f"{path}: nested too deeply for a {kind}")
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        wrong = [line(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}")[:300] for e in error.errors()[:8]]
        wrong += [f"and {error.error_count() - 8} more"] if error.error_count() > 8 else []
        raise InvalidInput(f"{path}: not a {kind}: {'; '.join(wrong)}") from error


def _text(path: Path, kind: str, command: str) -> str:
    """What a regular file says; what it is, is asked of the open file, so that it cannot be changed in between."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInput(f"{path}: not a file; give one that `slalom-bench {command}` wrote")
        if found.st_size > LARGEST_FILE:
            raise InvalidInput(f"{path}: more than {LARGEST_FILE:,} bytes is no {kind}")
        return file.read(LARGEST_FILE + 1).decode("utf-8")


def _depth(data: Any) -> int:
    """How many lists and objects are inside each other."""
    level, depth = [data] if isinstance(data, CONTAINERS) else [], 0
    while level:
        inner = [part.values() if isinstance(part, dict) else part for part in level]
        level = [value for values in inner for value in values if isinstance(value, CONTAINERS)]
        depth += 1
        if depth > DEEPEST:
            break
    return depth


def _integer(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if abs(value) > LARGEST:
        raise ValueError(f"{text[:20]} is no finite number below {LARGEST:g}")
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: a second `mean` could hide the first from a reviewer."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is given twice in an object")
    return made
