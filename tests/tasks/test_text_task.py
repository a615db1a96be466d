"""The user's own file: labelled or not, two or more classes, marks; and what every kind of bad row is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slalom_bench.core.types import TaskData
from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def load(path: Path, **params: Any) -> TaskData:
    return load_task(f"text:{path}", params)


def by_text(task: TaskData) -> dict[str, Any]:
    return {e.text: e.label for e in task.evaluation}


def test_labels_as_indices(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("text,label\ngood one,1\nbad one,0\nworse,0.0\n")
    task = load(tmp_path / "mine.csv")
    assert by_text(task) == {"good one": 1, "bad one": 0, "worse": 0}
    assert task.class_names == ("0", "1")
    assert (task.task, task.source.kind, task.source.name) == ("text:mine.csv", "file", "mine.csv")
    assert [e.id for e in task.evaluation] == sorted(e.id for e in task.evaluation)


def test_labels_as_names_of_three_classes(tmp_path: Path) -> None:
    rows = [{"body": "a b", "mood": "sad"}, {"body": "c", "mood": "calm"}, {"body": "d", "mood": "glad"}]
    task = load(jsonl(tmp_path / "m.jsonl", rows), text_column="body", label_column="mood")
    assert task.class_names == ("calm", "glad", "sad")
    assert by_text(task) == {"a b": 2, "c": 0, "d": 1}
    ordered = load(tmp_path / "m.jsonl", text_column="body", label_column="mood", class_names="sad|calm|glad")
    assert by_text(ordered) == {"a b": 0, "c": 1, "d": 2}


def test_unlabelled_and_partly_labelled(tmp_path: Path) -> None:
    task = load(jsonl(tmp_path / "u.jsonl", [{"text": "one"}, {"text": "two"}]))
    assert (by_text(task), task.class_names) == ({"one": None, "two": None}, ())
    part = load(jsonl(tmp_path / "p.jsonl", [{"text": "one", "label": None}, {"text": "two", "label": 1}]))
    assert by_text(part) == {"one": None, "two": 1}
    assert "1 of 2 texts without label" in part.source.note


def test_marks_as_lists_or_json_and_ids(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    marked = {"text": "so very good", "label": 1, "key": 7, "why": [0, 1, 1]}
    rows = [marked, {"text": "no", "label": 0, "key": 8, "why": None}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "m.parquet")
    (tmp_path / "m.csv").write_text('text,label,key,why\nso very good,1,7,"[0, true, 1]"\nno,0,8,\n')
    for name in ("m.parquet", "m.csv"):
        task = load(tmp_path / name, marks_column="why", id_column="key")
        assert {e.id: e.word_marks for e in task.evaluation} == {"7": (False, True, True), "8": None}
    assert len({load(tmp_path / f"m.{s}", marks_column="why").source.content_hash for s in ("csv", "parquet")}) == 1


def test_training_texts_come_from_their_own_file_and_never_straddle(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("text,label\nshared  text,1\nown,0\nown,0\n")
    (tmp_path / "t.csv").write_text("text,label\nshared text,1\nother,0\n")
    task = load(tmp_path / "e.csv", train_file=str(tmp_path / "t.csv"))
    assert [e.text for e in task.evaluation] == ["own"]
    assert {e.text for e in task.train} == {"shared text", "other"}
    assert "dropped: 1 repeated texts, 1 texts that are also training texts" in task.source.note


@pytest.mark.parametrize(
    ("rows", "params", "says"),
    [
        ([{"review": "x"}], {}, r"d\.jsonl: no column 'text'; it has: review"),
        ([{"text": "x"}], {"label_column": "y"}, r"d\.jsonl: no column 'y'; it has: text"),
        ([{"text": "x"}], {"marks_column": "m", "id_column": "i"}, r"no column 'm', 'i'"),
        ([{"text": "x"}, {"text": " \n"}], {}, r"d\.jsonl: row 2 has an empty text"),
        ([{"text": "x"}, {"text": None}], {}, r"d\.jsonl: row 2 has an empty text"),
        ([{"text": 5}], {}, "row 1 has a text that is not a string: 5"),
        ([{"text": "x", "label": 2}], {"class_names": "a|b"}, r"row 1: label 2 is outside .* 0 \(a\), 1 \(b\)"),
        ([{"text": "x", "label": "c"}], {"class_names": ["a", "b"]}, "row 1: label 'c' is outside"),
        ([{"text": "x", "label": "c"}], {}, r"all labels are 'c'; name the classes, e\.g\. class_names=c\|other"),
        ([{"text": "x", "label": 0}], {"class_names": "one"}, r"two or more different names are needed, not \['one'\]"),
        ([{"text": "a b", "m": [1]}], {"marks_column": "m"}, "row 1: 1 marks for 2 whitespace words"),
        ([{"text": "a b", "m": [1, 2]}], {"marks_column": "m"}, "row 1: marks must be 0 or 1, not 2"),
        ([{"text": "a b", "m": "yes"}], {"marks_column": "m"}, r"row 1: marks must be a list .* not 'yes'"),
        ([{"text": "a", "i": 1}, {"text": "b", "i": 1}], {"id_column": "i"}, "rows 1 and 2 have the same id"),
        ([{"text": "a", "i": ""}], {"id_column": "i"}, "row 1 has an empty id"),
        ([{"text": "a", "label": 1}, {"text": "a", "label": 0}], {}, "rows 1 and 2 have the same text but"),
        ([], {}, "no rows"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, rows: list[dict[str, Any]], params: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        load(jsonl(tmp_path / "d.jsonl", rows), **params)


def test_a_csv_that_is_not_utf8_names_byte_line_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("text,label\ngood,1\ncafé,0\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"latin\.csv: not UTF-8: byte 0xe9 at offset 21, line 3; .*iconv"):
        load(tmp_path / "latin.csv")


def test_the_text_task_needs_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="text:FILE"):
        load_task("text")
    with pytest.raises(InvalidInput, match="no such file"):
        load(tmp_path / "nowhere.csv")
