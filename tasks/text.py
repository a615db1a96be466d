"""A task from the user's own file: `--task text:FILE`, with or without labels, classes and human marks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slalom_bench.core.hashing import short_hash
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.splits import content_hash, text_hash
from slalom_bench.data.tables import Row, as_integer, parse_label, read_rows
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task

_MOST_CLASSES = 1000


@task(
    "text",
    version=1,
    argument="file",
    source="your own CSV, JSONL or parquet file: --task text:FILE",
    licence="that of your file",
    citation="none",
    revision="the content hash of the file's texts",
)
class Text:
    """Your own texts: a CSV, JSONL or parquet file with a text column, and where there are labels and human marks.

    A text that comes more than once is kept once; one that is also in `train_file` is not evaluated.

    Choose it:
        For texts of your own.

    Example:
        A file of three lines, `text,label` and `What a joy.,positive` and `So dull.,negative`: two texts, and classes
        by name: negative is 0, positive 1. `--task text:FILE --model hf:DIR` explains what DIR says of positive.

    Args:
        file: the file; `text:FILE` sets it.
        text_column: the column of the texts.
        label_column: that of the labels; `label` where the file has one.
        marks_column: a list of 0/1 for each whitespace word, or the same as JSON.
        id_column: unless given, an id is the hash of the text.
        class_names: a list, or names with | between; unless given, they are read off the labels.
        train_file: labelled texts that may be trained on (nb-spearman needs them).
    """

    def __init__(
        self,
        file: str = "",
        text_column: str = "text",
        label_column: str | None = None,
        marks_column: str | None = None,
        id_column: str | None = None,
        class_names: str | Sequence[str] | None = None,
        train_file: str | None = None,
    ) -> None:
        self.file = file
        self.text_column = text_column
        self.label_column = label_column
        self.marks_column = marks_column
        self.id_column = id_column
        self.class_names = class_names
        self.train_file = train_file

    def load(self, data_dir: Path | None) -> TaskData:
        """The texts of the file; `data_dir` is not looked at."""
        if not self.file:
            raise InvalidInput("the text task needs a file: --task text:FILE")
        path = Path(self.file).expanduser()
        rows = self._rows(path)
        train_path = Path(self.train_file).expanduser() if self.train_file else None
        train_rows = self._rows(train_path) if train_path else []
        label_column = self.label_column or "label"
        names = self._classes([row.get(label_column) for row in (*rows, *train_rows)])
        train, repeated_train = self._examples(train_path or path, train_rows, names)
        examples, repeated = self._examples(path, rows, names)
        trained_on = {text_hash(example.text) for example in train}
        evaluation = [example for example in examples if text_hash(example.text) not in trained_on]
        if not evaluation:
            raise InvalidInput(f"{path.name}: every text is also in {self.train_file}; nothing is left to evaluate")
        unlabelled = sum(example.label is None for example in evaluation)
        note = (
            f"{unlabelled} of {len(evaluation)} texts without label; dropped: {repeated + repeated_train} repeated "
            f"texts, {len(examples) - len(evaluation)} texts that are also training texts"
        )
        content = content_hash(evaluation, train)
        if self.id_column:  # rows are filed under ids: other ids are other content
            content = short_hash([content, [example.id for example in evaluation]], 64)
        source = DataSource("file", path.name, content, note)
        return TaskData(f"text:{path.name}", source, names, tuple(evaluation), tuple(train))

    def _rows(self, path: Path) -> list[Row]:
        """The rows with the columns that were named; a label column that was not named may be missing."""
        named = [self.text_column, self.label_column, self.marks_column, self.id_column]
        return read_rows(path, [column for column in named if column], optional=("label",))

    def _classes(self, labels: Sequence[Any]) -> tuple[str, ...]:
        """The class names given, else found in the labels: indices count from 0, names are sorted; () if no labels."""
        if self.class_names:
            given = self.class_names.split("|") if isinstance(self.class_names, str) else self.class_names
            names = tuple(str(name).strip() for name in given)
            if len(names) < 2 or len(set(names)) < len(names):
                raise InvalidInput(f"class_names: two or more different names are needed, not {list(names)}")
            return names
        present = [label for label in labels if not _empty(label)]
        if not present:
            return ()
        indices = [
            index for label in present if (index := as_integer(label)) is not None and 0 <= index < _MOST_CLASSES
        ]
        if len(indices) == len(present):
            return tuple(str(index) for index in range(max(2, max(indices) + 1)))
        names = tuple(sorted({str(label).strip() for label in present}))
        if len(names) < 2:
            raise InvalidInput(f"all labels are {names[0]!r}; name the classes, e.g. class_names={names[0]}|other")
        if len(names) > _MOST_CLASSES:
            raise InvalidInput(f"{len(names)} different labels, e.g. {names[0]!r}: is this the label column?")
        return names

    def _examples(self, path: Path, rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Example], int]:
        """The examples in hash order, and how many rows repeat an earlier one."""
        by_id: dict[str, tuple[int, Example]] = {}
        for number, row in enumerate(rows, 1):
            example = self._example(f"{path.name}: row {number}", row, names)
            first, earlier = by_id.setdefault(example.id, (number, example))
            if self._conflict(earlier, example):
                raise InvalidInput(
                    f"{path.name}: rows {first} and {number} have the same {'id' if self.id_column else 'text'} "
                    f"but differ in {'content' if self.id_column else 'label or marks'}; keep one"
                )
        ordered = sorted((text_hash(example.text), key) for key, (_, example) in by_id.items())
        return [by_id[key][1] for _, key in ordered], len(rows) - len(by_id)

    def _conflict(self, one: Example, other: Example) -> bool:
        """Whether two examples of one id say different things; texts may differ in white space where no id is given."""
        return one != (other if self.id_column else replace(other, text=one.text))

    def _example(self, where: str, row: Row, names: Sequence[str]) -> Example:
        text = row[self.text_column]
        if not isinstance(text, str) or not text.strip():
            shown = "an empty text" if _empty(text) else f"a text that is not a string: {text!r}"
            raise InvalidInput(f"{where} has {shown}; remove or correct the row")
        label = row.get(self.label_column or "label")
        marks = _marks(where, row[self.marks_column], text) if self.marks_column else None
        if self.id_column and _empty(row[self.id_column]):
            raise InvalidInput(f"{where} has an empty id in column {self.id_column!r}")
        if self.id_column and re.search("[\ud800-\udfff]", str(row[self.id_column])):
            raise InvalidInput(f"{where} has an id with half a character in it, which no file can hold; correct it")
        return Example(
            id=str(row[self.id_column]) if self.id_column else text_hash(text)[:16],
            text=text,
            label=None if _empty(label) else parse_label(label, names, where),
            word_marks=marks,
        )


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _marks(where: str, value: Any, text: str) -> tuple[bool, ...] | None:
    """A list of 0/1 per whitespace word, or the same as JSON; an empty cell is a text without marks."""
    if _empty(value):
        return None
    try:
        marks = json.loads(value) if isinstance(value, str) else list(value)
        bad = [mark for mark in marks if mark not in (0, 1)]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{where}: marks must be a list of 0 and 1, e.g. [0, 1, 0], not {value!r}") from error
    words = text.split()
    if bad:
        raise InvalidInput(f"{where}: marks must be 0 or 1, not {bad[0]!r}")
    if len(marks) != len(words):
        raise InvalidInput(f"{where}: {len(marks)} marks for {len(words)} whitespace words ({' '.join(words[:5])} ...)")
    return tuple(bool(mark) for mark in marks)
