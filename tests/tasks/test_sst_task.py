"""The treebank: labels and marks out of bracketed trees, phrases as training texts, what is dropped, bad files."""

from __future__ import annotations

from pathlib import Path

import pytest

from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput
from slalom_bench.tasks.sst import phrases

TRAIN = ["(1 (2 the) (1 (0 awful) (2 end)))", "(2 (2 a) (2 film))"]
DEV = ["(4 (4 great) (2 fun))", "(3 (3 lovely) (2 film))"]
TEST = [
    "(3 (2 a) (3 (3 lovely) (2 film)))",
    "(0 (3 (2 not) (4 great)) (2 -LRB-))",
    "(2 (2 a) (2 film))",
    "(3 (2 a) (3 (3 lovely) (2 film)))",
    "(3 (3 lovely) (2 film))",
]


def write(folder: Path, **files: list[str]) -> Path:
    (folder / "sst").mkdir(parents=True, exist_ok=True)
    for name, lines in {"train": TRAIN, "dev": DEV, "test": TEST, **files}.items():
        (folder / "sst" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_sentences_with_the_words_that_speak_for_their_class(tmp_path: Path) -> None:
    task = load_task("sst", data_dir=write(tmp_path))
    assert {e.text: (e.label, e.word_marks) for e in task.evaluation} == {
        "a lovely film": (1, (False, True, False)),
        "not great (": (0, None),
        "lovely film": (1, (True, False)),
    }
    assert [e.id for e in task.evaluation] == sorted(e.id for e in task.evaluation)
    assert {(e.text, e.label) for e in task.train} == {
        ("the awful end", 0),
        ("awful end", 0),
        ("awful", 0),
        ("great fun", 1),
        ("great", 1),
        ("lovely", 1),
    }
    assert task.source.name == "sst/train.txt + dev.txt + test.txt"
    assert "3 test sentences, 2 of them with a word of their class" in task.source.note
    assert "2 neutral or repeated test sentences, 1 training texts that are also" in task.source.note


def test_whole_sentences_alone_may_be_trained_on(tmp_path: Path) -> None:
    task = load_task("sst", {"train": "sentences"}, write(tmp_path))
    assert {e.text for e in task.train} == {"the awful end", "great fun"}
    with pytest.raises(InvalidInput, match="train must be one of phrases, sentences, not 'words'"):
        load_task("sst", {"train": "words"}, tmp_path)


def test_a_word_in_two_phrases_of_its_own_is_one_word() -> None:
    nodes = phrases("(4 (3 (2 fun)))", "here")
    assert [(node.label, node.leaf) for node in nodes] == [(2, True), (3, False), (4, False)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("(5 (2 a) (2 b))", "test.txt: line 1: .*5' does not begin a phrase with a label from 0 to 4"),
        ("(2 (2 a) (x b))", "'.x' does not begin a phrase"),
        ("(2 (2 a) ( b))", "'. b' does not begin a phrase"),
        ("(2 (2 a) (2 b)", "a bracket is not closed"),
        ("(2 a) (2 b)", "does not begin a phrase"),
        ("(2 a))", "'.' stands outside of the tree"),
        ("a great film", "'a' stands outside of the tree"),
        ("(2 (2 a) (2))", "a phrase has one word or phrases in it, not ''"),
        ("(2 a (2 b))", "a phrase has one word or phrases in it, not 'a b'"),
        ("(2 (2 a) (2 film))", "every test sentence of sst/train.txt"),
    ],
)
def test_bad_files_are_answered(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        load_task("sst", data_dir=write(tmp_path, test=[line]))


def test_no_files_are_answered_with_the_remedies(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no sst/test.txt[\s\S]*trainDevTestTrees_PTB.zip"):
        load_task("sst", data_dir=tmp_path)
