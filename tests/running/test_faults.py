"""What must not end a run or be taken for what it is not: rows without JSON, late refusals, renumbered texts."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.commands.run import finish
from slalom_bench.contract.checking import check
from slalom_bench.core.options import Availability, ModelOptions, Outline
from slalom_bench.core.types import Explanation, Score
from slalom_bench.errors import StoreError
from slalom_bench.handle.backend import OutOfMemory
from slalom_bench.running.files import SCHEMA
from slalom_bench.running.progress import Reporter
from slalom_bench.running.runner import run_suite
from slalom_bench.running.store import RunStore
from slalom_bench.running.suite import make_suite


def texts(folder, ids=("1", "2")):
    rows = [
        {"id": ids[0], "text": "a fine film", "label": 1},
        {"id": ids[1], "text": "dull dull dull film", "label": 0},
    ]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return f"text:{folder / 't.jsonl'},id_column=id"


def register_words():
    class Words:
        """A bag of words that says nothing of itself before it is loaded."""

        def load(self, task, options):
            return bag_of_words({"a": 0.0, "fine": 1.0, "film": 0.1, "dull": -1.0}, specials=True)

        def availability(self, task_name, options):
            return Availability("built-in")

        def outline(self, task, options):
            return Outline()

    registry.model("words", version=1)(Words)


def go(folder, task, retry_failed=False, **values):
    defaults = {"name": "t", "models": ("words",), "explainers": ("zero",), "metrics": ("deletion",), "budgets": (20,)}
    suite = make_suite(tasks=(task,), **(defaults | values))
    return run_suite(suite, folder / "run", ModelOptions(device="cpu"), retry_failed=retry_failed)


def test_what_only_the_loaded_model_can_tell_is_a_skip_and_no_failed_cell(tmp_path, scratch):
    register_words()
    result = go(tmp_path, texts(tmp_path), explainers=("attention-avg", "zero"))
    assert (result.explained, result.failed) == (2, 0)
    assert [skip.reason for skip in result.skips] == ["model bag-of-words gives no attentions"]
    assert RunStore(tmp_path / "run").calls()[0]["skips"][0]["reason"] == "model bag-of-words gives no attentions"


@pytest.mark.parametrize("bad", [float("nan"), np.int64(3), "\ud800"])
def test_a_diagnostic_that_json_cannot_hold_is_an_error_row(tmp_path, scratch, bad):
    register_words()

    @registry.explainer("odd", version=1, needs=(), stochastic=False, family="other")
    class Odd:
        """Says something that cannot be stored."""

        def explain(self, classifier, sample, budget, rng):
            return Explanation({"x": np.zeros(len(sample))}, "x", diagnostics={"r2": bad})

    result = go(tmp_path, texts(tmp_path), explainers=("odd", "zero"))
    assert (result.explained, result.failed) == (4, 2)
    again = go(tmp_path, texts(tmp_path), explainers=("odd", "zero"))
    assert (again.explained, again.reused) == (0, 4)


def test_texts_under_other_ids_are_other_content(tmp_path, scratch):
    register_words()
    assert go(tmp_path, texts(tmp_path)).explained == 2
    assert go(tmp_path, texts(tmp_path)).reused == 2
    assert go(tmp_path, texts(tmp_path, ("2", "1"))).explained == 2


def test_a_directory_of_another_schema_is_not_touched(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"schema": SCHEMA - 1, "calls": []}))
    with pytest.raises(StoreError, match=f"schema {SCHEMA - 1}"):
        RunStore(tmp_path).open({})
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def register_stumbling(stumbles):
    """An explainer and a metric that raise what the lists hold, one an attempt, and then work."""

    @registry.explainer("stumbling", version=1, needs=(), stochastic=False, family="other")
    class Stumbling:
        """Fails at first."""

        def explain(self, classifier, sample, budget, rng):
            if stumbles["explain"]:
                raise stumbles["explain"].pop()
            return Explanation({"x": np.ones(len(sample))}, "x")

    @registry.metric("stumbles", version=1, needs=(), direction="higher", unit="", headline="x")
    class Stumbles:
        """Fails at first."""

        def score(self, classifier, sample, explanation, context):
            if stumbles["score"]:
                raise stumbles["score"].pop()
            return Score({"x": 1.0})


MOMENTS = (OSError(28, "No space left on device"), MemoryError(), TimeoutError("endpoint"), OutOfMemory("device"))


@pytest.mark.parametrize("where", ["explain", "score"])
@pytest.mark.parametrize("fault", MOMENTS, ids=lambda fault: type(fault).__name__)
def test_a_fault_of_the_moment_is_tried_again_by_the_next_run(tmp_path, scratch, where, fault):
    register_words()
    register_stumbling({"explain": [], "score": []} | {where: [fault]})
    what = {"explainers": ("stumbling",), "metrics": ("stumbles",)}
    first = go(tmp_path, texts(tmp_path), **what)
    assert (first.failed, first.passing, first.retried) == (1, 1, 0)
    again = go(tmp_path, texts(tmp_path), **what)
    assert (again.failed, again.passing, again.retried, again.reused) == (0, 0, 1, 1)
    (cell,) = RunStore(tmp_path / "run").cells()
    assert [row["values"] for row in cell.scores(cell.labels()[0]).rows.values()] == [{"x": 1.0}] * 2
    assert go(tmp_path, texts(tmp_path), **what).reused == 2


@pytest.mark.parametrize("where", ["explain", "score"])
def test_a_fault_of_the_method_is_kept_unless_asked_for(tmp_path, scratch, where):
    register_words()
    register_stumbling({"explain": [], "score": []} | {where: [ValueError("of the method")]})
    what = {"explainers": ("stumbling",), "metrics": ("stumbles",)}
    assert go(tmp_path, texts(tmp_path), **what).failed == 1
    kept = go(tmp_path, texts(tmp_path), **what)
    assert (kept.failed, kept.passing, kept.retried, kept.reused) == (1, 0, 0, 2)
    again = go(tmp_path, texts(tmp_path), retry_failed=True, **what)
    assert (again.failed, again.retried, again.reused) == (0, 1, 1)


def test_the_echo_of_a_failed_explanation_goes_with_it(tmp_path, scratch):
    """Killed after the explanation was tried again and before it was scored: the old score says it had failed."""
    register_words()
    register_stumbling({"explain": [MemoryError()], "score": []})
    what = {"explainers": ("stumbling",), "metrics": ("stumbles",)}
    go(tmp_path, texts(tmp_path), **what)
    (cell,) = RunStore(tmp_path / "run").cells()
    rows = cell.explanations.rows
    failed = next(name for name, row in rows.items() if "error" in row)
    other = next(row for row in rows.values() if "error" not in row)
    cell.uncommit()
    cell.explanations.append({**other, "id": failed, "n": 3, "explanation": {**other["explanation"]}})
    again = go(tmp_path, texts(tmp_path), **what)
    assert (again.explained, again.scored, again.failed) == (0, 1, 0)


def test_the_summary_says_which_failures_the_next_run_tries_again(tmp_path, scratch, capsys):
    register_words()
    register_stumbling({"explain": [MemoryError(), ValueError("x")], "score": []})
    with pytest.raises(typer.Exit):
        finish(go(tmp_path, texts(tmp_path), explainers=("stumbling",), metrics=("stumbles",)), Reporter(), True)
    said = capsys.readouterr().err
    assert "1 samples failed by a fault of the moment" in said
    assert "1 samples failed; their rows" in said


@pytest.mark.parametrize("where", ["explain", "score"])
def test_a_plug_in_that_quits_is_an_error_row_and_no_end_of_the_run(tmp_path, scratch, where):
    register_words()
    register_stumbling({"explain": [], "score": []} | {where: [SystemExit(0)]})
    result = go(tmp_path, texts(tmp_path), explainers=("stumbling",), metrics=("stumbles",))
    assert (result.explained, result.failed, result.passing) == (2, 1, 0)


def test_a_plug_in_that_quits_does_not_keep_the_contract(scratch):
    class Quitting:
        """Calls sys.exit(0)."""

        def explain(self, classifier, sample, budget, rng):
            raise SystemExit(0)

    (finding,) = check(Quitting(), rules=["shape"]).findings
    assert (finding.verdict, "sys.exit(0)" in finding.fact) == ("fail", True)
