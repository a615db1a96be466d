"""Reports, comparison and export of runs."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
import typer

from slalom_bench.commands.compare import compare_command
from slalom_bench.errors import InvalidInput, StoreError
from slalom_bench.results.collect import collect
from slalom_bench.results.comparison import compare_runs
from slalom_bench.results.reading import read_run
from slalom_bench.running.store import Rows
from slalom_bench.showing.export import escape, export, scores
from slalom_bench.showing.report import write_report

NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(finished):
    md, html = write_report(read_run(finished))
    return md.read_text(), html.read_text()


def test_the_report_has_every_part(report):
    md, html = report
    curve = "strict-fidelity against number of deletions"
    for text in (curve, "Cost", "Undefined", "Reproduce", "Failures", "Provenance"):
        assert text in md
    for text in (
        curve,
        "against time",
        "against queries",
        "against budget",
        "Pareto front",
        "Scores of every sample",
        "Example texts",
        "Undefined scores and why",
        "Failures",
        "Provenance",
    ):
        assert text in html
    assert "text has too few tokens" in md
    assert "/home/me/x" in md  # a report is the user's own


def test_an_interval_that_is_longer_than_the_axis_stays_inside_the_figure():
    from slalom_bench.showing.figures import RIGHT, WIDTH, strips

    # two texts: Student's interval of the geometric mean spans decades more than the scores do
    drawn = str(strips([("slalom-anchor", "slalom", [0.01, 3.0], 0.17, 1e-10, 1e9)], "error"))
    ((start, end),) = re.findall(r'<line x1="([\d.-]+)"[^>]*? x2="([\d.-]+)"[^>]*?class="whisker"', drawn)
    name = float(re.search(r'<text x="([\d.]+)"[^>]*class="name"', drawn)[1])
    assert name < float(start) < float(end) <= WIDTH - RIGHT


def test_the_report_says_which_class_is_explained(report):
    assert "explained class 1 of two, else the predicted one" in report[0]


def test_the_report_is_one_file_that_loads_nothing(report):
    html = report[1]
    assert not re.search(r"<(?:script|img|iframe)[^>]+src=", html)
    assert re.findall(r'<link[^>]+href="([^"]+)"', html) == ["data:,"]
    assert "default-src 'none'" in html
    assert "url(" not in html


def test_texts_are_escaped_and_highlighted(report):
    html = report[1]
    assert "<img" not in html
    assert "&lt;img" in html
    assert re.search(r'<span class="t towards" style="--s:\d+%" title="\+[\d.e-]+">good</span>', html)
    assert re.search(r'<span class="t against" style="--s:\d+%" title="-[\d.e-]+">bad</span>', html)
    assert re.search(r'<span class="t much"', html)
    assert "towards pos" in html


def test_the_strongest_token_has_the_strongest_colour(finished, report):
    (cell, *_) = [
        c
        for c in read_run(finished).cells
        if c.identity.explainer.name == "leave-one-out" and c.identity.budget == 60 and c.identity.model.tier == "exact"
    ]
    best = int(np.argmax(np.abs(cell.explanations["s1"]["explanation"]["scores"]["attribution"])))
    word = ["the", "bad", "film", "and", "plot"][best]
    assert re.search(rf'--s:85%" title="[^"]+">{word}</span>', report[1])


def test_every_cell_is_read_once(finished, monkeypatch):
    read = []
    real = Rows._read
    monkeypatch.setattr(Rows, "_read", lambda self: read.append(self.path) or real(self))
    run = read_run(finished)
    collect(run)
    assert read
    before = list(read)
    collect(run)
    assert read == before
    assert len(read) == len(set(read))


def test_failures_are_listed_with_their_messages(lab, tmp_path):
    run = lab.run(tmp_path / "run", explainers=("leave-one-out", "zero"), budgets=(4,))
    md, html = write_report(read_run(run))
    errors = {r["error"]["message"] for c in read_run(run).cells for r in c.explanations.values() if r.get("error")}
    assert errors
    assert "leave-one-out, budget 4" in md.read_text()
    assert "BudgetExceeded" in md.read_text() or "InvalidInput" in md.read_text()
    assert "failed</span>" in html.read_text()
    assert not re.search("NotExplained: ", md.read_text())


def test_an_unfinished_run_is_reported_with_gaps(lab, tmp_path):
    run = lab.run(tmp_path / "run", explainers=("zero", "leave-one-out"), budgets=(20,))
    store = next(path for path in (run / "cells").iterdir() if "leave-one-out" in path.name)
    (store / "done.json").unlink()
    for file in [store / "explanations.jsonl", *(store / "scores").glob("*.jsonl")]:
        file.write_text("".join(file.read_text().splitlines(True)[:4]))
    text = write_report(read_run(run))[0].read_text()
    assert "- deletion: not computed (leave-one-out 5)" in text


def test_a_run_without_texts_says_so(lab, tmp_path):
    run = lab.run(tmp_path / "run", explainers=("zero",), budgets=(5,))
    for file in (run / "samples").glob("*"):
        file.unlink()
    assert "This run keeps no texts" in write_report(read_run(run))[1].read_text()
    assert "This run keeps no texts" not in write_report(read_run(run), 0)[1].read_text()


def test_no_run_is_answered(tmp_path):
    with pytest.raises(StoreError, match="not a run directory"):
        read_run(tmp_path)


# ---- compare ----


def test_a_run_compared_with_itself_is_the_same(finished, capsys):
    found = compare_runs(read_run(finished), read_run(finished))
    assert {change.verdict for change in found.changes} <= {"same", "not tested"}
    assert found.provenance == []
    compare_command(finished, finished, fail_on_regression=True)
    assert "Nothing changed beside the scores." in capsys.readouterr().out


@pytest.fixture
def worsened(lab, tmp_path):
    """Two runs of one explainer, B with every deletion score 0.1 lower."""
    a = lab.run(tmp_path / "a", explainers=("leave-one-out",), budgets=(20,))
    b = lab.run(tmp_path / "b", explainers=("leave-one-out",), budgets=(20,))
    (file,) = b.rglob("deletion@1.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        row["values"] = {name: value - 0.1 for name, value in row["values"].items()}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lab.reseal(b)
    return a, b


def test_a_worsening_is_found_with_its_size_and_fails(worsened, capsys):
    a, b = worsened
    (change,) = compare_runs(read_run(a), read_run(b)).worse
    assert change.key.metric == "deletion"
    assert change.effect.value == pytest.approx(-0.1)
    assert change.n == 8
    # a family of one: of 2^8 patterns the two that flip nothing repeat the data
    assert change.p_adjusted == pytest.approx(2 / 2**8)
    compare_command(a, b)
    with pytest.raises(typer.Exit) as caught:
        compare_command(a, b, fail_on_regression=True)
    assert caught.value.exit_code == 1
    capsys.readouterr()
    compare_command(b, a, fail_on_regression=True, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert [c["verdict"] for c in data["changes"] if c["metric"] == "deletion"] == ["better"]


def test_lost_scores_are_a_regression(lab, tmp_path):
    a = lab.run(tmp_path / "a", explainers=("leave-one-out",), budgets=(20,))
    b = lab.run(tmp_path / "b", explainers=("leave-one-out",), budgets=(20,))
    (file,) = b.rglob("deletion@1.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0] |= {"values": {}, "undefined": {"attribution": "gone"}}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lab.reseal(b)
    (change,) = compare_runs(read_run(a), read_run(b)).worse
    assert change.verdict == "WORSE, 1 lost"


def test_what_changed_is_listed(lab, tmp_path):
    a = lab.run(tmp_path / "a", explainers=("zero",), budgets=(5,))
    b = lab.run(tmp_path / "b", lab.subject(shift=0.4), explainers=("zero", "random"), budgets=(5,))
    data = json.loads((b / "run.json").read_text())
    data["calls"][-1]["packages"]["torch"] = "9.9"
    (b / "run.json").write_text(json.dumps(data))
    found = compare_runs(read_run(a), read_run(b))
    changed = {what: (old, new) for what, old, new in found.provenance}
    assert changed["package torch"][1] == "9.9"
    assert "weights of synthetic-slalom · slalom-transformer" in changed
    assert changed["version of explainer random"] == ("absent", "1")
    assert all("random" in str(key) for key in found.only_b)
    assert len(found.only_b) == 2


def test_runs_with_nothing_in_common_are_refused(lab, tmp_path):
    a = lab.run(tmp_path / "a", explainers=("zero",), budgets=(5,))
    b = lab.run(tmp_path / "b", explainers=("random",), budgets=(5, 6))
    with pytest.raises(
        InvalidInput, match=r"no explainer with the same metric in common on synthetic-slalom.* budget 5 "
    ):
        compare_runs(read_run(a), read_run(b))


def test_two_budgets_and_another_seed_are_compared_and_said(lab, tmp_path, capsys):
    a = lab.run(tmp_path / "a", explainers=("random", "leave-one-out"), budgets=(20, 30))
    b = lab.run(tmp_path / "b", explainers=("random", "leave-one-out"), budgets=(40,), seeds=(1,))
    with pytest.raises(InvalidInput, match="--budgets"):
        compare_runs(read_run(a), read_run(b))
    inside = compare_runs(read_run(a), read_run(a), (20, 30))
    assert {change.key.table.split(" · ")[2] for change in inside.changes} == {"budget 20 -> 30"}
    assert (inside.only_a, inside.only_b, inside.provenance) == ([], [], [])
    changed = {what: (old, new) for what, old, new in compare_runs(read_run(a), read_run(b), (20, 40)).provenance}
    assert changed["seeds of random"] == ("[0]", "[1]")
    assert changed["budgets"] == ("[20, 30]", "[40]")
    compare_command(a, b, budgets=(20, 40))
    said = capsys.readouterr().out.split("Changed beside the scores:")[0]
    assert "deletion ↑, 8 samples" in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_comparison_reads_at_80_columns(finished, capsys):
    compare_command(finished, finished)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


# ---- export ----


def test_csv_and_parquet_hold_every_value(finished, tmp_path):
    run = read_run(finished)
    frame = scores(run)
    rows = [row for cell in run.cells for stored in cell.scores.values() for row in stored.values()]
    assert frame["value"].notna().sum() == sum(len(row["values"]) for row in rows)
    assert frame["reason"].notna().sum() == sum(len(row["undefined"]) for row in rows)
    read = pd.read_csv(export(read_run(finished), "csv", tmp_path / "x" / "scores.csv"), float_precision="round_trip")
    spent = read[read["metric"] == "cost"]
    read = read[read["metric"] != "cost"]
    np.testing.assert_array_equal(read["value"], frame["value"])
    asked = spent[spent["name"] == "queries"].set_index(["explainer", "model", "budget", "sample"])["value"]
    for cell in run.cells:
        said = cell.identity
        for sample in cell.explanations:
            stored = cell.costs[f"explain:{sample}"]["queries"]
            assert asked[said.explainer.title, said.model.name, said.budget, sample] == stored
    again = pd.read_parquet(export(read_run(finished), "parquet", tmp_path / "y" / "scores.parquet"))
    pd.testing.assert_frame_equal(again[again["metric"] != "cost"], frame, check_dtype=False)


def test_latex_has_a_table_for_each_board_and_bold_ties(finished, tmp_path):
    text = export(read_run(finished), "latex", tmp_path / "t.tex").read_text()
    assert text.count(r"\begin{tabular}") == 4
    assert r"\textbf{" in text
    assert "queries & seconds" in text
    assert r"deletion $\uparrow$" in text
    assert text.count("{") == text.count("}")


def test_latex_escapes():
    assert escape("a_b & 5% <x> ~^\\") == (
        r"a\_b \& 5\% \textless{}x\textgreater{} \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_an_unknown_format_and_a_bad_place_are_answered(finished, tmp_path):
    with pytest.raises(InvalidInput, match="one of csv, parquet, latex"):
        export(read_run(finished), "xlsx")
    (tmp_path / "file").write_text("")
    with pytest.raises((InvalidInput, StoreError), match="cannot write"):
        export(read_run(finished), "parquet", tmp_path / "file" / "x.parquet")


def test_stored_cells_are_read_only(finished, report):
    before = [cell.identity for cell in read_run(finished).cells]
    write_report(read_run(finished))
    assert [cell.identity for cell in read_run(finished).cells] == before
