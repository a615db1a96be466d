"""Counterfactual pairs by hand: which text is explained, what it is compared with, what is dropped, bad files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from slalom_bench.core.options import ModelOptions
from slalom_bench.data import sources
from slalom_bench.data.loading import load_task
from slalom_bench.data.splits import content_hash
from slalom_bench.errors import InvalidInput
from slalom_bench.models.base import learnt_from
from slalom_bench.tasks.counterfactual import COLUMNS

TEST = [
    ("Negative", "a dull film", "7"),
    ("Positive", 'a "great" film', "7"),
    ("Positive", "I loved it", "9"),
    ("Negative", "I loathed it", "9"),
    ("Negative", "same  words", "11"),
    ("Positive", "same words", "11"),
]
TRAIN = [
    ("Positive", "fine", "1"),
    ("Negative", "poor", "1"),
    ("Negative", "a dull film", "2"),
    ("Positive", "new", "2"),
]


def write(folder: Path, name: str, rows: list[tuple[str, ...]]) -> None:
    (folder / "imdb_counterfactual").mkdir(parents=True, exist_ok=True)
    with (folder / "imdb_counterfactual" / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t").writerows([COLUMNS, *rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "test_paired.tsv", TEST)
    write(tmp_path, "train_paired.tsv", TRAIN)
    return tmp_path


def test_only_revised_texts_are_explained_beside_their_originals(folder: Path) -> None:
    task = load_task("imdb-counterfactual", data_dir=folder)
    assert {(e.text, e.label, e.counterpart) for e in task.evaluation} == {
        ('a "great" film', 1, "a dull film"),
        ("I loathed it", 0, "I loved it"),
    }
    assert {(e.text, e.label) for e in task.train} == {("fine", 1), ("poor", 0), ("new", 1)}
    assert "3 pairs; only the revised texts are explained" in task.source.note
    assert "the originals stand in IMDB's training split" in task.source.note
    assert "1 pairs without a difference" in task.source.note
    assert [e.id for e in task.evaluation] == sorted(e.id for e in task.evaluation)


def test_both_sides_for_models_that_have_not_seen_them(folder: Path) -> None:
    task = load_task("imdb-counterfactual", {"texts": "both"}, folder)
    assert {(e.text, e.counterpart) for e in task.evaluation} == {
        ('a "great" film', "a dull film"),
        ("a dull film", 'a "great" film'),
        ("I loathed it", "I loved it"),
        ("I loved it", "I loathed it"),
    }
    with pytest.raises(InvalidInput, match="texts must be one of revised, both, not 'all'"):
        load_task("imdb-counterfactual", {"texts": "all"}, folder)


def test_the_pair_is_part_of_the_content(folder: Path) -> None:
    before = load_task("imdb-counterfactual", data_dir=folder)
    write(folder, "test_paired.tsv", [("Negative", "a dull old film", "7"), *TEST[1:]])
    after = load_task("imdb-counterfactual", data_dir=folder)
    assert [e.text for e in before.evaluation] == [e.text for e in after.evaluation]
    assert content_hash(before.evaluation) != content_hash(after.evaluation)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("Negative", "a", "1")], "batch_id '1' has 1 texts .negative.; a pair is one negative"),
        ([("Negative", "a", "1"), ("Negative", "b", "1")], "has 2 texts .negative, negative."),
        ([("Neutral", "a", "1")], "test_paired.tsv: row 1: label 'neutral' is outside"),
        ([("Negative", " ", "1")], "test_paired.tsv: row 1 has an empty text"),
    ],
)
def test_bad_pairs_are_named(folder: Path, rows: list[tuple[str, ...]], says: str) -> None:
    write(folder, "test_paired.tsv", rows)
    with pytest.raises(InvalidInput, match=says):
        load_task("imdb-counterfactual", data_dir=folder)


def test_a_missing_column_and_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    (folder / "imdb_counterfactual" / "test_paired.tsv").write_text("Sentiment\tText\nNegative\ta\n")
    with pytest.raises(InvalidInput, match="no column 'batch_id'; it has: Sentiment, Text"):
        load_task("imdb-counterfactual", data_dir=folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"no imdb_counterfactual/test_paired.tsv[\s\S]*sentiment/combined/paired"):
        load_task("imdb-counterfactual", data_dir=tmp_path / "empty")


def test_models_learn_from_imdb(folder: Path) -> None:
    (folder / "imdb").mkdir()
    (folder / "imdb" / "train.csv").write_text("text,label\ngood,1\nbad,0\n")
    (folder / "imdb" / "test.csv").write_text("text,label\nfine,1\n")
    data = load_task("imdb-counterfactual", data_dir=folder)
    learnt = learnt_from(data, ModelOptions(data_dir=folder))
    assert learnt.task == "imdb"
    assert {e.text for e in learnt.train} == {"good", "bad"}


def test_the_real_files(data_dir: Path) -> None:
    if not (data_dir / "imdb_counterfactual").is_dir():
        pytest.skip("the data directory has no imdb_counterfactual")
    task = load_task("imdb-counterfactual", data_dir=data_dir)
    assert (len(task.evaluation), len(task.train)) == (487, 3411)
    assert not {e.text for e in task.evaluation} & {e.text for e in task.train}


def test_a_hub_dataset_that_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that `datasets` loads stands for the hub; a copy that does not pair its texts is refused."""
    for name in sources.OFFLINE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "probe", lambda repository: "")
    for place, columns in (("hub", COLUMNS), ("unpaired", COLUMNS[:2])):
        (tmp_path / place).mkdir()
        for name, rows in (("train", TRAIN), ("test", TEST)):
            with (tmp_path / place / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([columns, *(row[: len(columns)] for row in rows)])
    task = load_task("imdb-counterfactual", {"hub": str(tmp_path / "hub")})
    assert task.source.kind == "hub"
    assert task.source.content_hash == load_task("imdb-counterfactual", data_dir=folder).source.content_hash
    with pytest.raises(InvalidInput, match=r"test has no column batch_id .it has Sentiment, Text.: texts can only"):
        load_task("imdb-counterfactual", {"hub": str(tmp_path / "unpaired")})
    monkeypatch.setattr(sources, "probe", lambda repository: "the hub answered 404")
    with pytest.raises(InvalidInput, match=r"(?s)hub nobody/nothing: the hub answered 404.*hub=OWNER/NAME"):
        load_task("imdb-counterfactual", {"hub": "nobody/nothing"})
