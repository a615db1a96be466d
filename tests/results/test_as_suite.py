"""`submit` says when a run is not its suite as it is."""

from __future__ import annotations

import json

import pytest

from slalom_bench.commands.submit import submit_command
from slalom_bench.results.as_suite import _departures
from slalom_bench.running.suite import load_suite


def said(scale=None, **changes):
    return _departures(load_suite("imdb", scale).model_dump(mode="json") | changes)


def test_the_suite_with_explainers_of_ones_own_is_the_suite():
    assert said() == []
    assert said("paper") == []
    assert said(explainers=["lime", "random"], models=["mini-bert"]) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budgets": [10]}, "budgets is 10, in the suite 1000"),
        ({"samples": 3}, "samples is 3, in the suite 20"),
        ({"seeds": [7]}, "seeds is 7, in the suite 0"),
        ({"removal": "mask"}, "removal is mask, in the suite delete"),
        ({"max_tokens": None}, "max_tokens is None, in the suite 256"),
        ({"metrics": ["srg"]}, "metrics are srg, in the suite all that apply"),
        ({"tasks": ["yelp-hat"]}, "tasks yelp-hat are not of the suite"),
        ({"name": "mine"}, "mine is no suite of slalom-bench"),
    ],
)
def test_what_is_otherwise_is_named(changes, words):
    (found,) = said(**changes)
    assert words in found


def test_the_command_says_it_and_writes_the_file_all_the_same(finished, tmp_path, capsys):
    submit_command(finished, tmp_path / "results")
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    assert "this is not the suite as it is (test is no suite of slalom-bench" in told.err


def test_texts_that_no_other_file_of_the_folder_has_are_said(lab, tmp_path, capsys):
    mine, theirs = (lab.run(tmp_path / name, explainers=("zero",), budgets=(9,)) for name in ("mine", "theirs"))
    results = tmp_path / "results"
    submit_command(theirs, results)
    submit_command(mine, results)
    assert "other texts" not in capsys.readouterr().err
    (file,) = results.glob("*.json")
    data = json.loads(file.read_text())
    data["task"] |= {"content": "0" * 64, "source": "another edition"}
    file.unlink()
    (results / "other.json").write_text(json.dumps(data))
    (results / "broken.json").write_text("{")
    submit_command(mine, results)
    told = capsys.readouterr().err
    assert "synthetic-slalom is " in told
    assert "and 000000000000 (another edition) there): the rows stand in tables of their own" in told
