"""Yelp-HAT worked out by hand: spans, annotator filter, consensus, subsets, rows that do not match; and `yelp`."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput
from slalom_bench.tasks.yelp import COLUMNS, parse_spans, subset_of


def spans(text: str, marks: str) -> str:
    """The authors' format: a span a word, class active where highlighted, one empty span at the end."""
    parts = [
        f'<span class="active">{word}</span>' if mark == "1" else "<span>" + word + "</span>"
        for word, mark in zip(text.split(), marks, strict=True)
    ]
    return " ".join([*parts, "<span></span>"])


def hat(path: Path, rows: list[tuple[object, str, str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def annotated(label: int, text: str, answer: str, marks: str) -> tuple[object, str, str, str]:
    return label, text, answer, spans(text, marks)


GOOD, BAD, LOST = "great food  and service", "awful and slow", "it was fine"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hat(
        tmp_path / "yelp_hat" / "part1(50words).csv",
        [
            annotated(1, GOOD, "yes", "1100"),
            annotated(1, GOOD, "yes", "1001"),
            annotated(1, GOOD, "yes", "1001"),
            annotated(1, GOOD, "no", "0000"),
            annotated(0, BAD, "no", "101"),
            annotated(0, BAD, "idk", "000"),
            annotated(0, BAD, "", "000"),
            annotated(1, LOST, "no", "001"),
        ],
    )
    hat(tmp_path / "yelp_hat" / "part7.csv", [annotated(1, "best pizza ever", "Yes", "110")])
    return tmp_path


def test_spans_by_hand() -> None:
    html = (
        '<span>A&amp;B</span> <span class="x active">good</span> <span class="">so-<i>so</i></span> '
        "between <span> </span>"
    )
    assert parse_spans(html) == (["A&B", "good", "so-so"], (False, True, False))
    assert parse_spans("") == ([], ())


def test_consensus_and_is_of_the_agreeing_annotators(folder: Path) -> None:
    task = load_task("yelp-hat", {"subset": "50"}, folder)
    assert {e.text: (e.label, e.word_marks) for e in task.evaluation} == {
        "great food and service": (1, (True, False, False, False)),
        "awful and slow": (0, (True, False, True)),
    }
    assert "8 annotations of 3 reviews; 4 annotations whose answer is not the label, 1 reviews left" in task.source.note
    assert "0 rows whose spans" in task.source.note
    assert task.train == ()
    assert "no training reviews" in task.source.note


def test_consensus_majority_needs_more_than_half(folder: Path, tmp_path: Path) -> None:
    task = load_task("yelp-hat", {"subset": 50, "consensus": "majority"}, folder)
    marks = {e.text: e.word_marks for e in task.evaluation}
    assert marks["great food and service"] == (True, False, False, True)
    hat(tmp_path / "even" / "yelp_hat" / "a.csv", [annotated(1, "a b", "yes", "10"), annotated(1, "a b", "yes", "11")])
    even = load_task("yelp-hat", {"consensus": "majority"}, tmp_path / "even")
    assert even.evaluation[0].word_marks == (True, False)


@pytest.mark.parametrize(("subset", "count"), [("50", 2), ("mixed", 1), ("all", 3)])
def test_subsets_by_file_name(folder: Path, subset: str, count: int) -> None:
    task = load_task("yelp-hat", {"subset": subset}, folder)
    assert len(task.evaluation) == count
    assert [e.id for e in task.evaluation] == sorted(e.id for e in task.evaluation)


def test_subset_names() -> None:
    assert [subset_of(name) for name in ("ham_part1(50words).csv", "x(100 words).csv", "ham_part8(200words).csv")] == [
        "50",
        "100",
        "200",
    ]
    assert subset_of("ham_part7.csv") == "mixed"


def test_a_subset_or_rule_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="no file of the subset 200; it has: 50, mixed"):
        load_task("yelp-hat", {"subset": "200"}, folder)
    with pytest.raises(InvalidInput, match="subset must be one of 50, 100, 200, mixed, all, not '75'"):
        load_task("yelp-hat", {"subset": 75}, folder)
    with pytest.raises(InvalidInput, match="consensus must be one of and, majority, not 'or'"):
        load_task("yelp-hat", {"consensus": "or"}, folder)


def test_rows_whose_spans_do_not_match_are_dropped_and_counted(folder: Path) -> None:
    hat(
        folder / "yelp_hat" / "part7.csv",
        [
            annotated(1, "best pizza ever", "yes", "110"),
            (1, "best pizza ever", "yes", spans("best pasta ever", "111")),
            (1, "never marked", "yes", ""),
        ],
    )
    task = load_task("yelp-hat", {"subset": "mixed"}, folder)
    assert [e.word_marks for e in task.evaluation] == [(True, True, False)]
    assert "2 rows whose spans do not match the words (first: part7.csv: row 2: 3 spans for 3 words" in task.source.note
    assert "at word 2: ['pasta', 'ever'] against ['pizza', 'ever']" in task.source.note


def test_a_file_in_which_no_row_matches_is_an_error_with_the_place(tmp_path: Path) -> None:
    hat(tmp_path / "yelp_hat" / "a.csv", [(1, "one two", "yes", spans("one", "1"))])
    with pytest.raises(InvalidInput, match=r"all 1 rows .* a.csv: row 1: 1 spans for 2 words; at word 2: \[\] against"):
        load_task("yelp-hat", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([annotated(3, "a b", "yes", "10")], r"a\.csv: row 1: label '3' is outside"),
        ([annotated(1, "a b", "yes", "10"), annotated(0, "a b", "no", "10")], r"a\.csv: row 2: label 0 of a review"),
        ([annotated(1, "a b", "no", "10")], "no review of .* has an annotator who agrees"),
    ],
)
def test_bad_annotations_are_named(tmp_path: Path, rows: list[tuple[object, str, str, str]], says: str) -> None:
    hat(tmp_path / "yelp_hat" / "a.csv", rows)
    with pytest.raises(InvalidInput, match=says):
        load_task("yelp-hat", data_dir=tmp_path)


def test_missing_columns_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no yelp_hat/\*\.csv"):
        load_task("yelp-hat", data_dir=tmp_path)
    (tmp_path / "yelp_hat").mkdir()
    (tmp_path / "yelp_hat" / "a.csv").write_text("Input.text,Answer.Q1Answer\na,yes\n")
    with pytest.raises(InvalidInput, match=r"a\.csv: no column 'Input\.label', 'Answer\.html_output'"):
        load_task("yelp-hat", data_dir=tmp_path)


def test_training_reviews_are_yelp_without_those_of_hat(folder: Path) -> None:
    (folder / "yelp").mkdir()
    (folder / "yelp" / "yelp_polarity.csv").write_text(
        f"text,label,in_hat\nnice place,1,False\nrude staff,0,False\nmarked one,1,True\n{GOOD},1,False\n"
    )
    task = load_task("yelp-hat", data_dir=folder)
    assert {(e.text, e.label) for e in task.train} == {("nice place", 1), ("rude staff", 0)}
    assert "2 training reviews from yelp/yelp_polarity.csv" in task.source.note
    without = load_task("yelp-hat", {"subset": "50"}, folder)
    assert without.source.content_hash != task.source.content_hash


def test_yelp_by_hash_or_by_official_splits(tmp_path: Path) -> None:
    (tmp_path / "yelp").mkdir()
    rows = "".join(f"review {n},{n % 2},{n < 3}\n" for n in range(200))
    (tmp_path / "yelp" / "yelp_polarity.csv").write_text("text,label,in_hat\n" + rows)
    task = load_task("yelp", data_dir=tmp_path)
    assert len(task.train) + len(task.evaluation) == 197
    assert 20 <= len(task.evaluation) <= 60
    (tmp_path / "yelp" / "train.csv").write_text("text,label\na,0\nb,1\n")
    (tmp_path / "yelp" / "test.csv").write_text("text,label\nc,0\nb,1\n")
    official = load_task("yelp", data_dir=tmp_path)
    assert ([e.text for e in official.evaluation], len(official.train)) == (["c"], 2)


@pytest.mark.data
def test_the_real_annotations(data_dir: Path, tmp_path: Path) -> None:
    """Counted independently with pandas: 900, 1314 and 2096 rows of 300, 439 and 625 reviews, no mismatch."""
    (tmp_path / "yelp_hat").symlink_to(data_dir / "yelp_hat")
    sizes = {}
    for subset, rows, reviews in (("50", 900, 300), ("100", 1314, 439), ("mixed", 2096, 625)):
        task = load_task("yelp-hat", {"subset": subset}, tmp_path)
        assert f"{rows} annotations of {reviews} reviews" in task.source.note
        assert "0 rows whose spans do not match" in task.source.note
        sizes[subset] = len(task.evaluation)
        if subset != "mixed":
            assert {len(e.word_marks or ()) for e in task.evaluation} == {int(subset)}
    assert sizes == {"50": 296, "100": 429, "mixed": 615}


@pytest.mark.data
def test_the_real_yelp_reviews(data_dir: Path) -> None:
    task = load_task("yelp", data_dir=data_dir)
    assert len(task.train) + len(task.evaluation) == 38_874 - 6
