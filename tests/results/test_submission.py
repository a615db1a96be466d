"""What a submission says, that it says nothing else, and that bad ones are answered."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer

from slalom_bench import registry
from slalom_bench.commands.verify import show, verify_command
from slalom_bench.core.safe_text import look
from slalom_bench.errors import InvalidInput, StoreError
from slalom_bench.results import recomputing
from slalom_bench.results import statistics as stats
from slalom_bench.results import verification as verify
from slalom_bench.results.attestation import attest, read_attestations, write_attestation
from slalom_bench.results.boards import boards
from slalom_bench.results.collect import collect, submit
from slalom_bench.results.ranking import rank
from slalom_bench.results.reading import read_run
from slalom_bench.results.recomputing import choose, recompute
from slalom_bench.results.statistics import average_seeds
from slalom_bench.results.strict_json import LARGEST_FILE
from slalom_bench.results.submission import Submission, read_submission, spell, to_text
from slalom_bench.running.facts import OUTSIDE
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.provenance import provenance
from slalom_bench.showing import wording

FIDELITY = MetricLabel.of("strict-fidelity", 4, {"largest": 2})
DELETION = MetricLabel.of("deletion", 1)


@pytest.fixture
def files(finished, tmp_path):
    return submit(read_run(finished), tmp_path / "results")


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
    assert submit(read_run(finished), tmp_path / "results") == files
    assert {path: path.read_bytes() for path in files} == before


def test_its_numbers_are_those_of_the_run(finished, full):
    submission = read_submission(full)
    row = next(row for row in submission.rows if row.title == "linear-deletion, budget 60")
    (cell,) = [c for c in read_run(finished).cells if c.identity.key == submission.identity(row).key]
    result, values = row.results[FIDELITY], cell.values(FIDELITY, "mean")
    np.testing.assert_allclose(
        [v for v in result.values if v is not None],
        [v for v in values.values() if v is not None],
        rtol=1e-5,
    )
    assert result.undefined == sum(v is None for v in values.values()) == 2
    assert result.reasons == {"text has too few tokens": 2}
    assert result.mean == pytest.approx(np.mean([v for v in values.values() if v is not None]), rel=1e-5)
    firsts = [value for value in cell.values(FIDELITY, "k1").values() if value is not None]
    assert result.parts["k1"] == pytest.approx(np.mean(firsts), rel=1e-5)
    costs = [cell.costs[f"explain:{sample}"]["queries"] for sample in submission.samples]
    assert row.cost.queries == pytest.approx(np.mean(costs), rel=1e-5)
    assert submission.metrics[FIDELITY].params == {"largest": 2}


def test_seeds_are_averaged_within_samples(lab, tmp_path):
    run = lab.run(tmp_path / "run", seeds=(0, 1), explainers=("linear-deletion", "zero"), budgets=(20,))
    (collected,) = collect(read_run(run))
    by_name = {row.explainer.name: row for row in collected.submission.rows}
    assert (by_name["zero"].seeds, by_name["linear-deletion"].seeds) == ([0], [0, 1])
    cells = [cell for cell in read_run(run).cells if cell.identity.explainer.name == "linear-deletion"]
    both = average_seeds([cell.values(FIDELITY, "mean") for cell in cells])
    result = by_name["linear-deletion"].results[FIDELITY]
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
    row = next(row for row in submission.rows if row.title == "zero, budget 30")
    assert submission.command(row) == (
        "slalom-bench run --task synthetic-slalom --model slalom-transformer --explainer zero --metric deletion "
        "--metric strict-fidelity:largest=2 --budget 30 --samples 9 --seed 0 --protocol bench --removal delete"
    )
    hostile = row.model_copy(update={"explainer": row.explainer.model_copy(update={"name": "x; rm -rf $HOME `id`"})})
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {submission.command(hostile)}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "x; rm -rf $HOME `id`" in words


def test_a_method_from_a_file_names_the_command_that_scores_it(lab, full):
    def outside(data):
        data["rows"][0]["explainer"] = {"name": "mine", "version": 1, "params": {"file": "abc"}, "family": "outside"}

    submission = read_submission(changed(full, outside))
    assert submission.command(submission.rows[0]) == (
        "slalom-bench score EXPLANATIONS.jsonl --name mine --task synthetic-slalom --model slalom-transformer "
        "--metric deletion --metric strict-fidelity:largest=2 --samples 9 --seed 0"
    )
    found = recompute(submission, submission.samples[:1], lab.loader(lab.subject()))
    assert "it came from a file of explanations" in found.left[submission.rows[0].title]
    assert {value.row for value in found.values} == {row.title for row in submission.rows[1:]}


def test_a_folder_of_the_submitter_is_not_in_the_model_name(lab, tmp_path):
    run = lab.run(tmp_path / "run", lab.subject("hf:/home/me/models/mine"), explainers=("zero",), budgets=(5,))
    (path,) = submit(read_run(run), tmp_path / "results")
    assert read_submission(path).model.name == "hf:mine"
    assert "/home" not in path.read_text()
    run = lab.run(tmp_path / "hub", lab.subject("hf:org/name"), explainers=("zero",), budgets=(5,))
    (path,) = submit(read_run(run), tmp_path / "results")
    assert read_submission(path).model.name == "hf:org/name"
    assert path.parent == tmp_path / "results"


def test_an_unfinished_run_is_not_submitted(lab, tmp_path):
    run = lab.run(tmp_path / "run", explainers=("zero",), budgets=(5,))
    next((run / "cells").glob("*/done.json")).unlink()
    with pytest.raises(StoreError, match=r"is not finished: run the same command again"):
        submit(read_run(run), tmp_path / "results")


def test_json_lists_of_numbers_stay_on_a_line_and_strings_stay_as_they_are():
    data = {"a": [1.5, None, "[  x  ]"], "b": {"c": []}, "d": [{"e": 1}]}
    assert json.loads(spell(data)) == data
    assert '"a": [1.5, null, "[  x  ]"]' in spell(data)


# ---- verify ----


def test_a_sound_one_has_no_problem(full, finished):
    submission = read_submission(full)
    assert verify.problems(submission, full.name) == []
    assert verify.check_run(submission, read_run(finished)) == []
    assert to_text(submission) == full.read_text()


def _first(data, label="deletion@1"):
    return data["rows"][0]["results"][label]


CONTRADICTIONS = {
    "mean is": lambda data: _first(data).update(mean=_first(data)["mean"] + 1e-4),
    "low is": lambda data: _first(data).update(low=-5.0),
    "the values say": lambda data: _first(data).update(n=3),
    "values for 9 samples": lambda data: _first(data)["values"].pop(),
    "reasons for": lambda data: _first(data).update(reasons={}),
    "over the budget": lambda data: data["rows"][0]["cost"].update(queries=1e6),
    "a sample id is given twice": lambda data: data["samples"].__setitem__(1, data["samples"][0]),
    "given twice with the same": lambda data: data["rows"].append(data["rows"][0]),
    "make deletion@2": lambda data: data["metrics"]["deletion@1"].update(version=2),
    "not described": lambda data: data["metrics"].pop("deletion@1"),
    "failed of 9": lambda data: data["rows"][0].update(failed=10),
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
    "schema_version is 1, this version reads 2; submit it again": lambda text: text.replace(
        '"schema_version": 2', '"schema_version": 1'
    ),
    "is no metric label": lambda text: text.replace('"deletion@1"', '"deletion"'),
    "schema_version is None": lambda text: "[]",
    "Extra inputs": lambda text: text.replace('"suite":', '"html": "<b>", "suite":', 1),
    "control characters": lambda text: text.replace('"suite": "test"', '"suite": "a\\u202eb"'),
    "Input should be 'full', 'small-pretrained', 'embedded' or 'exact'": lambda text: text.replace(
        '"tier": "exact"', '"tier": "best"'
    ),
    "removal: Input should be a valid dictionary": lambda text: text.replace('"removal": {', '"removal": 1, "x": {'),
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
    found = recompute(submission, submission.samples[:3], lab.loader(lab.subject()))
    assert len(found.values) == 3 * 2 * len(submission.rows)
    assert not found.off
    assert max(value.size for value in found.values) < 1e-5

    def forge(data):
        values = _first(data)["values"]
        values[1] += 0.05

    forged = read_submission(changed(full, forge))
    (wrong,) = recompute(forged, forged.samples[:3], lab.loader(lab.subject())).off
    assert (wrong.sample, wrong.metric) == ("s1", DELETION)
    assert wrong.size == pytest.approx(0.05, rel=1e-3)


def test_one_outlier_does_not_hide_forged_values(lab, full):
    def forge(data):
        values = _first(data)["values"]
        values[:] = [value + 0.05 if value is not None else None for value in values]
        values[-2] = 1e6

    forged = read_submission(changed(full, forge))
    wrong = recompute(forged, forged.samples[:3], lab.loader(lab.subject())).off
    assert {value.sample for value in wrong} == {"s0", "s1", "s2"}


def fake(data, share):
    """Every score better by a share of it, and the means, intervals and halves that follow from them."""
    for row in data["rows"]:
        for result in row["results"].values():
            result["values"] = [None if v is None else float(f"{v * (1 + share):.6g}") for v in result["values"]]
            again = stats.summarise(result["values"])
            result.update(mean=again.mean, standard_error=again.standard_error, low=again.low, high=again.high)


@pytest.mark.parametrize("share", [0.3, 0.005])
def test_a_file_that_is_fake_throughout_and_holds_together_is_found(lab, full, share):
    path = changed(full, lambda data: fake(data, share))
    submission = read_submission(path)
    assert verify.problems(submission, path.name) == []
    found = recompute(submission, choose(submission.samples, 2, seed=5), lab.loader(lab.subject()))
    assert {value.row for value in found.off} >= {"random, budget 30", "random, budget 60"}


def test_queries_that_were_not_asked_are_found(lab, full):
    path = changed(full, lambda data: data["rows"][0]["cost"].update(queries=1.0))
    submission = read_submission(path)
    found = recompute(submission, submission.samples, lab.loader(lab.subject()))
    assert not found.off
    assert list(found.asked) == [submission.rows[0].title]
    assert not show(path, submission, found, None)
    assert recompute(submission, submission.samples[:4], lab.loader(lab.subject())).asked == {}


def test_which_samples_are_computed_again_depends_on_the_seed_alone(lab, full):
    samples = read_submission(full).samples
    drawn = [choose(samples, 3, seed) for seed in range(200)]
    assert drawn[7] == choose(samples, 3, 7)
    counts = Counter(sample for chosen in drawn for sample in chosen)
    # each of 9 samples in a third of 200 draws: 67, with a standard deviation of 6.7
    assert set(counts) == set(samples)
    assert 40 < min(counts.values()) <= max(counts.values()) < 94
    submission = read_submission(full)
    found = recompute(submission, drawn[7], lab.loader(lab.subject()))
    assert {value.sample for value in found.values} == set(drawn[7]) != set(samples[:3])
    assert not found.off


def test_the_command_chooses_anew_each_time_and_says_the_seed(lab, full, capsys, monkeypatch):
    monkeypatch.setattr("slalom_bench.running.loading.Loader", lambda options: lab.loader(lab.subject()))
    said = []
    for _ in range(3):
        verify_command([full], recompute="2")
        said.append(re.search(r"--seed (\d+)", capsys.readouterr().out)[1])
    assert len(set(said)) == 3
    verify_command([full], recompute="all")
    assert "9 of 9 samples computed again; 180 values compared, all agree" in capsys.readouterr().out
    forged = changed(full, lambda data: fake(data, 0.1))
    with pytest.raises(typer.Exit) as caught:
        verify_command([forged], recompute="2", attest=True)
    assert caught.value.exit_code == 1
    assert not (forged.parent / "attested").exists()


@pytest.mark.parametrize(("value", "label"), [(1.08, "deletion@1"), (-0.5, str(FIDELITY))])
def test_a_value_that_the_metric_cannot_have_is_refused(full, value, label):
    path = changed(full, lambda data: _first(data, label)["values"].__setitem__(0, value))
    wrong = [problem for problem in verify.problems(read_submission(path), path.name) if "mean is" not in problem]
    assert wrong == [] or "is outside what the metric can be" in wrong[0]
    submission = read_submission(path)
    again = stats.summarise(submission.rows[0].results[MetricLabel.parse(label)].values)

    def follow(data):
        _first(data, label).update(mean=again.mean, standard_error=again.standard_error, low=again.low, high=again.high)

    path = changed(path, follow)
    (problem,) = verify.problems(read_submission(path), path.name)
    assert f"a value of {value:g} is outside what the metric can be" in problem


def test_every_metric_of_a_bounded_kind_says_its_bounds():
    bounded = re.compile("correlation|area|F1|share of tokens|probability|squared|mean square")
    kinds = {entry.name: entry.bounds for entry in registry.metrics.entries() if bounded.search(entry.unit)}
    assert len(kinds) > 20
    assert [name for name, bounds in kinds.items() if bounds == (None, None)] == []


# ---- attestations ----


def attested(path, found, by="A. Reviewer", **machine):
    call = provenance("cpu", [])
    call["machine"] = {**call["machine"], **machine}
    return write_attestation(attest(read_submission(path), found, None, call, by), path.parent)


def test_what_came_out_again_is_on_record_and_every_row_says_so_for_itself(lab, full):
    submission = read_submission(full)
    found = recompute(submission, submission.samples, lab.loader(lab.subject()))
    made = attested(full, found, model="another processor")
    records = read_attestations(full.parent, [submission])
    (record,) = records[submission.fingerprint]
    assert made.name == record.file_name
    assert (record.samples, record.of, record.seed, record.by) == (9, 9, None, "A. Reviewer")
    other = Submission.model_validate(json.loads(full.read_text()) | {"samples": [f"x{i}" for i in range(9)]})
    made_boards = boards([submission, other], records)
    standing = Counter(wording.standing(row) for board in made_boards for row in board.rows)
    machine = record.machine.fingerprint
    assert standing == {
        f"recomputed, 9 of 9 samples (A. Reviewer, machine {machine})": 10,
        "not recomputed": 10,
    }
    rows = [row for board in made_boards for row in board.rows]
    assert wording.recomputed(rows) == (
        "Of 20 rows 10 were recomputed by a reviewer, and none is in more than one file."
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"by": "\x1b[31m"}, "--by"),
        ({"by": "a\nb"}, "--by"),
        ({"by": "x" * 1000}, "--by"),
        ({"recompute": "9" * 5000}, "--recompute"),
        ({"recompute": "-1"}, "--recompute"),
    ],
)
def test_what_a_reviewer_says_is_checked_before_anything_is_computed(full, values, message):
    with pytest.raises(InvalidInput, match=message):
        verify_command([full], **({"recompute": "all", "attest": True} | values))


def test_a_difference_that_is_no_rounding_is_not_attested_whatever_the_tolerance(lab, full):
    path = changed(full, lambda data: fake(data, 0.5))
    submission = read_submission(path)
    found = recompute(submission, submission.samples, lab.loader(lab.subject()), tolerance=1e9)
    assert not found.off
    with pytest.raises(InvalidInput, match="no rounding"):
        attested(path, found)


FORGED_RECORDS = {
    "there is no submission": lambda data: data.update(submission="0" * 16),
    "do not fit": lambda data: data.update(samples=3),
    "has no row": lambda data: data["rows"][0].update(row="0" * 16),
    "values of 9 samples": lambda data: data["rows"][0].update(values=1),
    "greater than or equal to 1": lambda data: data.update(samples=0, seed=1),
    "at least 1 item": lambda data: data["rows"][0].update(metrics=[], values=0),
    "given twice": lambda data: data["rows"].append(data["rows"][0]),
    "and 4 metrics": lambda data: data["rows"][0].update(
        metrics=data["rows"][0]["metrics"] * 2, values=data["rows"][0]["values"] * 2
    ),
    "no rounding": lambda data: data["rows"][0].update(largest=0.3),
    "control characters": lambda data: data.update(by="A\u202eB"),
    "must be named": lambda data: data["machine"].update(model="mine"),
    "Extra inputs": lambda data: data.update(html="<b>"),
}


@pytest.mark.parametrize("message", FORGED_RECORDS)
def test_a_record_that_does_not_fit_is_named_and_left_out(lab, full, message):
    submission = read_submission(full)
    found = recompute(submission, submission.samples, lab.loader(lab.subject()))
    path = attested(full, found)
    data = json.loads(path.read_text())
    FORGED_RECORDS[message](data)
    if message == "there is no submission":
        path = path.rename(path.with_name(path.name.replace(submission.fingerprint, "0" * 16)))
    path.write_text(json.dumps(data))
    left_out = []
    assert read_attestations(full.parent, [submission], left_out) == {}
    assert message in left_out[0]
    assert path.name in left_out[0]


def test_the_record_covers_the_metrics_that_were_computed_again_and_no_other(lab, full):
    submission = read_submission(full)
    found = recompute(submission, submission.samples, lab.loader(lab.subject()))
    part = replace(found, values=[value for value in found.values if value.metric == DELETION])
    attested(full, part)
    rows = [row for board in boards([submission], read_attestations(full.parent, [submission])) for row in board.rows]
    with_both = next(row for row in rows if len(row.cells) == 2)
    assert "but for strict-fidelity" in wording.standing(with_both)


def test_a_missing_plug_in_package_is_named(lab, full):
    def plugged(data):
        data["rows"][0]["explainer"]["name"] = "their-method"
        data["origin"]["plugins"] = {"explainer their-method": "their-package 0.3"}

    path = changed(full, plugged)
    submission = read_submission(path)
    said = "explainer their-method is not registered here: install their-package 0.3"
    assert said in verify.notes(submission)
    found = recompute(submission, submission.samples[:1], lab.loader(lab.subject()))
    assert found.left[submission.rows[0].title] == said


SECRET = "/home/me/secret"
PRIVATE = {
    "a task's parameter": ("task", {"params": {"train_file": f"{SECRET}/train.csv"}}),
    "a list of them": ("task", {"params": {"files": [f"{SECRET}/train.csv", "b.csv"]}}),
    "where texts were found": ("task", {"source": f"{SECRET}/train.csv + {SECRET}/test.csv"}),
    "a model's argument": ("model", {"name": f"hf:{SECRET}/mine"}),
    "a model's parameter": ("model", {"name": f"hf:org/name,source={SECRET}/mine"}),
    "a model from home": ("model", {"name": "hf:~/secret/mine"}),
    "a model on another system": ("model", {"name": "hf:C:\\\\home\\\\me\\\\secret\\\\mine"}),
    "what it was trained with": ("model", {"training": f"texts of {SECRET}/train.csv"}),
    "an explainer's parameter": ("explainer", {"params": {"table": f"{SECRET}/table.npy"}}),
}


@pytest.mark.parametrize("where", PRIVATE)
def test_nothing_of_the_machines_paths_is_in_a_submission(lab, tmp_path, where):
    from slalom_bench.results.collect import _collected

    read = read_run(lab.run(tmp_path / "run", explainers=("zero",), budgets=(5,)))
    (cell,) = read.cells
    part, changes = PRIVATE[where]
    identity = getattr(cell.identity, part).model_copy(update=changes)
    assert "secret" in identity.model_dump_json()
    cell = replace(cell, identity=cell.identity.model_copy(update={part: identity}))
    submission = _collected(read.calls, cell.samples, [cell]).submission
    said = to_text(submission) + submission.file_name + submission.command(submission.rows[0])
    found = [word for word in ("secret", "/home", str(tmp_path), str(Path.home()), os.getcwd()) if word in said]
    assert not found


@pytest.mark.parametrize(("kind", "name"), [("explainer", "1ime"), ("explainer", "IIME"), ("explainer", "kerne1-shap")])
def test_a_name_that_could_be_taken_for_another_is_refused(full, kind, name):
    path = changed(full, lambda data: data["rows"][0]["explainer"].update(name=name))
    (problem,) = verify.problems(read_submission(path), path.name)
    assert "looks like" in problem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["model"].update(tier="embedded"), "the tier of model slalom-transformer is exact"),
        (lambda data: data["rows"][0]["explainer"].update(family="search"), "the family of explainer"),
        (lambda data: data["rows"][0]["explainer"].update(family="baselines"), "the family of explainer"),
    ],
)
def test_words_that_no_hash_holds_are_those_of_the_registry(full, change, message):
    path = changed(full, change)
    assert any(message in problem for problem in verify.problems(read_submission(path), path.name))


def test_a_file_of_explanations_is_no_row_of_the_explainer_that_it_is_named_after(full):
    honest = read_submission(full)
    data = json.loads(full.read_text())
    data["origin"]["started"] = "1970-01-01T00:00:00+00:00"
    for row in data["rows"]:
        row["explainer"]["family"] = OUTSIDE
    other = Submission.model_validate(data)
    assert verify.problems(other, other.file_name) == []
    for alone, both in zip(boards([honest]), boards([honest, other]), strict=True):
        families = Counter(row.family == OUTSIDE for row in both.rows)
        assert families == {True: len(alone.rows), False: len(alone.rows)}


def test_a_name_in_another_alphabet_that_reads_like_a_known_one_is_refused(full):
    # whole words of one alphabet: Cyrillic with the letters a and x
    assert verify._twin("explainer", "\u0430\u0445") == ""
    assert look("\u0430\u0445") == look("ax")


def test_recomputing_refuses_other_weights(lab, full):
    with pytest.raises(InvalidInput, match="the weights of the model"):
        recompute(read_submission(full), ["s0"], lab.loader(lab.subject(shift=0.5)))


def test_the_command_reports_and_exits_with_1(full, capsys):
    verify_command([full])
    assert "sound; 10 rows on 9 samples" in capsys.readouterr().out
    path = changed(full, CONTRADICTIONS["mean is"])
    with pytest.raises(typer.Exit) as caught:
        verify_command([path])
    assert caught.value.exit_code == 1
    assert "the values give" in capsys.readouterr().err


def test_the_name_of_a_file_cannot_forge_a_line(full, capsys):
    full.write_text(full.read_text().replace('"dirty": true', '"dirty": false'))  # a note has its own line
    forged = full.rename(full.with_name("x\nall.json: sound; 9 rows\x1b[2K.json"))
    with pytest.raises(typer.Exit):
        verify_command([forged])
    told = capsys.readouterr()
    assert "must be named" in told.err
    assert len((told.out + told.err).splitlines()) == 1
    assert "\x1b[2K" not in told.err


def test_a_run_with_other_scores_is_not_the_submitted_one(lab, full, tmp_path):
    other = lab.run(tmp_path / "other", lab.subject(shift=0.3))
    assert len(verify.check_run(read_submission(full), read_run(other))) > 5


# ---- trust: ties and machines are computed from the values ----


def test_ties_and_ranks_are_those_of_the_paired_statistics(full):
    submission = read_submission(full)
    board = next(board for board in boards([submission]) if board.identity.budget == 60)
    table = {
        row.explainer.title: dict(zip(submission.samples, row.results[DELETION].values, strict=True))
        for row in submission.rows
        if row.budget == 60
    }
    expected = {ranked.name: ranked for ranked in rank(table, "higher", relevant=0.01).rows}
    for row in board.rows:
        assert row.cells[DELETION].ranked == expected[row.name]
    assert Counter(board.metrics) == Counter(submission.metrics)


def test_a_search_is_shown_and_neither_ranked_nor_marked(full):
    def rows_at_60(path):
        board = next(board for board in boards([read_submission(path)]) if board.identity.budget == 60)
        return {row.name: row.cells[DELETION] for row in board.rows}

    before = rows_at_60(full)
    best = next(name for name, cell in before.items() if cell.ranked.rank == 1)

    def searched(data):
        for row in data["rows"]:
            if row["explainer"]["name"] == best:
                row["explainer"]["family"] = "search"

    after = rows_at_60(changed(full, searched))
    assert after[best].result == before[best].result
    assert (after[best].ranked.rank, after[best].place, after[best].marked) == (None, "", False)
    assert before.keys() == after.keys()
    assert 1 in {cell.ranked.rank for cell in after.values()}


@pytest.mark.parametrize(("said", "expected"), [(1, 1), (10**6, 2), (None, 2)])
def test_recomputing_takes_the_threads_of_the_file(lab, full, monkeypatch, said, expected):
    import torch

    seen = []
    monkeypatch.setattr(recomputing, "usable_cores", lambda: 2)
    monkeypatch.setattr(recomputing, "_again", lambda *_: iter(seen.append(torch.get_num_threads()) or ()))
    path = changed(full, lambda data: data["origin"]["machine"].update(threads=said))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        submission = read_submission(path)
        recompute(submission, submission.samples[:1], lab.loader(lab.subject()))
        assert (seen, torch.get_num_threads()) == ([expected], 2)
    finally:
        torch.set_num_threads(before)
