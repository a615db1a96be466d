"""Content hashes that make two copies of a data set the same, and the split into evaluation and training examples."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from slalom_bench.core.types import Example
from slalom_bench.data.tables import Row, parse_label
from slalom_bench.errors import InvalidInput

_SPLITS = ("auto", "official", "hash")


def _normalise(text: str) -> str:
    """The text without line-break markup and with single spaces: what duplicates and the hash split compare."""
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def text_hash(text: str) -> str:
    """sha256 of the normalised text: the same for every container a text may come in.

    >>> text_hash("Great<br />fun") == text_hash(" Great  fun")
    True
    """
    return hashlib.sha256(_normalise(text).encode("utf-8", "surrogatepass")).hexdigest()


def is_held_out(text: str) -> bool:
    """Whether the hash split keeps a training text for evaluation: about one in five, the same everywhere."""
    return _held_out(text_hash(text))


def _held_out(digest: str) -> bool:
    return int(digest[:8], 16) % 5 == 0


def distinct(texts: Iterable[tuple[str, int]]) -> dict[str, Example]:
    """Examples by text hash, in hash order: a fixed shuffle. A text that comes more than once is kept once.

    >>> [example.text for example in distinct([("b", 0), ("a", 1), ("b", 0)]).values()]
    ['b', 'a']
    """
    examples: dict[str, Example] = {}
    for digest, text, label in sorted((text_hash(text), text, label) for text, label in texts):
        examples.setdefault(digest, Example(digest[:16], text, label))
    return examples


def labelled(rows: Sequence[Row], class_names: Sequence[str], where: str) -> list[tuple[str, int]]:
    """Text and class index of each row; an empty text or a label outside the classes is named by its row."""
    pairs = []
    for number, row in enumerate(rows, 1):
        text = row["text"]
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"{where}: row {number} has an empty text; remove the row")
        pairs.append((text, parse_label(row["label"], class_names, f"{where}: row {number}")))
    return pairs


def split_texts(
    task: str, rows: Mapping[str, Sequence[Row]], class_names: Sequence[str], split: str
) -> tuple[tuple[Example, ...], tuple[Example, ...], str]:
    """Evaluation and training examples and a note on what was dropped; no text is in both, none comes twice.

    Args:
        task: the task's name, for errors.
        rows: by split, `train` and perhaps `test`, each with `text` and `label`.
        class_names: in the order of the class indices.
        split: `official` (test rows against train rows), `hash` (train rows alone, by `is_held_out`) or `auto`
            (official where there are test rows).

    Returns:
        Evaluation examples, training examples, note.
    """
    if split not in _SPLITS:
        raise InvalidInput(f"{task}: split must be one of {', '.join(_SPLITS)}, not {split!r}")
    if split == "official" and "test" not in rows:
        raise InvalidInput(f"{task}: split=official needs test texts, and this source has none; use split=hash")
    train = distinct(labelled(rows["train"], class_names, f"{task} train"))
    repeated = len(rows["train"]) - len(train)
    if split == "hash" or "test" not in rows:
        evaluation = tuple(example for digest, example in train.items() if _held_out(digest))
        training = tuple(example for digest, example in train.items() if not _held_out(digest))
        return (
            evaluation,
            training,
            (
                f"training texts only, split by a hash of the text into {len(training)} for training and "
                f"{len(evaluation)} for evaluation; dropped: {repeated} repeated texts"
            ),
        )
    test = distinct(labelled(rows["test"], class_names, f"{task} test"))
    evaluation = tuple(example for digest, example in test.items() if digest not in train)
    return (
        evaluation,
        tuple(train.values()),
        (
            f"official splits; dropped: {repeated} repeated training texts, {len(rows['test']) - len(test)} repeated "
            f"test texts, {len(test) - len(evaluation)} test texts that are also training texts"
        ),
    )


def content_hash(*splits: Iterable[Example]) -> str:
    """sha256 over texts, labels, marks and pairs of each split, sorted: independent of file format and row order."""
    total = hashlib.sha256()
    for split in splits:
        for record in sorted(_records(split)):
            total.update(record)
        total.update(b"--")
    return total.hexdigest()


def _records(examples: Iterable[Example]) -> Iterator[bytes]:
    for example in examples:
        marks = "" if example.word_marks is None else "".join("01"[mark] for mark in example.word_marks)
        shares = () if example.word_shares is None else (" ".join(f"{share:.6g}" for share in example.word_shares),)
        pair = () if example.counterpart is None else (example.counterpart,)
        record = "\0".join((example.text, str(example.label), marks, *shares, *pair))
        yield hashlib.sha256(record.encode("utf-8", "surrogatepass")).digest()
