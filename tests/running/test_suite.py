"""Where runs go by default, and the class that they explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from slalom_bench.api import build_suite, run
from slalom_bench.errors import InvalidInput
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import read_run
from slalom_bench.running.suite import make_suite


def test_a_built_in_suite_as_it_is_has_its_name_and_no_two_of_ones_own_collide():
    assert build_suite("smoke").directory == Path("runs/smoke")
    own = [
        build_suite("smoke", samples=2),
        build_suite("smoke", seed=[1]),
        build_suite(task=["imdb"], explainer=["lime"]),
        build_suite(task=["imdb"], explainer=["lime"], budget=[10]),
        build_suite(task=["imdb"], explainer=["lime"], target=0),
    ]
    assert len({suite.directory for suite in own} | {Path("runs/smoke")}) == 6
    assert build_suite("smoke", samples=2).directory == own[0].directory


def test_a_name_does_not_leave_the_folder_of_runs():
    values = {"tasks": ("imdb",), "models": ("mini-bert",), "explainers": ("zero",)}
    assert make_suite(name="../../x", **values).directory.parent == Path("runs")


def explained(path: Path, target: int | str | None):
    run(
        task="synthetic-slalom",
        model="slalom-transformer",
        explainer=["leave-one-out"],
        metric=["deletion"],
        budget=40,
        samples=2,
        out=path,
        target=target,
    )
    ((cell,), (collected,)) = (read_run(path).cells, collect(read_run(path)))
    return cell, collected.submission


def test_another_class_is_another_result_and_the_usual_one_by_its_number_is_not(tmp_path):
    usual, plain = explained(tmp_path / "usual", None)
    same, _ = explained(tmp_path / "same", 1)
    other, submission = explained(tmp_path / "other", 0)
    assert same.identity.key == usual.identity.key != other.identity.key
    for sample, found in other.explained().items():
        assert found.target == 0
        assert found.scores["attribution"] == pytest.approx(-usual.explained()[sample].scores["attribution"])
    assert "target" not in plain.model_dump(mode="json")
    assert submission.identity(submission.rows[0]).key == other.identity.key
    assert "--target 0" in submission.command(submission.rows[0])


def test_a_class_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="'joy'"):
        explained(tmp_path, "joy")
