"""Reading the rows of a CSV, TSV, JSONL or parquet file, with an answer to every way such a file can be bad."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from slalom_bench.core.json_text import parse_json
from slalom_bench.errors import InvalidInput

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl")
Row = dict[str, Any]


def read_rows(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), header: Sequence[str] | None = None
) -> list[Row]:
    """The rows of a CSV, TSV, JSONL or parquet file.

    Args:
        path: the file; its suffix says which kind it is.
        columns: those it must have; a missing one is named with those there.
        optional: those that are read too where they are there.
        header: names of the columns of a CSV or TSV file that has no line of them.
    """
    if not path.is_file():
        raise InvalidInput(f"no such file: {path}")
    readers: dict[str, Callable[[Path, Sequence[str]], tuple[list[str], list[Row]]]] = {
        ".parquet": _parquet,
        ".csv": partial(_csv, header=header),
        ".tsv": partial(_csv, header=header, delimiter="\t"),
        ".jsonl": _jsonl,
    }
    if path.suffix.lower() not in readers:
        raise InvalidInput(f"{path.name}: cannot read this kind of file; it must be one of {', '.join(readers)}")
    present, rows = readers[path.suffix.lower()](path, (*columns, *optional))
    if not rows:
        raise InvalidInput(f"{path.name}: the file has no rows")
    if missing := [column for column in columns if column not in present]:
        raise InvalidInput(f"{path.name}: no column {', '.join(map(repr, missing))}; it has: {', '.join(present)}")
    if repeated := [column for column in columns if present.count(column) > 1]:
        raise InvalidInput(f"{path.name}: more than one column {repeated[0]!r}; rename one of them")
    for number, row in enumerate(rows, 1):
        if missing := [column for column in columns if column not in row]:
            raise InvalidInput(f"{path.name}: row {number} has no {', '.join(map(repr, missing))}; it has: {list(row)}")
    return rows


def _parquet(path: Path, columns: Sequence[str]) -> tuple[list[str], list[Row]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        present = file.schema_arrow.names
        wanted = [column for column in columns if column in present]
        return present, file.read(columns=wanted or None).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"{path.name}: not a readable parquet file: {error}") from error


def _csv(
    path: Path, columns: Sequence[str], header: Sequence[str] | None, delimiter: str = ","
) -> tuple[list[str], list[Row]]:
    text = read_text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[Row] = []
    try:
        names = next(lines, []) if header is None else list(header)
        for number, fields in enumerate((line for line in lines if line), 1):
            if len(fields) != len(names):
                raise InvalidInput(
                    f"{path.name}: row {number} has {len(fields)} fields, not {len(names)}; "
                    f"quote texts that contain {'tabs' if delimiter != ',' else 'commas'} or line breaks"
                )
            rows.append(dict(zip(names, fields, strict=True)))
    except csv.Error as error:
        raise InvalidInput(f"{path.name}: line {lines.line_num} is not CSV: {error}") from error
    return names, rows


def _jsonl(path: Path, columns: Sequence[str]) -> tuple[list[str], list[Row]]:
    rows: list[Row] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            raise InvalidInput(f"{path.name}: line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InvalidInput(f"{path.name}: line {number} is a JSON {type(row).__name__}, not an object")
        rows.append(row)
    return list(dict.fromkeys(key for row in rows for key in row)), rows


def read_text(path: Path) -> str:
    """The decoded file, or an error that says which byte of which line is not UTF-8 and how to convert it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{path.name}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}, line {line}; "
            f"convert it, e.g. `iconv -f WINDOWS-1252 -t UTF-8 {path.name} > utf8_{path.name}`"
        ) from error


def parse_label(value: Any, class_names: Sequence[str], where: str) -> int:
    """A class index from a class name or an index; anything else is refused with the classes named.

    >>> parse_label("positive", ("negative", "positive"), "row 1"), parse_label(0.0, ("negative", "positive"), "row 2")
    (1, 0)
    """
    text = str(int(value) if isinstance(value, bool) else value).strip()
    if text in class_names:
        return class_names.index(text)
    index = as_integer(text)
    if index is None or not 0 <= index < len(class_names):
        known = ", ".join(f"{i} ({name})" for i, name in enumerate(class_names))
        raise InvalidInput(f"{where}: label {value!r} is outside the classes {known}")
    return index


def as_integer(value: Any) -> int | None:
    """The integer that a cell spells, else None.

    >>> as_integer("3"), as_integer(3.0), as_integer("3.5")
    (3, 3, None)
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() else None
