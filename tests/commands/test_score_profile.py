"""Scoring a file of outside explanations, and the runtime profile, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slalom_bench.cli import app
from slalom_bench.errors import InvalidInput
from slalom_bench.results.reading import read_run

WHERE = ["--task", "synthetic-slalom", "--model", "slalom-transformer", "--samples", "3"]


def call(*words: str):
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.fixture
def samples(tmp_path) -> list[dict]:
    file = tmp_path / "samples.jsonl"
    assert call("score", str(file), "--write-samples", *WHERE).exit_code == 0
    return [json.loads(line) for line in file.read_text().splitlines()]


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_an_outside_method_that_knows_the_truth_is_perfect(tmp_path, samples):
    from slalom_bench.data.loading import load_task

    truth = load_task("synthetic-slalom").truth
    rows = []
    for sample in samples:
        value = [truth["value"][word] for word in sample["tokens"]]
        importance = [truth["importance"][word] for word in sample["tokens"]]
        surrogate = {"kind": "slalom", "value": value, "importance": importance}
        rows.append({"id": sample["id"], "scores": {"value": value}, "surrogate": surrogate})
    file = write(tmp_path / "mine.jsonl", rows)
    done = call(
        "score",
        file,
        "--name",
        "oracle",
        "--out",
        str(tmp_path / "run"),
        "--json",
        *WHERE,
        "--metric",
        "strict-fidelity:largest=1",
        "--metric",
        "deletion",
    )
    assert done.exit_code == 0
    (cell,) = read_run(tmp_path / "run").cells
    assert (cell.identity.explainer.name, cell.identity.explainer.family) == ("oracle", "outside")
    label = next(label for label in cell.scores if label.name == "strict-fidelity")
    found = [value for value in cell.values(label, "k1").values() if value is not None]
    assert found
    assert max(found) < 1e-10
    assert all(row["queries"] == 0 for key, row in cell.costs.items() if key.startswith("explain:"))


def test_bad_files_and_names_are_refused(tmp_path, samples):
    short = write(tmp_path / "short.jsonl", [{"id": samples[0]["id"], "scores": [1.0] * (len(samples[0]["ids"]) + 1)}])
    with pytest.raises(InvalidInput, match="content tokens"):
        call("score", short, "--out", str(tmp_path / "run"), *WHERE)
    alien = write(tmp_path / "alien.jsonl", [{"id": "nobody", "scores": [1.0]}])
    with pytest.raises(InvalidInput, match="'nobody' first"):
        call("score", alien, "--out", str(tmp_path / "run"), *WHERE)
    with pytest.raises(InvalidInput, match="is an explainer of this installation"):
        call("score", short, "--name", "lime", *WHERE)


def test_the_samples_name_the_class_and_explanations_of_another_are_refused(tmp_path, samples):
    assert {sample["target"] for sample in samples} == {1}
    file = tmp_path / "negative.jsonl"
    done = call("score", str(file), "--write-samples", *WHERE, "--target", "negative")
    assert "explained: class 0 (negative)\n" in done.stderr
    assert {json.loads(line)["target"] for line in file.read_text().splitlines()} == {0}
    rows = [{"id": sample["id"], "scores": [1.0] * len(sample["ids"]), "target": 0} for sample in samples]
    mine = write(tmp_path / "mine.jsonl", rows)
    options = [mine, "--metric", "deletion", "--out", str(tmp_path / "run"), *WHERE]
    with pytest.raises(InvalidInput, match=r"`target` is class 0, but class 1 \(positive\) .* give --target"):
        call("score", *options)
    assert call("score", *options, "--target", "0").exit_code == 0
    (cell,) = read_run(tmp_path / "run").cells
    assert cell.identity.target == 0


def test_the_profile_counts_times_and_draws(tmp_path):
    out = tmp_path / "run"
    words = [
        "profile",
        *WHERE,
        "--explainer",
        "slalom-fidel",
        "--explainer",
        "linear-deletion",
        "--budget",
        "20,40",
        "--metric",
        "deletion",
        "--timed",
        "1",
        "--replicates",
        "2",
        "--out",
        str(out),
        "--json",
    ]
    done = call(*words)
    assert done.exit_code == 0
    rows = json.loads(done.stdout.strip().splitlines()[-1])
    assert [(row["explainer"], row["budget"]) for row in rows] == [
        ("slalom-fidel", 20),
        ("slalom-fidel", 40),
        ("linear-deletion", 20),
        ("linear-deletion", 40),
    ]
    for row in rows:
        assert row["queries"] == row["budget"]
        assert row["seconds"] >= row["model_seconds"] > 0
        assert row["backwards"] == 0
        assert row["peak_memory_mb"] > 1
        assert row["quality"]["deletion@1"]["n"] + row["quality"]["deletion@1"]["undefined"] == 3
    assert (out / "profile.md").read_text().count("\n|") >= 5
    (plot,) = (out / "plots").glob("*.svg")
    assert "Pareto front" in plot.read_text()
    # an interval on both panels for each of four rows, quartiles on the one of seconds
    assert (plot.read_text().count('id="interval"'), plot.read_text().count('id="quartiles"')) == (8, 4)
    assert "[4/4] profile" in done.stderr
    assert "[5/4]" not in done.stderr
    before = json.loads((out / "profile.json").read_text())
    assert call(*words).exit_code == 0
    assert json.loads((out / "profile.json").read_text()) == before
