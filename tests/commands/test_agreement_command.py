"""Agreement of a stored run, through the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from slalom_bench.api import run
from slalom_bench.cli import app


def test_agreement_and_stability_of_a_run(tmp_path):
    run(
        task=["synthetic-linear"],
        model=["bag-of-words"],
        explainer=["leave-one-out", "linear-deletion", "random"],
        metric=["deletion"],
        budget=[120],
        samples=3,
        seed=[0, 1],
        out=tmp_path,
    )
    done = CliRunner().invoke(app, ["agreement", str(tmp_path), "--json"], catch_exceptions=False)
    (group,) = json.loads(done.stdout)
    pairs = {(row["a"], row["b"]): row for row in group["pairs"]}
    exact = pairs["leave-one-out", "linear-deletion"]
    # both are exact on a bag of words
    assert exact["pearson"]["mean"] == pytest.approx(1.0)
    assert pairs["leave-one-out", "random"]["pearson"]["mean"] < 0.9
    assert group["stability"].keys() == {"linear-deletion", "random"}
    assert group["stability"]["random"]["mean"] < 0.9
    table = CliRunner().invoke(app, ["agreement", str(tmp_path)], catch_exceptions=False).stdout
    assert "across seeds" in table
    assert max(map(len, table.splitlines())) <= 80
    assert json.loads((tmp_path / "agreement.json").read_text()) == [group]
    (picture,) = tmp_path.glob("agreement_*.svg")
    assert f"{pairs['leave-one-out', 'random']['spearman']['mean']:.2f}" in picture.read_text()
    assert "leave-one-out" in picture.read_text()
