"""AG News: files without a header, other layouts, the hub's copy, bad files, and a mini that learns four classes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from slalom_bench.core.options import ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.data import sources
from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput
from slalom_bench.models.loading import model_availability, resolve_model
from slalom_bench.running.loading import Loader
from slalom_bench.tasks import ag_news

DEV = [
    ("oil prices rise", "Business"),
    ("the cup final", "Sports"),
    ('a "new" chip', "Sci/Tech"),
    ("a summit", "World"),
]
TEST = [("a late goal", "Sports"), ("the  cup final", "Sports"), ("a late goal", "Sports"), ("shares fall", "Business")]


def write(path: Path, rows: list[tuple[str, str]], header: tuple[str, ...] = (), delimiter: str = "\t") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows] if header else rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "ag_news" / "dev.tsv", DEV)
    write(tmp_path / "ag_news" / "test.tsv", TEST)
    return tmp_path


def test_texts_once_and_in_one_split_with_four_classes(folder: Path) -> None:
    task = load_task("ag-news", data_dir=folder)
    assert {(e.text, e.label) for e in task.evaluation} == {("a late goal", 1), ("shares fall", 2)}
    assert {(e.text, e.label) for e in task.train} == {
        ("oil prices rise", 2),
        ("the cup final", 1),
        ('a "new" chip', 3),
        ("a summit", 0),
    }
    assert task.class_names == ("World", "Sports", "Business", "Sci/Tech")
    assert [e.id for e in task.evaluation] == sorted(e.id for e in task.evaluation)
    assert task.source.name == "ag_news/dev.tsv + test.tsv"
    assert "1 repeated test texts, 1 test texts that are also training texts" in task.source.note


def test_other_layouts_of_the_same_texts_have_one_content_hash(folder: Path, tmp_path: Path) -> None:
    for name, rows in (("train", DEV), ("test", TEST)):
        write(tmp_path / "other" / "ag_news" / f"{name}.csv", rows, ("text", "label"), ",")
    one, other = load_task("ag-news", data_dir=folder), load_task("ag-news", data_dir=tmp_path / "other")
    assert one.source.content_hash == other.source.content_hash


def test_the_hubs_copy_through_datasets(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that `datasets` loads stands for the hub: labels are numbers there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "hub").mkdir()
    for name, rows in (("train", DEV), ("test", TEST)):
        records = [{"text": text, "label": ag_news.CLASSES.index(label)} for text, label in rows]
        pq.write_table(pa.Table.from_pylist(records), tmp_path / "hub" / f"{name}.parquet")
    for name in sources.OFFLINE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "probe", lambda repository: "")
    monkeypatch.setattr(ag_news, "HUB", str(tmp_path / "hub"))
    (tmp_path / "empty").mkdir()
    task = load_task("ag-news", data_dir=tmp_path / "empty")
    assert task.source.kind == "hub"
    assert task.source.content_hash == load_task("ag-news", data_dir=folder).source.content_hash


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("text", "label")], "ag-news train: row 1: label 'label' is outside the classes 0 .World."),
        ([("a", "Weather")], "row 1: label 'Weather' is outside the classes"),
        ([("a", "b", "World")], "dev.tsv: row 1 has 3 fields, not 2; quote texts that contain tabs"),
        ([(" ", "World")], "ag-news train: row 1 has an empty text"),
    ],
)
def test_bad_files_are_answered(folder: Path, rows: list[tuple[str, str]], says: str) -> None:
    write(folder / "ag_news" / "dev.tsv", rows)
    with pytest.raises(InvalidInput, match=says):
        load_task("ag-news", data_dir=folder)


def test_no_files_are_answered_with_the_remedies(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"neither ag_news/train nor ag_news/dev[\s\S]*no header"):
        load_task("ag-news", data_dir=tmp_path)


def test_a_mini_is_trained_on_four_classes_and_cached_for_whoever_names_it(tmp_path: Path) -> None:
    """Where shipped weights know other classes, the plain name trains; `weights=trained` finds the same training."""
    words = {"World": "peace treaty", "Sports": "goal match", "Business": "shares profit", "Sci/Tech": "chip code"}
    rows = [(f"{text} {n} of {i}", label) for n in range(30) for i, (label, text) in enumerate(words.items())]
    write(tmp_path / "ag_news" / "dev.tsv", rows)
    write(tmp_path / "ag_news" / "test.tsv", [("a goal in the match", "Sports")])
    options = ModelOptions(device="cpu", data_dir=tmp_path, progress=False)
    data = load_task("ag-news", data_dir=tmp_path)
    assert resolve_model("bert", data, options)[0] == "mini-bert"
    assert model_availability("mini-bert", "ag-news", options).state == "train"
    subject = Loader(options).model("ag-news", "mini-bert", "delete")
    assert subject.classifier.class_names == ag_news.CLASSES
    sample = subject.sample(data.evaluation[0], None)
    assert subject.classifier.default_target(sample) == subject.classifier.logits([sample.ids])[0].argmax()
    for spec in ("mini-bert", "mini-bert:weights=trained"):
        assert model_availability(spec, "ag-news", options).state == "cached", spec
    assert Ref.parse(subject.model).name == "mini-bert"
