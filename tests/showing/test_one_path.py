"""One run with failures and undefined scores, told alike by terminal, report, submission, comparison and export."""

from __future__ import annotations

import json
import re
from statistics import fmean

import pytest
import typer

import slalom_bench as sb
from slalom_bench import registry
from slalom_bench.commands.run import finish
from slalom_bench.core.types import Explanation, Score
from slalom_bench.errors import StoreError
from slalom_bench.results.boards import boards
from slalom_bench.results.collect import collect, submit
from slalom_bench.results.comparison import compare_runs
from slalom_bench.results.reading import read_run
from slalom_bench.results.submission import read_submission
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.progress import Reporter
from slalom_bench.running.suite import make_suite
from slalom_bench.showing.export import latex, scores
from slalom_bench.showing.leaderboard import generate
from slalom_bench.showing.report import write_report
from slalom_bench.showing.wording import number

LENGTH = MetricLabel.of("length", 1)


@pytest.fixture
def plugins(scratch):
    """An explainer that fails on one sample, and metrics that fail, are undefined, draw a curve, tell of the model."""

    @sb.explainer("touchy", version=1, needs=(), stochastic=True, family="moody")
    class Touchy:
        """Fails on the sample s3."""

        def explain(self, classifier, sample, budget, rng):
            if sample.id == "s3":
                raise ValueError("not this one")
            return Explanation({"x": rng.normal(size=len(sample))}, "x")

    @sb.metric(
        "length", version=1, needs=(), direction="higher", unit="words", headline="n", order=5, curve="the place"
    )
    class Length:
        """Fails on s1, undefined on s2, else the number of tokens."""

        def score(self, classifier, sample, explanation, context):
            if sample.id == "s1":
                raise ValueError("no")
            if sample.id == "s2":
                return Score({"k1": 1.0}, {"n": "too dull"})
            n = len(sample) / 3
            return Score({"n": n, "k1": n, "k2": 2 * n, "k10": 10 * n})

    @sb.metric("mood", version=1, needs=(), direction="lower", unit="", headline="m", level="model")
    class Mood:
        """Of the model alone."""

        def score(self, classifier, sample, explanation, context):
            return Score({"m": float(len(sample)), "also": 1.0})


def suite(**values):
    known = {
        "name": "test",
        "tasks": ("synthetic-slalom",),
        "models": ("slalom-transformer",),
        "budgets": (20,),
        "explainers": ("touchy", "leave-one-out"),
        "metrics": ("length", "deletion", "mood"),
        "seeds": (0, 1),
    }
    return make_suite(**(known | values))


def told(result, capsys, as_json=True):
    """What the command says at its end."""
    capsys.readouterr()
    with pytest.raises(typer.Exit) as caught:
        finish(result, Reporter(show=False), as_json)
    assert caught.value.exit_code == 1
    out = capsys.readouterr().out
    return json.loads(out) if as_json else out


@pytest.fixture
def mixed(lab, tmp_path, plugins):
    """The result of such a run, what was read of it, and the rows of its submission, read from the file."""
    result = lab.call(tmp_path / "run", suite())
    run = read_run(tmp_path / "run")
    (path,) = submit(run, tmp_path / "results")
    return result, run, {row.explainer.name: row for row in read_submission(path).rows}


def test_the_submission_counts_what_the_store_holds(mixed):
    result, run, rows = mixed
    cell = next(cell for cell in run.cells if cell.identity.explainer.name == "leave-one-out")
    expected = fmean(row["values"]["n"] for row in cell.scores[LENGTH].values() if "n" in row["values"])
    one, touchy = rows["leave-one-out"].results[LENGTH], rows["touchy"].results[LENGTH]
    assert (one.mean, one.n, one.undefined) == (pytest.approx(expected, rel=1e-5), 7, 2)
    assert (touchy.n, touchy.undefined) == (6, 3)
    assert touchy.reasons == {"failed: NotExplained": 1, "failed: ValueError": 1, "too dull": 1}
    # touchy: s3 and s1 in each of two seeds; the other: s1 in its one seed
    assert (rows["touchy"].failed, rows["leave-one-out"].failed) == (4, 1)
    assert rows["touchy"].failures == {"ValueError": 4}
    assert result.failed == 5


def test_the_terminal_and_its_json_say_the_same(mixed, capsys):
    result, _, rows = mixed
    data = told(result, capsys)
    (group,) = data["groups"]
    assert group["failed"] == {name: row.failed for name, row in rows.items()}
    assert data["failed"] == sum(group["failed"].values())
    entries = {entry["explainer"]: entry for entry in group["metrics"]["length@1"]}
    for name, row in rows.items():
        said = row.results[LENGTH]
        keys = ("mean", "n", "undefined", "low", "high", "standard_error")
        assert [entries[name][key] for key in keys] == [getattr(said, key) for key in keys]
    assert list(group["metrics"]) == ["length@1", "deletion@1"]
    assert group["model_metrics"]["mood@1"]["values"].keys() == {"also", "m"}
    text = told(result, capsys, as_json=False)
    for name, row in rows.items():
        said = row.results[LENGTH]
        assert re.search(rf"{name} .*{said.mean:.3g}\*?  *\({said.undefined}\).* {row.failed}\n", text), name


def test_the_report_says_the_same(mixed):
    _, run, rows = mixed
    markdown = write_report(run)[0].read_text()
    for name, row in rows.items():
        said = row.results[LENGTH]
        mean = re.escape(number(said.mean))
        assert re.search(rf"\| {name} +\| \**{mean}\** \[.*?, {said.undefined} undefined", markdown), name
        assert re.search(rf"^\| {name} .*\| +{row.failed} \|$", markdown, re.M), name
    assert "27 samples explained; 5 of them failed" in markdown
    assert re.search(r"touchy, budget 20 +\| explaining +\| ValueError: not this one +\| +2 \|", markdown)
    assert re.search(r"touchy, budget 20 +\| length@1 +\| ValueError: no +\| +2 \|", markdown)


def test_a_metric_that_declares_a_curve_has_one(mixed):
    markdown, page = (path.read_text() for path in write_report(mixed[1]))
    head = r"\| explainer +\| +k1 \| +k2 \| +k10 \|"
    assert re.search(rf"length against the place.*\n\nMean at each k, words:\n\n{head}", markdown)
    assert "<b>length against the place</b>" in page
    assert "deletion against the" not in page


def test_exports_say_the_same(mixed):
    _, run, rows = mixed
    for row in rows.values():
        assert number(row.results[LENGTH].mean) in latex(run)
    frame = scores(run)
    one = rows["leave-one-out"].results[LENGTH]
    own = frame[(frame["explainer"] == "leave-one-out") & (frame["metric"] == "length@1") & (frame["name"] == "n")]
    assert own["value"].mean() == pytest.approx(one.mean, rel=1e-5)
    assert own["value"].notna().sum() == one.n
    failed = frame[frame["reason"].str.startswith("failed", na=False)]
    samples = failed.drop_duplicates(["explainer", "sample", "seed"])
    assert samples["explainer"].value_counts().to_dict() == {name: row.failed for name, row in rows.items()}


def test_a_comparison_pairs_the_same_samples(mixed):
    _, run, rows = mixed
    changes = {(change.key.explainer, change.key.metric): change for change in compare_runs(run, run).changes}
    fewest = min(row.results[LENGTH].n for row in rows.values())
    assert {changes[name, "length"].n for name in rows} == {fewest}, "the samples that all of them define"
    assert changes["the model itself", "mood"].n == 9
    assert all(change.lost == 0 for change in changes.values())


def test_the_terminal_shows_the_cells_of_its_own_call(lab, tmp_path, capsys, plugins):
    lab.call(tmp_path / "run", suite(budgets=(30,), explainers=("zero", "random"), metrics=("deletion",)))
    result = lab.call(tmp_path / "run", suite(explainers=("touchy",)))
    (group,) = told(result, capsys)["groups"]
    assert (group["budget"], list(group["failed"])) == (20, ["touchy"])
    text = told(result, capsys, as_json=False)
    assert "budget 20" in text
    assert "budget 30" not in text
    assert "the model itself, mood ↓" in text
    assert len(boards([c.submission for c in collect(read_run(tmp_path / "run"))])) == 2


def test_scores_of_a_metric_that_is_not_installed_break_nothing(lab, tmp_path, plugins):
    lab.call(tmp_path / "run", suite(explainers=("leave-one-out",)))
    whole = [read_submission(path) for path in submit(read_run(tmp_path / "run"), tmp_path / "results")]
    for name in ("length", "mood"):
        del registry.metrics._entries[name]
    run = read_run(tmp_path / "run")
    markdown = write_report(run)[0].read_text()
    assert "metric length@1 has scores here but is not registered: install the package that brings length" in markdown
    assert "deletion ↑" in markdown
    assert "length ↑" not in markdown
    assert set(scores(run)["metric"]) == {"deletion@1", "length@1", "mood@1"}
    with pytest.raises(StoreError, match="install the package that brings length"):
        submit(run, tmp_path / "less")
    assert compare_runs(run, run).worse == []
    # a submission says itself what its metrics are
    page = generate(whole)["synthetic-slalom/slalom-transformer-20.md"]
    assert re.search(r"\| explainer +\| length ↑ +\| deletion ↑", page)
    assert "The model itself, mood ↓" in page
    assert "length against the place" in page


def test_samples_that_are_not_computed_yet_are_not_lost(lab, tmp_path):
    a = lab.run(tmp_path / "a", explainers=("zero", "leave-one-out"), budgets=(20,))
    b = lab.run(tmp_path / "b", explainers=("zero", "leave-one-out"), budgets=(20,))
    store = next(path for path in (b / "cells").iterdir() if "leave-one-out" in path.name)
    (store / "done.json").unlink()
    for file in [store / "explanations.jsonl", *(store / "scores").glob("*.jsonl")]:
        file.write_text("".join(file.read_text().splitlines(True)[:4]))
    found = compare_runs(read_run(a), read_run(b))
    assert found.worse == []
    (change,) = [c for c in found.changes if c.key.explainer == "leave-one-out" and c.key.metric == "deletion"]
    assert change.n == 4


def test_a_run_with_nothing_finished_has_no_tables_and_no_report(lab, tmp_path, capsys):
    result = lab.call(tmp_path / "run", suite(explainers=("zero",), metrics=("deletion",), seeds=(0,)))
    result.identities.clear()
    finish(result, Reporter(show=False), as_json=True)
    assert json.loads(capsys.readouterr().out)["groups"] == []
    for file in (tmp_path / "run").rglob("*.jsonl"):
        file.unlink()
    next((tmp_path / "run").rglob("done.json")).unlink()
    with pytest.raises(StoreError, match="holds no finished cell yet"):
        write_report(read_run(tmp_path / "run"))
