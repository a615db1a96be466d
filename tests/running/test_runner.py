"""Running cells: resume, failure rows, budgets, seeds, skips, and the same bytes after any number of kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slalom_bench import registry
from slalom_bench.api import build_suite, run
from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.core.types import DataSource, Example, Explanation, Score, TaskData
from slalom_bench.errors import InvalidInput, StoreError
from slalom_bench.handle.classifier import Classifier
from slalom_bench.results.collect import submit
from slalom_bench.results.reading import read_run
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.loading import LoadedTask, Loader, Subject
from slalom_bench.running.opened import count_failed
from slalom_bench.running.plan import make_plan
from slalom_bench.running.records import error_row
from slalom_bench.running.runner import Runner, RunResult
from slalom_bench.running.store import CellStore, Rows, RunStore
from slalom_bench.running.suite import make_suite
from slalom_bench.surrogates.linear import LinearSurrogate

VALUE = {"good": 1.0, "bad": -1.0, "film": 0.1, "the": 0.0, "very": 0.3}
IMPORTANCE = {"good": 1.0, "bad": 1.2, "film": -0.5, "the": -1.0, "very": -0.7}
TEXTS = ("the very good film", "the bad film", "good good bad very the film", "bad")


def subject(texts=TEXTS) -> Subject:
    examples = tuple(Example(f"s{i}", text, label=i % 2) for i, text in enumerate(texts))
    data = TaskData("synthetic-slalom", DataSource("generated", "test", "c" * 64), ("neg", "pos"), examples, examples)
    classifier = Classifier(slalom_transformer(VALUE, IMPORTANCE))
    return Subject(LoadedTask(Ref.parse("synthetic-slalom"), data), "slalom-transformer", classifier)


def suite(**values):
    defaults = {
        "name": "test",
        "tasks": ("synthetic-slalom",),
        "models": ("slalom-transformer",),
        "budgets": (60,),
        "explainers": ("leave-one-out", "linear-deletion"),
        "metrics": ("strict-fidelity:largest=2", "deletion"),
    }
    return make_suite(**(defaults | values))


def go(path: Path, spec=None, mode="resume", on: Subject | None = None) -> RunResult:
    spec, on, loader = spec or suite(), on or subject(), Loader(ModelOptions(device="cpu"))
    loader.put(on, spec.removal)
    return Runner(spec, make_plan(spec, [on.planned(spec.samples)]), RunStore(path), loader, mode).run([])


def cells(path: Path) -> list[CellStore]:
    return RunStore(path).cells()


def files(path: Path, pattern: str) -> dict[str, bytes]:
    found = sorted(file for file in path.rglob(pattern) if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


def test_a_run_explains_and_scores_every_sample_and_a_second_call_computes_nothing(tmp_path):
    first = go(tmp_path)
    assert (first.explained, first.scored, first.reused, first.failed) == (8, 16, 0, 0)
    before = files(tmp_path / "cells", "*")
    second = go(tmp_path)
    assert (second.explained, second.scored, second.reused) == (0, 0, 8)
    assert files(tmp_path / "cells", "*") == before
    for store in RunStore(tmp_path).cells():
        marker = json.loads((store.path / "done.json").read_text())
        assert (marker["samples"], sorted(marker["metrics"])) == (
            [f"s{i}" for i in range(4)],
            [str(label) for label in store.labels()],
        )


def test_a_marker_without_its_rows_is_not_taken_for_a_whole_cell(tmp_path):
    go(tmp_path)
    before = files(tmp_path / "cells", "*")
    torn = next((tmp_path / "cells").glob("*/scores/deletion*.jsonl"))
    raw = torn.read_bytes()
    torn.write_bytes(raw[: len(raw) // 2])
    result = go(tmp_path)
    assert result.explained == 0
    assert 1 <= result.scored < 4
    assert any("unfinished last row" in repair for repair in result.repairs)
    after = files(tmp_path / "cells", "*")
    timed = ("costs.jsonl", "done.json")  # seconds, and their checksum
    assert {k: v for k, v in after.items() if not k.endswith(timed)} == {
        k: v for k, v in before.items() if not k.endswith(timed)
    }


def test_more_samples_and_metrics_reuse_what_is_there(tmp_path):
    go(tmp_path, suite(metrics=("deletion",)), on=subject(TEXTS[:2]))
    result = go(tmp_path)
    assert (result.explained, result.scored) == (4, 4 * 2 + 2 * 2)
    fresh = tmp_path / "fresh"
    go(fresh)
    assert files(tmp_path / "cells", "scores/*") == files(fresh / "cells", "scores/*")


def test_score_only_never_explains(tmp_path):
    go(tmp_path, suite(metrics=("deletion",)), on=subject(TEXTS[:2]))
    result = go(tmp_path, mode="score-only")
    assert (result.explained, result.scored) == (0, 4)


def test_score_only_leaves_no_trace_of_what_was_never_explained(tmp_path):
    """No folder and no unfinished cell in the way of a submission: the cell is skipped, and that is said."""
    go(tmp_path, suite(explainers=("leave-one-out",), metrics=("deletion",)))
    before = {path for path in tmp_path.rglob("*") if path.parent.name != "locks"}
    result = go(tmp_path, mode="score-only")
    assert (result.explained, result.scored, result.failed) == (0, 4, 0)
    (skip,) = result.skips
    assert "linear-deletion" in skip.what
    assert "nothing is explained yet" in skip.reason
    added = {path.name for path in tmp_path.rglob("*") if path.parent.name != "locks"} - {path.name for path in before}
    assert len(added) == 1
    assert added.pop().startswith("strict-fidelity@")
    assert [cell.identity.explainer.name for cell in cells(tmp_path)] == ["leave-one-out"]
    assert len(submit(read_run(tmp_path), tmp_path / "results")) == 1


def test_restart_computes_everything_again(tmp_path):
    go(tmp_path)
    assert go(tmp_path, mode="restart").explained == 8


def test_every_identity_that_can_change_a_result_changes_the_cell(tmp_path):
    go(tmp_path)
    assert go(tmp_path, suite(budgets=(50,))).reused == 0
    assert go(tmp_path, suite(protocol="paper")).reused == 0
    assert go(tmp_path, suite(max_tokens=3)).reused == 0
    assert go(tmp_path, suite(explainers=("linear-deletion:tie=token",))).reused == 0
    other = subject()
    changed = slalom_transformer({**VALUE, "good": 1.1}, IMPORTANCE)
    reweighted = Subject(other.task, other.model, Classifier(changed))
    assert go(tmp_path, on=reweighted).reused == 0
    assert go(tmp_path).reused == 8


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    spec = suite(explainers=("linear-deletion",))
    go(tmp_path / "a", spec)
    go(tmp_path / "b", spec)
    assert files(tmp_path / "a", "explanations.jsonl") == files(tmp_path / "b", "explanations.jsonl")
    go(tmp_path / "c", suite(explainers=("linear-deletion",), seeds=(1,)))
    one, other = (list(files(tmp_path / name, "explanations.jsonl").values()) for name in "ac")
    assert one != other


def test_batch_size_does_not_change_scores(tmp_path):
    go(tmp_path / "a")
    small = subject()
    small.classifier.token_budget = 3
    go(tmp_path / "b", on=small)
    for a, b in zip(cells(tmp_path / "a"), cells(tmp_path / "b"), strict=True):
        for label in a.labels():
            for sample, row in a.scores(label).rows.items():
                assert b.scores(label).rows[sample]["values"] == pytest.approx(row["values"], abs=1e-5)


def broken(name: str):
    @registry.explainer(name, version=1, needs={"queries"}, stochastic=False, family="additive")
    class Broken:
        """Fails on one sample."""

        def explain(self, classifier, sample, budget, rng):
            if len(sample) == 3:
                raise ZeroDivisionError("no luck")
            if len(sample) == 1:
                classifier.log_odds([sample.ids] * (budget + 1))
            scores = np.zeros(len(sample) - (len(sample) == 6))
            return Explanation({"x": scores}, "x", surrogate=LinearSurrogate(scores, 0.0))

    return Broken


def test_a_slip_in_a_file_of_the_machine_does_not_name_its_folder(tmp_path):
    path = str(tmp_path / "plugin.py")
    with pytest.raises(SyntaxError) as slip:
        compile("x =", path, "exec")
    row = error_row(slip.value)
    assert "SyntaxError" in row["traceback"]
    assert str(tmp_path) not in str(row)


def test_a_sample_that_fails_is_a_row_and_the_run_goes_on(tmp_path, scratch):
    broken("broken")
    result = go(tmp_path, suite(explainers=("broken",)))
    assert (result.explained, result.failed) == (4, 3)
    (cell,) = cells(tmp_path)
    rows = cell.explanations.rows
    errors = {sample: row["error"]["type"] for sample, row in rows.items() if "error" in row}
    assert errors == {"s1": "ZeroDivisionError", "s2": "InvalidInput", "s3": "BudgetExceeded"}
    assert "no luck" in rows["s1"]["error"]["traceback"]
    assert 'File "slalom_bench.running.explaining", line ' in rows["s1"]["error"]["traceback"]
    assert '.py"' not in rows["s1"]["error"]["traceback"], "a folder of this machine"
    assert count_failed(cell, list(rows), cell.labels()) == 3
    assert go(tmp_path, suite(explainers=("broken",))).explained == 0


def test_a_metric_that_fails_is_a_row_too(tmp_path, scratch):
    @registry.metric("fails", version=1, needs={"queries"}, direction="lower", unit="", headline="x")
    class Fails:
        """Fails."""

        def score(self, classifier, sample, explanation, context):
            if sample.id == "s1":
                raise RuntimeError("oops")
            return Score({"x": 1.0})

    result = go(tmp_path, suite(metrics=("fails",), explainers=("leave-one-out",)))
    assert (result.scored, result.failed) == (4, 1)
    (cell,) = cells(tmp_path)
    rows = cell.scores(MetricLabel("fails", 1)).rows
    assert {sample: row["values"] for sample, row in rows.items()} == {
        "s0": {"x": 1.0},
        "s1": {},
        "s2": {"x": 1.0},
        "s3": {"x": 1.0},
    }
    assert rows["s1"]["error"]["type"] == "RuntimeError"


def test_skips_have_reasons():
    spec = suite(seeds=(0, 1), metrics=("human-attention-auroc", "deletion"))
    planned = replace(subject().planned(spec.samples), lengths=(4, 3, 6, 1))
    plan = make_plan(spec, [planned])
    assert [(cell.explainer, cell.seed) for cell in plan.cells] == [
        ("leave-one-out", 0),
        ("linear-deletion", 0),
        ("linear-deletion", 1),
    ]
    reasons = {skip.what: skip.reason for skip in plan.skips}
    assert "the task has no human marks" in reasons.values()
    assert any("not stochastic" in reason for reason in reasons.values())
    assert plan.estimate() == {"cells": 3, "queries": 3 * 4 * 60, "tokens": 3 * 60 * (4 + 3 + 6 + 1)}


def test_a_model_without_relevance_rules_is_skipped_before_the_run():
    plan = make_plan(suite(explainers=("attnlrp", "grad-x-input")), [subject().planned(4)])
    assert [cell.explainer for cell in plan.cells] == ["grad-x-input"]
    assert [(skip.what.rpartition(" ")[2], skip.reason) for skip in plan.skips] == [
        ("attnlrp", "needs lrp, which this model does not give")
    ]


def test_interruption_keeps_what_is_done_and_says_so(tmp_path, scratch):
    count = 0

    @registry.explainer("interrupted", version=1, needs=(), stochastic=False, family="additive")
    class Interrupted:
        """Ctrl-C in the third sample."""

        def explain(self, classifier, sample, budget, rng):
            nonlocal count
            count += 1
            if count == 3:
                raise KeyboardInterrupt
            return Explanation({"x": np.zeros(len(sample))}, "x")

    spec = suite(explainers=("interrupted",), metrics=("deletion",))
    first = go(tmp_path, spec)
    assert first.interrupted
    assert first.explained == 2
    second = go(tmp_path, spec)
    assert not second.interrupted
    assert second.explained == 2
    calls = json.loads((tmp_path / "run.json").read_text())["calls"]
    assert [call["interrupted"] for call in calls] == [True, False]


def test_an_interrupted_cell_is_on_the_disk_when_the_run_returns(tmp_path, monkeypatch):
    """What Ctrl-C leaves is forced to the disk like what a finished cell leaves; here only the end does so."""
    unforced = set()
    real_append, real_sync = Rows.append, Rows.sync

    def append(self, row):
        if len(unforced) == 4 and "strict-fidelity" in self.path.name:
            raise KeyboardInterrupt
        real_append(self, row)
        unforced.add(self.path)

    def sync(self):
        real_sync(self)
        unforced.discard(self.path)

    monkeypatch.setattr(Rows, "append", append)
    monkeypatch.setattr(Rows, "sync", sync)
    assert go(tmp_path).interrupted
    assert files(tmp_path / "cells", "*.jsonl")
    assert not unforced


def test_a_score_whose_explanation_is_lost_is_computed_again_with_it(tmp_path):
    """A power cut may leave a score on the disk and not the explanation that was written before it."""
    go(tmp_path)
    before = files(tmp_path / "cells", "scores/*.jsonl"), files(tmp_path / "cells", "explanations.jsonl")
    for file in (tmp_path / "cells").glob("*/explanations.jsonl"):
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    again = go(tmp_path)
    assert (again.explained, again.scored, again.reused) == (2, 4, 6)
    assert (files(tmp_path / "cells", "scores/*.jsonl"), files(tmp_path / "cells", "explanations.jsonl")) == before


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path, monkeypatch):
    go(tmp_path, on=subject(TEXTS[:1]))
    kept = files(tmp_path / "cells", "*.jsonl")
    (cell, *_rest) = RunStore(tmp_path).cells()
    real_open = Path.open

    def full(self, mode="r", *args, **kwargs):
        return real_open(Path("/dev/full") if "a" in mode else self, mode, *args, **kwargs)

    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StoreError, match="No space left on device"):
        go(tmp_path)
    monkeypatch.undo()
    assert files(tmp_path / "cells", "*.jsonl") == kept
    assert cell.path.exists()
    assert go(tmp_path).failed == 0


def test_provenance_is_in_the_run(tmp_path):
    go(tmp_path)
    call = json.loads((tmp_path / "run.json").read_text())["calls"][0]
    assert {"slalom_bench", "git", "python", "packages", "machine", "command", "started", "ended"} <= call.keys()
    assert {"torch", "transformers", "numpy"} <= call["packages"].keys()
    assert {"device", "model", "count", "threads"} <= call["machine"].keys()
    (source,) = call["sources"]
    assert source["source"]["content_hash"] == "c" * 64
    assert len(source["weights"]) == 64
    assert source["dtype"] == "float32"


def test_bad_suites_are_refused_by_name():
    with pytest.raises(InvalidInput, match="each from 1 to 100,000"):
        suite(budgets=(0,))
    with pytest.raises(InvalidInput, match="unknown removal 'drop': known: delete, gap, mask, pad"):
        build_suite("smoke", removal="drop")
    with pytest.raises(InvalidInput, match="give --suite"):
        build_suite()
    with pytest.raises(InvalidInput, match=r"imdb, line \d+: unknown explainer 'nope'|imdb: unknown explainer 'nope'"):
        build_suite("imdb", explainer=["nope"])


def test_a_users_suite_file_names_the_bad_line(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('tasks = ["imdb"]\nmodels = ["mini-bert"]\nexplainers = ["lime", "shapp"]\n')
    with pytest.raises(InvalidInput, match=r"mine.toml, line 3: unknown explainer 'shapp'"):
        build_suite(str(file))
    file.write_text('tasks = ["imdb"]\nmodels = ["mini-bert"]\nexplainers = ["lime"]\nsample = 3\n')
    with pytest.raises(InvalidInput, match=r"line 4: sample: Extra inputs .*fields: name, description, tasks"):
        build_suite(str(file))
    file.write_text("tasks = [1\nmodels = 3\n")
    with pytest.raises(InvalidInput, match=r"mine.toml: .*at line 2"):
        build_suite(str(file))


KILLED = [
    "run",
    "--suite",
    "smoke",
    "--budget",
    "400",
    "--samples",
    "8",
    "--explainer",
    "slalom-fidel",
    "--explainer",
    "slalom-eff",
    "--explainer",
    "linear-deletion",
    "--metric",
    "strict-fidelity",
    "--metric",
    "deletion",
]


def test_killed_again_and_again_it_ends_with_the_same_bytes(tmp_path):
    command = [sys.executable, "-m", "slalom_bench.cli", *KILLED, "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True, env=environment)
    chance = random.Random(7)
    killed = 0
    for _ in range(5):
        process = subprocess.Popen(
            [*command, str(tmp_path / "torn")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        rows = lambda: sum(file.stat().st_size for file in (tmp_path / "torn").rglob("*.jsonl"))  # noqa: E731
        size, patience = rows(), time.monotonic() + 60
        while rows() == size and process.poll() is None and time.monotonic() < patience:
            time.sleep(0.005)
        time.sleep(chance.random() * 0.25)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed >= 2
    subprocess.run([*command, str(tmp_path / "torn")], check=True, capture_output=True, env=environment)
    whole, torn = files(tmp_path / "whole", "scores/*.jsonl"), files(tmp_path / "torn", "scores/*.jsonl")
    assert len(whole) > 4
    assert torn == whole
    assert files(tmp_path / "torn", "explanations.jsonl") == files(tmp_path / "whole", "explanations.jsonl")


def test_the_python_call_is_the_command(tmp_path):
    result = run("smoke", out=tmp_path / "run", samples=2, explainer=["leave-one-out"], metric=["deletion"])
    assert result.failed == 0
    assert result.explained == 4


def test_the_texts_are_kept_once_for_reports(tmp_path):
    go(tmp_path)
    go(tmp_path, suite(explainers=("zero",)))
    (file,) = (tmp_path / "samples").glob("*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["text"] for row in rows] == list(TEXTS)
    assert rows[1]["tokens"] == ["the", "bad", "film"]
    assert [TEXTS[1][start:end] for start, end in rows[1]["offsets"]] == ["the", "bad", "film"]
