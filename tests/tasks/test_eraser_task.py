"""ERASER movies by hand: spans by word number become marks, marks follow sub-tokens and fall with a cut, bad files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slalom_bench.core.tokens import WordTokens, encode
from slalom_bench.data import sources
from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput
from slalom_bench.tasks import eraser

GOOD = "a film .\nbut what a joy it is , really ."
BAD = "dull , dull and long .\nnot for me ."


def span(name: str, start: int, end: int, text: str) -> dict[str, Any]:
    return {
        "docid": name,
        "start_token": start,
        "end_token": end,
        "start_sentence": -1,
        "end_sentence": -1,
        "text": text,
    }


def record(name: str, label: str, *spans: dict[str, Any]) -> dict[str, Any]:
    return {"annotation_id": name, "classification": label, "evidences": [[one] for one in spans], "query": "?"}


def write(folder: Path, file: str, *records: dict[str, Any], **documents: str) -> None:
    (folder / "eraser_movies" / "docs").mkdir(parents=True, exist_ok=True)
    (folder / "eraser_movies" / file).write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    for name, text in documents.items():
        (folder / "eraser_movies" / "docs" / f"{name}.txt").write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(
        tmp_path,
        "test.jsonl",
        record("good.txt", "POS", span("good.txt", 4, 7, "what a joy"), span("good.txt", 10, 11, "really")),
        record("bad.txt", "NEG", span("bad.txt", 2, 5, "dull and long"), span("bad.txt", 3, 3, "")),
        record("none.txt", "NEG"),
        good=GOOD,
        bad=BAD,
        none="no reason given",
    )
    write(tmp_path, "train.jsonl", record("t1.txt", "POS"), record("t2.txt", "NEG"), t1="lovely", t2=BAD)
    write(tmp_path, "val.jsonl", record("t1.txt", "POS"))
    return tmp_path


def test_spans_become_marks_of_whitespace_words(folder: Path) -> None:
    task = load_task("eraser-movies", data_dir=folder)
    found = {e.text: (e.label, "".join(str(int(mark)) for mark in e.word_marks or ())) for e in task.evaluation}
    assert found == {
        "a film . but what a joy it is , really .": (1, "000011100010"),
        "dull , dull and long . not for me .": (0, "0011100000"),
    }
    assert [(e.text, e.label, e.word_marks) for e in task.train] == [("lovely", 1, None)]
    assert (
        "dropped: 0 repeated, 1 without a rationale, 1 repeated training and validation reviews, 1 of them that are"
        in task.source.note
    )
    assert [e.id for e in task.evaluation] == sorted(e.id for e in task.evaluation)


def test_a_cut_takes_the_marks_with_it_and_counts_them(folder: Path) -> None:
    good = next(e for e in load_task("eraser-movies", data_dir=folder).evaluation if "joy" in e.text)
    sample = encode(WordTokens(["a", "film"]), good, 6)
    assert sample.marks is not None
    assert sample.marks.tolist() == [False] * 4 + [True] * 2
    assert (sample.truncated, sample.marks_cut) == (6, 2)
    assert encode(WordTokens(["a"]), good, None).marks_cut == 0


def test_the_hubs_copy_finds_passages_by_their_words(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that `datasets` loads stands for the hub, whose records have passages without places."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    splits = {
        "test": [
            {"review": GOOD, "label": 1, "evidences": ["what a joy", "really"]},
            {"review": BAD, "label": 0, "evidences": ["dull and long"]},
        ],
        "train": [{"review": "lovely", "label": 1, "evidences": ["lovely"]}],
        "validation": [{"review": "lovely", "label": 1, "evidences": ["lovely"]}],
    }
    (tmp_path / "hub").mkdir()
    for name, rows in splits.items():
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "hub" / f"{name}.parquet")
    for name in sources.OFFLINE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "probe", lambda repository: "")
    monkeypatch.setattr(eraser, "HUB", str(tmp_path / "hub"))
    (tmp_path / "empty").mkdir()
    task = load_task("eraser-movies", data_dir=tmp_path / "empty")
    assert task.source.kind == "hub"
    assert task.source.content_hash == load_task("eraser-movies", data_dir=folder).source.content_hash


def test_a_passage_that_stands_twice_is_marked_twice() -> None:
    row = {"review": "so so , so so", "label": "POS", "evidences": ["so so"]}
    assert eraser._review(row, "here")[2] == (True, True, False, True, True)
    with pytest.raises(InvalidInput, match="here: the rationale 'so good' does not stand in its review"):
        eraser._review({**row, "evidences": ["so good"]}, "here")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (record("good.txt", "POS", span("good.txt", 4, 99, "x")), "row 1: a span from word 4 to 99 of a review of 12"),
        (record("good.txt", "POS", span("good.txt", 0, 1, "the")), "words 0 to 1 are 'a', the span says 'the'"),
        (record("good.txt", "POS", span("bad.txt", 0, 1, "a")), "a span of another document, 'bad.txt'"),
        (record("gone.txt", "POS"), "record 'gone.txt' has no document in docs/"),
        (record("../test.jsonl", "POS"), "has no document in docs/"),
        (record("good.txt", "MAYBE"), "row 1: label 'MAYBE' is outside the classes 0 .negative."),
        (record("none.txt", "NEG"), "has a rationale"),
        ({"annotation_id": "good.txt", "classification": "POS"}, "no column 'evidences'"),
        (record("good.txt", "POS") | {"evidences": [["here"]]}, "'here' is no span of a document"),
    ],
)
def test_bad_records_are_named(folder: Path, bad: dict[str, Any], says: str) -> None:
    write(folder, "test.jsonl", bad)
    with pytest.raises(InvalidInput, match=says):
        load_task("eraser-movies", data_dir=folder)


def test_no_files_are_answered_with_the_remedies(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no eraser_movies/test.jsonl[\s\S]*unpack ERASER's movies"):
        load_task("eraser-movies", data_dir=tmp_path)


def test_the_real_files(data_dir: Path) -> None:
    if not (data_dir / "eraser_movies").is_dir():
        pytest.skip("the data directory has no eraser_movies")
    task = load_task("eraser-movies", data_dir=data_dir)
    assert (len(task.evaluation), len(task.train)) == (199, 1799)
    shares = [sum(e.word_marks) / len(e.word_marks) for e in task.evaluation if e.word_marks]
    assert 0.30 < sum(shares) / len(shares) < 0.33
