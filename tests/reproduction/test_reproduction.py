"""Entries of the papers: all of them are there and valid, and the engine's numbers and verdicts are right by hand."""

import json
import os

import pandas as pd
import pytest
from typer.testing import CliRunner

from slalom_bench.cli import app
from slalom_bench.core.options import ModelOptions
from slalom_bench.errors import InvalidInput
from slalom_bench.reproduction import engine
from slalom_bench.reproduction import entry as entry_module
from slalom_bench.reproduction.engine import reproduce, reproduce_all
from slalom_bench.reproduction.entry import Entry, Layout, entries, find_entries, parse_entry
from slalom_bench.reproduction.record import read_state, record_path, write_record
from slalom_bench.reproduction.rendering import as_html, as_markdown
from slalom_bench.reproduction.values import COLUMNS, Filled, Value, fill
from slalom_bench.reproduction.verdict import judge
from slalom_bench.running.progress import Reporter

NAMES = [
    "fig-1",
    "fig-3",
    "fig-4ab",
    "fig-4cd",
    "fig-5",
    "fig-6",
    "fig-7",
    "fig-9",
    "fig-11",
    "fig-12",
    "table-1a",
    "table-1b",
    "table-1c",
    "table-2",
    "table-4",
    "table-6",
    "table-7",
    "table-8",
    "table-9",
    "table-10",
    "table-11a",
    "table-11b",
    "table-11c",
    "table-12",
    "table-13a",
    "table-13b",
    "table-14",
    "table-15",
    "attention-fig-1",
    "attention-fig-3",
    "attention-fig-4",
    "attention-fig-5",
    "attention-fig-6",
]

TINY = """
paper = "slalom"
what = "Figure 0"
title = "A model that is linear"
says = "It adds up."
protocols = ["bench"]
minutes = 0.1
[suite]
tasks = ["synthetic-linear:texts=perfect*3|worst perfect"]
models = ["bag-of-words"]
explainers = ["zero", "leave-one-out"]
metrics = ["log-odds"]
budgets = [50]
samples = 9
[layout]
kind = "lines"
metric = "log-odds"
x = "length"
at = "last"
[layout.rows]
repeated = { sample = ["given-0", "given-1", "given-2"], explainer = "zero" }
[layout.columns]
model = { name = "model" }
truth = { name = "truth" }
[[agreement.claims]]
says = "the model is the truth"
less = ["model", "truth"]
factor = 1.0001
"""


def test_every_table_and_figure_is_an_entry_in_the_order_of_the_papers():
    assert list(entries()) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_suite_names_what_is_registered(name, scale):
    found = entries()[name]
    for protocol in found.protocols:
        suite = found.suite_of(scale, protocol)
        suite.check_names()
        assert suite.protocol == protocol


def test_every_selector_can_match_its_suite():
    """A model, explainer, budget or metric that a layout picks is in the suite of one scale at least."""
    for found in entries().values():
        suites = [found.suite_of(scale, found.protocols[0]) for scale in ("quick", "paper")]
        known = {
            "model": {model for suite in suites for model in suite.models},
            "explainer": {explainer for suite in suites for explainer in suite.explainers},
            "budget": {budget for suite in suites for budget in suite.budgets},
            "metric": {metric.split(":")[0] for suite in suites for metric in suite.metrics},
        }
        for selector in (*found.layout.rows.values(), *found.layout.columns.values()):
            for field, wanted in selector.items():
                if field in known:
                    asked = set(wanted if isinstance(wanted, list) else [wanted])
                    assert asked & known[field], (found.name, field, asked)


def tiny(**changes):
    return parse_entry("tiny", TINY).model_copy(update=changes)


RECORD = {"definition": "x", "problem": "", "protocols": {"bench": {"verdict": "agrees"}}}
FORGED = {
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "digits": b'{"definition": ' + b"9" * 5000 + b"}",
    "half a character": json.dumps({**RECORD, "protocols": {"bench": {"verdict": "\ud800"}}}).encode(),
    "steers": json.dumps({**RECORD, "protocols": {"bench": {"verdict": "\x1b[31magrees\nfig-3 agrees"}}}).encode(),
    "another protocol": json.dumps({**RECORD, "protocols": {"\x1b[2J": {"verdict": "agrees"}}}).encode(),
    "no word": json.dumps({**RECORD, "protocols": {"bench": {"verdict": ["agrees"]}}}).encode(),
}


@pytest.mark.parametrize("kind", [*FORGED, "fifo", "zero", "folder"])
def test_a_record_that_we_cannot_have_written_is_none(tmp_path, kind):
    path = record_path(tmp_path, "quick", "tiny")
    path.parent.mkdir()
    path.write_text(json.dumps(RECORD))
    assert read_state(tiny(), tmp_path, "quick") == ("changed since", {"bench": "agrees"})
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(FORGED[kind])
    assert read_state(tiny(), tmp_path, "quick") == ("not run", {})


def test_an_entry_runs_is_recorded_and_shown(tmp_path, monkeypatch):
    found = reproduce(tiny(), tmp_path, "quick", ModelOptions(), Reporter(show=False))
    measured = found.measured["bench"]
    assert dict(measured.filled.lines["repeated", "model"]) == pytest.approx({1.0: 1.5, 2.0: 3.0, 3.0: 4.5})
    assert measured.filled.cells["repeated", "truth"] == Value(pytest.approx(4.5), None, 1)
    assert (found.complete, found.verdict.word) == (True, "agrees")
    assert read_state(tiny(), tmp_path, "quick") == ("not run", {})
    kept = json.loads(write_record(found, tmp_path).read_text())
    assert [cell["mean"] for cell in kept["protocols"]["bench"]["cells"]] == pytest.approx([4.5, 4.5])
    assert read_state(tiny(), tmp_path, "quick") == ("complete", {"bench": "agrees"})
    assert read_state(tiny(title="Another"), tmp_path, "quick")[0] == "changed since"
    assert "| repeated | model" in as_markdown([found])
    assert "<svg" in as_html([found])
    # by the command line: listed, run, nothing computed again
    monkeypatch.setattr(entry_module, "entries", lambda: {"tiny": tiny()})
    runner = CliRunner()
    again = runner.invoke(app, ["reproduce", "tiny", "--out", str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "quick" / "report.html").is_file()
    calls = json.loads((tmp_path / "run-quick" / "run.json").read_text())
    assert len(calls["calls"] if isinstance(calls, dict) else calls) == 2


def suite_with(**fields):
    return {**tiny().suite, **fields}


def test_cheap_entries_go_first_and_one_that_fails_does_not_stop_the_rest(tmp_path, monkeypatch):
    failing = tiny(name="failing", minutes=0.05, suite=suite_with(explainers=["no-such-explainer"]))
    made = {"tiny": tiny(minutes=0.1), "failing": failing, "cheapest": tiny(name="cheapest", minutes=0.01)}
    monkeypatch.setattr(entry_module, "entries", lambda: made)
    result = CliRunner().invoke(app, ["reproduce", "all", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert [read_state(one, tmp_path, "quick")[0] for one in made.values()] == ["complete", "failed", "complete"]
    report = (tmp_path / "quick" / "report.md").read_text()
    assert "3 tables and figures: 2 agrees, 1 not measured" in report
    assert "no-such-explainer" in report
    order = [report.index(f"| {name} ") for name in made]  # in the report they stand in the order of the papers
    assert order == sorted(order)
    calls = json.loads((tmp_path / "run-quick" / "run.json").read_text())["calls"]
    assert [call["suite"]["name"] for call in calls] == ["reproduce-cheapest", "reproduce-tiny"]


def test_the_report_is_there_after_each_entry(tmp_path):
    seen = []
    chosen = [tiny(minutes=0.2), tiny(name="first", minutes=0.1)]
    reproduce_all(
        chosen, tmp_path, "quick", ModelOptions(), Reporter(show=False), lambda one, found: seen.append(found)
    )
    words = [[one.verdict.word for one in found] for found in seen]
    assert words == [["not measured", "agrees"], ["agrees", "agrees"]]


def test_an_entry_is_of_its_own_texts_whatever_others_have_in_the_same_cell(tmp_path):
    whole = reproduce(tiny(), tmp_path, "quick", ModelOptions(), Reporter(show=False))
    assert len(whole.measured["bench"].filled.lines["repeated", "model"]) == 3
    first = tiny(suite=suite_with(samples=1))
    found = reproduce(first, tmp_path, "quick", ModelOptions(), Reporter(show=False)).measured["bench"]
    assert found.run.cells[0].identity.key in {cell.identity.key for cell in whole.measured["bench"].run.cells}
    assert len(found.filled.lines["repeated", "model"]) == 1


def test_stopped_by_the_user_the_report_names_what_was_not_reached(tmp_path, monkeypatch):
    made = {"tiny": tiny(minutes=0.1), "later": tiny(name="later", minutes=0.2)}
    monkeypatch.setattr(entry_module, "entries", lambda: made)
    real = engine.run_suite

    def stops(suite, *args, **options):
        if suite.name == "reproduce-later":
            raise KeyboardInterrupt
        return real(suite, *args, **options)

    monkeypatch.setattr(engine, "run_suite", stops)
    result = CliRunner().invoke(app, ["reproduce", "all", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "1 agrees, 1 not measured" in (tmp_path / "quick" / "report.md").read_text()
    monkeypatch.setattr(engine, "run_suite", real)
    assert CliRunner().invoke(app, ["reproduce", "all", "--out", str(tmp_path)]).exit_code == 0
    assert "2 tables and figures: 2 agrees." in (tmp_path / "quick" / "report.md").read_text()


def test_scores_costs_and_likeness_of_a_run(tmp_path):
    layout = {"kind": "table", "metric": "against", "against": "leave-one-out"}
    changed = Layout(**layout, rows={"r": {"explainer": "zero"}}, columns={"c": {"name": "distance"}})
    found = reproduce(tiny(layout=changed), tmp_path, "quick", ModelOptions(), Reporter(show=False))
    assert found.measured["bench"].filled.cells["r", "c"].mean == pytest.approx(1.0)  # zero is all of it away
    scores = Layout(
        kind="lines", metric="scores", x="length", rows={"r": {"explainer": "leave-one-out"}}, columns={"c": {}}
    )
    found = reproduce(tiny(layout=scores), tmp_path, "quick", ModelOptions(), Reporter(show=False))
    assert dict(found.measured["bench"].filled.lines["r", "c"])[3.0] == pytest.approx(1.5)


def long(*rows):
    return pd.DataFrame(
        [("t", model, "e", 10, seed, sample, 3, "m", name, value) for model, seed, sample, name, value in rows],
        columns=list(COLUMNS),
    )


def test_cells_are_means_over_texts_of_means_over_seeds():
    table = long(("a", 0, "x", "v", 1.0), ("a", 1, "x", "v", 3.0), ("a", 0, "y", "v", 6.0), ("b", 0, "x", "v", 9.0))
    layout = Layout(
        kind="table",
        metric="m",
        factor=10,
        rows={"A": {"model": "a"}, "C": {"model": "c"}},
        columns={"V": {"name": "v"}},
    )
    filled = fill(table, layout)
    assert filled.cells["A", "V"] == Value(pytest.approx(40.0), pytest.approx(20.0), 2)
    assert filled.cells["C", "V"] is None


def test_costs_are_medians_since_the_first_text_warms_up():
    table = long(*(("a", 0, sample, "v", seconds) for sample, seconds in (("x", 9.0), ("y", 1.0), ("z", 2.0))))
    rows, columns = {"A": {"model": "a"}}, {"V": {"name": "v"}}
    seconds = fill(table.assign(metric="cost"), Layout(kind="table", metric="cost", rows=rows, columns=columns))
    assert seconds.cells["A", "V"] == Value(2.0, None, 3)


def test_the_report_says_the_size_and_what_has_no_value(tmp_path):
    layout = tiny().layout.model_dump() | {"rows": {"repeated": {}, "elsewhere": {"model": "no-such-model"}}}
    found = reproduce(tiny(layout=Layout(**layout)), tmp_path, "quick", ModelOptions(), Reporter(show=False))
    for shown in (as_markdown([found]), as_html([found])):
        assert "Texts: 9 at most. Models: bag-of-words. Queries: 50. Seeds: 0. Removal: delete." in shown
        assert "Without a value at this scale: elsewhere." in shown
    assert "| elsewhere" not in as_markdown([found])


def test_rows_and_columns_intersect_and_sums_need_all_their_parts():
    table = long(("a", 0, "x", "v", 1.0), ("a", 0, "x", "w", 2.0), ("b", 0, "x", "v", 5.0))
    rows = {"A": {"model": "a", "name": ["v", "w"]}, "B": {"model": "b"}}
    layout = Layout(
        kind="table",
        rows=rows,
        columns={"V": {"name": "v"}, "W": {"name": "w"}},
        sums={"A+B": ["A", "B"], "A-B": ["A", "-B"]},
    )
    cells = fill(table, layout).cells
    assert (cells["A", "V"].mean, cells["A", "W"].mean, cells["A+B", "V"].mean, cells["A+B", "W"]) == (1, 2, 6, None)
    assert (cells["A-B", "V"].mean, cells["A-B", "W"]) == (-4, None)


def entry(published=None, rows=("r",), columns=("a", "b", "c"), **agreement):
    return Entry(
        name="e", paper="slalom", what="T", title="t", says="s", suite={}, minutes=1, published=published or {},
        agreement=agreement,
        layout={"kind": "table", "rows": {row: {} for row in rows}, "columns": {column: {} for column in columns}},
    )  # fmt: skip


def measured(*values, row="r"):
    return Filled({(row, name): Value(v, None, 1) for name, v in zip("abc", values, strict=True) if v is not None}, {})


def test_verdicts_by_hand():
    ordered = entry({"r": [1, 2, "<3"]}, order=0.9)
    assert judge(ordered, measured(10.0, 20.0, 30.0)).word == "agrees"
    assert judge(ordered, measured(30.0, 20.0, 10.0)).word == "differs"
    near = entry({"r": [1, 2, "-"]}, within=0.5)
    assert judge(near, measured(1.4, 2.0, 99.0)).word == "agrees"
    assert judge(near, measured(1.6, 2.0, 99.0)).word == "differs"
    claims = entry(
        claims=[{"says": "a is small", "less": ("a", "b"), "factor": 0.5}, {"says": "c is below 1", "less": ("c",)}]
    )
    assert judge(claims, measured(0.9, 2.0, 0.5)).word == "agrees"
    verdict = judge(claims, measured(1.1, 2.0, 0.5))
    assert (verdict.word, "Not so: a is small (in 0 of 1)" in verdict.sentence) == ("differs", True)
    assert judge(claims, measured(None, 2.0, 0.5)).word == "agrees"  # what was not measured is no counterexample
    assert judge(entry(why="a picture"), measured(1.0, 1.0, 1.0)) == judge(
        entry(why="a picture"), measured(2.0, 1.0, 1.0)
    )
    assert judge(entry(why="a picture"), measured(1.0, 1.0, 1.0)).word == "cannot be compared"
    assert judge(claims, Filled({}, {})).word == "not measured"


def test_sizes_and_rows_in_claims():
    claim = {"says": "they cancel", "less": ("r", "q"), "factor": 0.5, "absolute": True}
    cells = {("r", "a"): Value(-0.1, None, 1), ("q", "a"): Value(-2.0, None, 1)}
    assert judge(entry(rows=("r", "q"), claims=[claim]), Filled(cells, {})).word == "agrees"
    signed = claim | {"absolute": False}
    assert judge(entry(rows=("r", "q"), claims=[signed]), Filled(cells, {})).word == "differs"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('kind = "lines"|kind = "circle"', "kind"),
        ('x = "length"|', "lines need an x"),
        ('{ name = "model" }|{ colour = "red" }', "colour"),
        ('less = ["model", "truth"]|less = ["model", "myth"]', "myth"),
        ("[suite]|[published]\nrepeated = [1.0]\n[suite]", "1 of 2 columns"),
        ("says = |says ", "tiny.toml"),
    ],
)
def test_a_bad_entry_is_refused_with_its_fault(change, said):
    old, new = change.split("|")
    with pytest.raises(InvalidInput, match=said):
        parse_entry("tiny", TINY.replace(old, new))


def test_unknown_entries_and_nothing_asked_for():
    with pytest.raises(InvalidInput, match="no entry 'table-99'; there are: all, fig-1"):
        find_entries(["table-99"])
    assert len(find_entries(["all"])) == len(NAMES)
    result = CliRunner().invoke(app, ["reproduce", "--list", "--json"])
    assert [row["name"] for row in json.loads(result.output)] == NAMES
