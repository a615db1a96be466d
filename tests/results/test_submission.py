"""What a submission says, that it says nothing else, and that bad ones are answered."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import numpy as np
import pytest

from slalom_bench.commands.verify import verify_command
from slalom_bench.core.options import ModelOptions
from slalom_bench.errors import InvalidInput, StoreError
from slalom_bench.results import verification as verify
from slalom_bench.results.collect import collect, submit
from slalom_bench.results.reading import read_run
from slalom_bench.results.statistics import average_seeds, rank
from slalom_bench.results.submission import LARGEST_FILE, read_submission, spell, to_text

FIDELITY = "strict-fidelity@1-"


@pytest.fixture
def files(finished, tmp_path):
    return submit(finished, tmp_path / "results")


@pytest.fixture
def full(files):
    """The submission of the full model, as a file."""
    return next(path for path in files if "mini" not in path.name)


def changed(path, change, rename=True):
    """The file with one change, under the name that its content asks for unless told otherwise."""
    data = json.loads(path.read_text())
    change(data)
    path.unlink()
    path.write_text(json.dumps(data))
    if not rename:
        return path
    return path.rename(path.with_name(read_submission(path).file_name))


def test_one_file_for_each_model_and_the_same_file_again(finished, files, tmp_path):
    assert len(files) == 2
    assert all(path.parent == tmp_path / "results" for path in files)
    before = {path: path.read_bytes() for path in files}
    assert submit(finished, tmp_path / "results") == files
    assert {path: path.read_bytes() for path in files} == before


def test_its_numbers_are_those_of_the_run(finished, full):
    submission = read_submission(full)
    cells = [c for c in read_run(finished) if c.identity["model"]["name"] == "slalom-transformer"]
    entry = next(e for e in submission.entries if e.title == "linear-deletion" and e.budget == 60)
    (cell,) = [c for c in cells if c.explainer == "linear-deletion" and c.identity["budget"] == 60]
    (label,) = [label for label in entry.results if label.startswith(FIDELITY)]
    values = cell.values(label, "mean")
    np.testing.assert_allclose(
        [v for v in entry.results[label].values if v is not None],
        [v for v in values.values() if v is not None],
        rtol=1e-5,
    )
    assert entry.results[label].undefined == sum(v is None for v in values.values()) == 2
    assert entry.results[label].reasons == {"text has too few tokens": 2}
    assert entry.results[label].mean == pytest.approx(np.mean([v for v in values.values() if v is not None]), rel=1e-5)
    rows = [row for row in cell.metrics[label].rows.values() if "k1" in row["values"]]
    assert entry.results[label].parts["k1"] == pytest.approx(np.mean([r["values"]["k1"] for r in rows]), rel=1e-5)
    assert entry.cost.queries == pytest.approx(cell.mean_cost()["queries"], rel=1e-5)
    assert submission.metrics[label].params == {"largest": 2}


def test_seeds_are_averaged_within_samples(lab, tmp_path):
    run = lab.run(tmp_path / "run", seeds=(0, 1), explainers=("linear-deletion", "zero"), budgets=(20,))
    (collected,) = collect(run)
    by_name = {entry.title: entry for entry in collected.submission.entries}
    assert (by_name["zero"].seeds, by_name["linear-deletion"].seeds) == ([0], [0, 1])
    cells = [cell for cell in read_run(run) if cell.explainer == "linear-deletion"]
    (label,) = [label for label in cells[0].metrics if label.startswith(FIDELITY)]
    both = average_seeds([cell.values(label, "mean") for cell in cells])
    result = by_name["linear-deletion"].results[label]
    np.testing.assert_allclose(
        [v for v in result.values if v is not None], [v for v in both.values.values() if v is not None], rtol=1e-5
    )
    assert result.spread == pytest.approx(both.spread, rel=1e-5)


def test_nothing_private_is_in_it(full):
    text = full.read_text()
    assert "/home/me" not in text
    assert "very good film" not in text
    assert "command" not in text


def test_its_command_computes_the_row_again(full):
    submission = read_submission(full)
    entry = next(e for e in submission.entries if e.title == "zero" and e.budget == 30)
    assert submission.command(entry) == (
        "slalom-bench run --task synthetic-slalom --model slalom-transformer --explainer zero --metric deletion "
        "--metric strict-fidelity:largest=2 --budget 30 --samples 9 --seed 0 --protocol bench --removal delete"
    )
    hostile = entry.model_copy(
        update={"explainer": entry.explainer.model_copy(update={"name": "x; rm -rf $HOME `id`"})}
    )
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {submission.command(hostile)}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "x; rm -rf $HOME `id`" in words


def test_a_method_from_a_file_names_the_command_that_scores_it(full):
    def outside(data):
        data["entries"][0]["explainer"] = {"name": "mine", "version": 1, "params": {"file": "abc"}, "family": "outside"}

    submission = read_submission(changed(full, outside))
    assert submission.command(submission.entries[0]) == (
        "slalom-bench score EXPLANATIONS.jsonl --name mine --task synthetic-slalom --model slalom-transformer "
        "--metric deletion --metric strict-fidelity:largest=2 --samples 9 --seed 0"
    )
    with pytest.raises(InvalidInput, match="mine:file=abc came from a file of explanations"):
        verify.recompute(submission, 1, ModelOptions())


def test_a_folder_of_the_submitter_is_not_in_the_model_name(lab, tmp_path):
    run = lab.run(tmp_path / "run", lab.subject("hf:/home/me/models/mine"), explainers=("zero",), budgets=(5,))
    (path,) = submit(run, tmp_path / "results")
    assert read_submission(path).model.name == "hf:mine"
    assert "/home" not in path.read_text()
    run = lab.run(tmp_path / "hub", lab.subject("hf:org/name"), explainers=("zero",), budgets=(5,))
    (path,) = submit(run, tmp_path / "results")
    assert read_submission(path).model.name == "hf:org/name"
    assert path.parent == tmp_path / "results"


def test_an_unfinished_run_is_not_submitted(lab, tmp_path):
    run = lab.run(tmp_path / "run", explainers=("zero",), budgets=(5,))
    next((run / "cells").glob("*/done.json")).unlink()
    with pytest.raises(StoreError, match=r"is not finished: run the same command again"):
        submit(run, tmp_path / "results")


def test_json_lists_of_numbers_stay_on_a_line_and_strings_stay_as_they_are():
    data = {"a": [1.5, None, "[  x  ]"], "b": {"c": []}, "d": [{"e": 1}]}
    assert json.loads(spell(data)) == data
    assert '"a": [1.5, null, "[  x  ]"]' in spell(data)


# ---- verify ----


def test_a_sound_one_has_no_problem(full, finished):
    submission = read_submission(full)
    assert verify.problems(submission, full.name) == []
    assert verify.check_run(submission, finished) == []
    assert to_text(submission) == full.read_text()


def _first(data, label="deletion@1"):
    return data["entries"][0]["results"][label]


CONTRADICTIONS = {
    "mean is": lambda data: _first(data).update(mean=_first(data)["mean"] + 1e-4),
    "low is": lambda data: _first(data).update(low=-5.0),
    "the values say": lambda data: _first(data).update(n=3),
    "values for 9 samples": lambda data: _first(data)["values"].pop(),
    "reasons for": lambda data: _first(data).update(reasons={}),
    "over the budget": lambda data: data["entries"][0]["cost"].update(queries=1e6),
    "a sample id is given twice": lambda data: data["samples"].__setitem__(1, data["samples"][0]),
    "given twice with the same": lambda data: data["entries"].append(data["entries"][0]),
    "make deletion@2": lambda data: data["metrics"]["deletion@1"].update(version=2),
    "not described": lambda data: data["metrics"].pop("deletion@1"),
    "failed of 9": lambda data: data["entries"][0].update(failed=10),
}


@pytest.mark.parametrize("message", CONTRADICTIONS)
def test_what_contradicts_itself_is_named(full, message):
    path = changed(full, CONTRADICTIONS[message])
    assert any(message in problem for problem in verify.problems(read_submission(path), path.name))


def test_a_changed_value_needs_another_name(full):
    path = changed(full, lambda data: _first(data)["values"].__setitem__(0, 0.5), rename=False)
    assert "must be named" in verify.problems(read_submission(path), path.name)[0]


MALFORMED = {
    "not JSON": lambda text: text[:-5],
    "not JSON in UTF-8": lambda text: "\xff" * 3,
    "NaN is no number of JSON": lambda text: text.replace('"mean": ', '"mean": NaN, "x": ', 1),
    "a key is given twice": lambda text: text.replace('"mean":', '"mean": 1, "mean":', 1),
    "schema_version is 7": lambda text: text.replace('"schema_version": 1', '"schema_version": 7'),
    "schema_version is None": lambda text: "[]",
    "Extra inputs": lambda text: text.replace('"suite":', '"html": "<b>", "suite":', 1),
    "control characters": lambda text: text.replace('"suite": "test"', '"suite": "a\\u202eb"'),
    "Input should be 'delete', 'mask' or 'pad'": lambda text: text.replace('"removal": "delete"', '"removal": "../x"'),
    "finite number": lambda text: text.replace('"low": ', '"low": 1e999, "mean2": ', 1),
    "nested too deeply": lambda text: "[" * 200_000,
}


@pytest.mark.parametrize("message", MALFORMED)
def test_malformed_files_are_answered(full, message):
    text = MALFORMED[message](full.read_text())
    full.write_bytes(text.encode("latin-1" if "\xff" in text else "utf-8"))
    with pytest.raises(InvalidInput) as caught:
        read_submission(full)
    assert message in str(caught.value)


def test_a_missing_and_a_huge_file_are_answered(tmp_path):
    with pytest.raises(InvalidInput, match="No such file"):
        read_submission(tmp_path / "no.json")
    with (tmp_path / "big.json").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(InvalidInput, match="more than"):
        read_submission(tmp_path / "big.json")


def test_recomputing_gives_the_same_values_and_finds_a_forged_one(lab, full):
    submission = read_submission(full)
    found = verify.recompute(submission, 3, ModelOptions(), subjects=[lab.subject(samples=3)])
    assert len(found) == 3 * 2 * len(submission.entries)
    assert all(difference.within for difference in found)
    assert max(difference.size for difference in found) < 1e-5

    def forge(data):
        values = _first(data)["values"]
        values[1] += 0.05

    forged = read_submission(changed(full, forge))
    again = verify.recompute(forged, 3, ModelOptions(), subjects=[lab.subject(samples=3)])
    (wrong,) = [difference for difference in again if not difference.within]
    assert (wrong.sample, wrong.metric) == ("s1", "deletion@1")
    assert wrong.size == pytest.approx(0.05, rel=1e-3)


def test_recomputing_refuses_other_weights(lab, full):
    with pytest.raises(InvalidInput, match="the weights of the model"):
        verify.recompute(read_submission(full), 1, ModelOptions(), subjects=[lab.subject(shift=0.5, samples=1)])


def test_the_command_reports_and_exits_with_1(full, capsys):
    import typer

    verify_command([full])
    assert "sound; 10 rows on 9 samples" in capsys.readouterr().out
    path = changed(full, CONTRADICTIONS["mean is"])
    with pytest.raises(typer.Exit) as caught:
        verify_command([path])
    assert caught.value.exit_code == 1
    assert "the values give" in capsys.readouterr().err


def test_a_run_with_other_scores_is_not_the_submitted_one(lab, full, tmp_path):
    other = lab.run(tmp_path / "other", lab.subject(shift=0.3))
    assert len(verify.check_run(read_submission(full), other)) > 5


# ---- trust: ties and machines are computed from the values ----


def test_ties_and_ranks_are_those_of_the_paired_statistics(full):
    from slalom_bench.results.boards import boards

    submission = read_submission(full)
    board = next(board for board in boards([submission]) if board.budget == 60)
    table = {
        e.title: dict(zip(submission.samples, e.results["deletion@1"].values, strict=True))
        for e in submission.entries
        if e.budget == 60
    }
    expected = {ranked.name: ranked for ranked in rank(table, "higher")}
    for row in board.rows:
        assert row.cells["deletion@1"].ranked == expected[row.name]
    assert Counter(board.metrics) == Counter(submission.metrics)
