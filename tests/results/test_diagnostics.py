"""What methods say of themselves, from the stored explanation to every board."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from slalom_bench.results.boards import boards
from slalom_bench.results.collect import collect
from slalom_bench.results.diagnostics import average
from slalom_bench.results.reading import read_run
from slalom_bench.results.submission import Submission, read_submission, to_text
from slalom_bench.showing import besides, markdown, wording
from slalom_bench.showing.leaderboard import generate
from slalom_bench.showing.report import write_report

RESULTS = Path(__file__).parents[2] / "leaderboards" / "results"


def test_booleans_are_shares_gaps_have_no_sign_and_the_rest_is_left_out():
    reports = [
        {"mse": 1.0, "completeness_gap": -1.0, "converged": True, "anchor": [1, 2], "log_odds": 3.0, "rank": 4},
        {"mse": 4.0, "completeness_gap": 3.0, "converged": True, "r2": float("nan"), "rank": "full"},
        {"completeness_gap": 0.5, "converged": False, "standard_error": [0.1, 0.3]},
        {"standard_error": [0.4]},
        {},
    ]
    found = {"mse": 2.5, "standard_error": 0.3, "completeness_gap": 1.5, "converged": 0.666667, "rank": 4.0}
    assert average(reports) == found
    assert average([]) == {}


@pytest.fixture(scope="module")
def told(lab, tmp_path_factory) -> Path:
    explainers = ("linear-deletion", "slalom-fidel", "integrated-gradients", "zero")
    chosen = {"explainers": explainers, "metrics": ("strict-fidelity:largest=2", "deletion", "decision-flip")}
    return lab.run(tmp_path_factory.mktemp("told") / "run", budgets=(60,), seeds=(0, 1), **chosen)


def test_the_means_of_a_row_are_over_its_texts_and_seeds(told):
    run = read_run(told)
    (collected,) = collect(run)
    rows = {row.explainer.name: row for row in collected.submission.rows}
    stored = [
        row["explanation"]["diagnostics"]
        for cell in run.cells
        if cell.identity.explainer.name == "slalom-fidel"
        for row in cell.explanations.values()
    ]
    assert len(stored) == 18
    told_of = rows["slalom-fidel"].diagnostics
    assert told_of["mse"] == pytest.approx(fmean(report["mse"] for report in stored), rel=1e-5)
    assert told_of["converged"] == pytest.approx(fmean(report["converged"] for report in stored), rel=1e-5)
    assert {"completeness_gap", "converged", "steps"} <= set(rows["integrated-gradients"].diagnostics)
    assert rows["zero"].diagnostics == {}


def test_report_leaderboard_and_page_show_them(told):
    submission = collect(read_run(told))[0].submission
    (board,) = boards([submission])
    spelled = {row.name: wording.diagnostics(row.diagnostics) for row in board.rows}
    assert "converged 100 %" in spelled["integrated-gradients"]
    assert spelled["slalom-fidel"].startswith("mse ")
    assert spelled["zero"] == ""
    pages = generate([submission])
    files = [path.read_text(encoding="utf-8") for path in write_report(read_run(told))]
    behind = [text for name, text in pages.items() if name.startswith("synthetic-slalom/")]
    for text in (*behind, *files):
        assert all(words in text for words in spelled.values())
        assert wording.DIAGNOSTICS in text
    (line,) = [line for line in markdown.cost(board).splitlines() if line.startswith("| zero")]
    assert line.split("|")[-2].strip() == "-"


def test_every_page_says_the_fitting_law_and_what_qualifies_the_headlines(told):
    submission = collect(read_run(told))[0].submission
    assert {row.explainer.name: row.law for row in submission.rows} == {
        "linear-deletion": "0 to 5 random deletions",
        "slalom-fidel": "0 to 5 random deletions",
        "integrated-gradients": "",
        "zero": "",
    }
    (board,) = boards([submission])
    lines = {name: cells for name, *cells in besides.rows(board)}
    assert lines["slalom-fidel"][0] == "0 to 5 random deletions"
    assert lines["zero"][0] == "-"
    label = next(label for label, info in board.metrics.items() if info.name == "decision-flip")
    parts = next(row for row in board.rows if row.name == "linear-deletion").cells[label].result.parts
    said = f"never {parts['never']:.0%}"
    assert lines["linear-deletion"] == ["0 to 5 random deletions", said]
    assert besides.columns(board) == ["explainer", "fitted to", "decision-flip ↓"]
    assert besides.WORDS["never"] in besides.note(board)
    files = [path.read_text(encoding="utf-8") for path in write_report(read_run(told))]
    for text in (generate([submission])["synthetic-slalom/tables.html"], *files):
        assert said in text
        assert besides.TITLE in text


def test_a_file_without_them_is_read_and_keeps_its_name(told):
    submission = collect(read_run(told))[0].submission
    data = json.loads(to_text(submission))
    for row in data["rows"]:
        del row["diagnostics"]
        row.pop("law", None)
    del data["model"]["training"]
    older = Submission.model_validate(data)
    assert older.file_name == submission.file_name
    assert all(row.diagnostics == {} for row in older.rows)
    (board,) = boards([older])
    assert "diagnostics" not in markdown.cost(board)
    assert ("training", "unknown") in wording.facts(board)


@pytest.mark.skipif(not RESULTS.is_dir(), reason="not a checkout")
def test_committed_files_are_read_under_their_names():
    paths = sorted(RESULTS.glob("*.json"))
    assert paths
    assert [read_submission(path).file_name for path in paths] == [path.name for path in paths]
