"""`slalom-bench data`: every place looked at, what would be used, counts and hash; light until it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slalom_bench import registry
from slalom_bench.commands.data import data_command
from slalom_bench.data import loading as data
from slalom_bench.errors import InvalidInput
from slalom_bench.tasks import imdb


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "imdb").mkdir()
    (tmp_path / "imdb" / "train.csv").write_text("text,label\na,1\nb,0\nc,1\n")
    (tmp_path / "imdb" / "test.csv").write_text("text,label\nd,1\ne,0\n")
    return tmp_path


def test_json_says_what_is_there_and_what_is_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_command("imdb", data_dir=folder, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [(row["kind"], row["there"]) for row in found["tried"][:2]] == [("directory", True), ("hub", False)]
    assert found["used"] == "directory imdb/train.csv + test.csv"
    assert (found["evaluation"], found["train"], found["classes"]) == (2, 3, {"negative": 1, "positive": 1})
    assert found["content_hash"] == data.load_task("imdb", data_dir=folder).source.content_hash


def test_the_printed_form_has_the_hash_in_one_piece(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_command("imdb:split=official", data_dir=folder)
    printed = capsys.readouterr().out
    assert data.load_task("imdb", data_dir=folder).source.content_hash in printed
    assert "HF_HUB_OFFLINE" in printed
    assert "used: directory imdb/train.csv + test.csv" in printed


def test_nothing_there_is_an_error_with_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(imdb, "PACKAGE", "no-such-package")
    with pytest.raises(InvalidInput, match="no data for task imdb"):
        data_command("imdb", data_dir=tmp_path, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["used"] is None
    assert any("slalom-bench[imdb]" in remedy for remedy in found["remedies"])


def test_the_hub_is_not_downloaded_from_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("slalom_bench.data.sources.probe", lambda repository: "")
    data_command("yelp", data_dir=tmp_path)
    printed = capsys.readouterr().out
    assert "used: hub fancyzhx/yelp_polarity" in printed
    assert "--fetch" in printed


def test_generated_tasks_and_own_files_have_no_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_command("synthetic-linear:seed=4,train_size=10", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["used"], found["train"], found["truth"]) == ("generated synthetic-linear, seed 4", 10, "linear")
    (tmp_path / "own.csv").write_text("text\nno label here\n")
    data_command(f"text:{tmp_path / 'own.csv'}")
    assert "unlabelled 1" in capsys.readouterr().out


def test_every_task_states_its_metadata() -> None:
    tasks = {entry.name: entry.describe() for entry in registry.tasks.entries()}
    assert {"imdb", "yelp", "yelp-hat", "synthetic-linear", "synthetic-slalom", "text"} <= tasks.keys()
    for name in ("imdb", "yelp", "yelp-hat", "synthetic-linear", "synthetic-slalom", "text"):
        assert all(tasks[name][key] for key in ("source", "licence", "citation", "revision")), name
    assert [name for name, said in tasks.items() if said["generated"]] == ["synthetic-linear", "synthetic-slalom"]


def test_listing_tasks_loads_nothing_heavy() -> None:
    code = (
        "import sys; from slalom_bench import registry; import slalom_bench.commands.data; registry.tasks.entries();"
        "heavy = {'torch', 'transformers', 'datasets', 'pandas', 'pyarrow', 'scipy', 'sklearn'} & sys.modules.keys();"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
