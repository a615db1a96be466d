"""Every way a table can be bad has an answer that names the place and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from slalom_bench.data.tables import as_integer, parse_label, read_rows
from slalom_bench.errors import InvalidInput


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_csv_keeps_quoted_commas_line_breaks_and_drops_a_byte_order_mark(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", b'\xef\xbb\xbftext,label\r\n"one, ""two""\nthree",1\r\n\r\nfour,0\r\n')
    assert read_rows(file, ("text", "label")) == [
        {"text": 'one, "two"\nthree', "label": "1"},
        {"text": "four", "label": "0"},
    ]


def test_csv_fields_may_be_longer_than_the_csv_module_allows_by_default(tmp_path: Path) -> None:
    text = "word " * 40_000
    assert read_rows(write(tmp_path / "long.csv", f"text\n{text}\n"), ("text",)) == [{"text": text}]


def test_three_formats_give_the_same_rows(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"text": "a b", "label": "0"}, {"text": "c\nd é", "label": "1"}]
    pq.write_table(pa.Table.from_pylist([{**row, "more": 1} for row in rows]), tmp_path / "a.parquet")
    write(tmp_path / "a.csv", 'text,label\na b,0\n"c\nd é",1\n')
    write(tmp_path / "a.jsonl", '{"text": "a b", "label": "0"}\n\n{"text": "c\\nd é", "label": "1"}\n')
    for name in ("a.parquet", "a.csv", "a.jsonl"):
        assert read_rows(tmp_path / name, ("text", "label")) == rows


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "review,stars\ngood,1\n", r"no column 'text', 'label'; it has: review, stars"),
        ("a.csv", "text,label\n", "no rows"),
        ("a.csv", "", "no rows"),
        ("a.csv", "text,label\ngood,1\nbad, really,0\n", "row 2 has 3 fields, not 2"),
        ("a.csv", "text,label,text\na,1,b\n", "more than one column 'text'"),
        ("a.csv", b"text,label\ngood,1\ncaf\xe9,0\n", r"not UTF-8: byte 0xe9 at offset 21, line 3; .*iconv"),
        ("a.jsonl", b'{"text": "caf\xe9"}', "byte 0xe9"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', r"row 2 has no 'label'; it has: \['text'\]"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', "line 2 is not JSON"),
        ("a.jsonl", "[1]\n", "line 1 is a JSON list"),
        ("a.parquet", "PAR1 not really", "not a readable parquet file"),
        ("a.xlsx", "x", r"must be one of \.parquet, \.csv, \.tsv, \.jsonl"),
    ],
)
def test_bad_files_are_named_with_the_place(tmp_path: Path, name: str, content: str | bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as raised:
        read_rows(write(tmp_path / name, content), ("text", "label"))
    assert name in str(raised.value)


def test_missing_parquet_columns_are_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([{"review": "x", "y": 1}]), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="no column 'text'; it has: review, y"):
        read_rows(tmp_path / "a.parquet", ("text",))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no such file: .*nowhere\.csv"):
        read_rows(tmp_path / "nowhere.csv", ("text",))


def test_labels_are_names_first_and_indices_second() -> None:
    assert [parse_label(value, ("no", "yes"), "x") for value in ("no", 0, "0.0", False)] == [0] * 4
    assert [parse_label(value, ("no", "yes"), "x") for value in (" yes ", "1", 1.0, True)] == [1] * 4
    assert parse_label("1", ("1", "2", "3"), "x") == 0


@pytest.mark.parametrize("bad", [2, -1, "maybe", 0.5, None, "", float("nan"), float("inf")])
def test_labels_outside_the_classes_are_refused_with_the_classes(bad: object) -> None:
    with pytest.raises(InvalidInput, match=r"file.csv: row 7: label .* outside the classes 0 \(no\), 1 \(yes\)"):
        parse_label(bad, ("no", "yes"), "file.csv: row 7")


def test_integers_in_their_spellings() -> None:
    assert [as_integer(v) for v in (3, "3", "3.0", 3.5, "x", None)] == [3, 3, 3, None, None, None]
