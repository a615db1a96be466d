"""HateXplain: the authors' two files, the hub's copy, whose word is marked, what is dropped, bad files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slalom_bench.data import sources
from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput
from slalom_bench.tasks import hatexplain


def post(words: str, labels: tuple[str, ...], *rationales: str) -> dict[str, Any]:
    """A record as the authors have them; a rationale is a string of 0 and 1."""
    return {
        "post_id": "x",
        "annotators": [{"label": label, "annotator_id": i, "target": ["None"]} for i, label in enumerate(labels)],
        "rationales": [[int(mark) for mark in marks] for marks in rationales],
        "post_tokens": words.split(),
    }


HATE, NORMAL, OFFENSIVE = hatexplain.CLASSES
POSTS = {
    "a": post("you awful lot", (HATE, HATE, OFFENSIVE), "110", "010", "011"),
    "b": post("good morning all", (NORMAL, NORMAL, OFFENSIVE), "100"),
    "c": post("some rude word", (OFFENSIVE, OFFENSIVE, NORMAL), "001", "01"),
    "d": post("nobody knows", (HATE, NORMAL, OFFENSIVE), "10"),
    "e": post("you awful lot", (HATE, HATE, HATE), "111"),
    "f": post("a calm day", (NORMAL, NORMAL, NORMAL)),
    "g": post("rude again", (OFFENSIVE, OFFENSIVE, OFFENSIVE), "10", "10", "10"),
    "h": post("you awful lot", (HATE, HATE, HATE), "111"),
}
DIVISIONS = {"train": ["f", "h"], "val": ["g"], "test": ["a", "b", "c", "d", "e"]}


def write(folder: Path, posts: Any = POSTS, divisions: Any = DIVISIONS) -> Path:
    (folder / "hatexplain").mkdir(parents=True, exist_ok=True)
    (folder / "hatexplain" / "dataset.json").write_text(json.dumps(posts))
    (folder / "hatexplain" / "post_id_divisions.json").write_text(json.dumps(divisions))
    return folder


def test_labels_by_majority_and_marks_by_half_of_the_reasons(tmp_path: Path) -> None:
    task = load_task("hatexplain", data_dir=write(tmp_path))
    found = {example.text: example for example in task.evaluation}
    assert {text: example.label for text, example in found.items()} == {
        "you awful lot": 0,
        "good morning all": 1,
        "some rude word": 2,
    }
    assert found["you awful lot"].word_marks == (False, True, False)
    assert found["you awful lot"].word_shares == pytest.approx((1 / 3, 1.0, 1 / 3))
    assert found["good morning all"].word_marks is None, "a normal post has no reasons"
    assert found["some rude word"].word_marks == (False, False, True)
    assert found["some rude word"].word_shares is None, "the other reason is too short: one annotator is no share"
    assert {(e.text, e.label) for e in task.train} == {("a calm day", 1), ("rude again", 2)}
    assert task.source.name == "hatexplain/dataset.json + post_id_divisions.json"
    for said in (
        "3 test posts, 2 of them with reasons",
        "1 on which no two annotators agree, 1 repeated",
        "1 training posts that are also test posts, 1 reasons that are not as long",
    ):
        assert said in task.source.note


def test_the_hubs_copy_through_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that `datasets` loads stands for the hub: labels are numbers there, annotators a record of lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "hub").mkdir()
    for theirs, ids in DIVISIONS.items():
        records = [
            {
                "id": name,
                "annotators": {"label": [hatexplain.CLASSES.index(a["label"]) for a in POSTS[name]["annotators"]]},
                "rationales": POSTS[name]["rationales"],
                "post_tokens": POSTS[name]["post_tokens"],
            }
            for name in ids
        ]
        split = {"val": "validation"}.get(theirs, theirs)
        pq.write_table(pa.Table.from_pylist(records), tmp_path / "hub" / f"{split}.parquet")
    for name in sources.OFFLINE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "probe", lambda repository: "")
    monkeypatch.setattr(hatexplain, "HUB", str(tmp_path / "hub"))
    monkeypatch.setattr(hatexplain, "_REVISION", None)
    (tmp_path / "empty").mkdir()
    task = load_task("hatexplain", data_dir=tmp_path / "empty")
    assert task.source.kind == "hub"
    assert task.source.content_hash == load_task("hatexplain", data_dir=write(tmp_path)).source.content_hash


@pytest.mark.parametrize(
    ("posts", "divisions", "says"),
    [
        ([], DIVISIONS, "dataset.json: a JSON list, not an object"),
        (POSTS, {"train": [], "test": []}, "no list 'val' of post ids"),
        (POSTS, {**DIVISIONS, "val": ["z"]}, "val names a post 'z' that dataset.json has not"),
        ({**POSTS, "a": {"post_tokens": ["x"]}}, DIVISIONS, "test: row 1 is no post: it needs annotators, post_tokens"),
        ({**POSTS, "a": post("", (HATE, HATE))}, DIVISIONS, "test: row 1: a post without words"),
        ({**POSTS, "a": post("x", ("rude", HATE))}, DIVISIONS, "label 'rude' is outside the classes 0 .hatespeech."),
        (POSTS, {**DIVISIONS, "test": ["d"]}, "two annotators agree on no test post"),
    ],
)
def test_bad_files_are_answered(tmp_path: Path, posts: Any, divisions: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        load_task("hatexplain", data_dir=write(tmp_path, posts, divisions))


def test_no_files_are_answered_with_the_remedies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sources.OFFLINE_VARIABLES[0], "1")
    with pytest.raises(InvalidInput, match=r"no hatexplain/dataset.json[\s\S]*post_id_divisions.json .Data"):
        load_task("hatexplain", data_dir=tmp_path)
