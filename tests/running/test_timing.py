"""How long a plan takes: from one text of each model; endpoints and models that are not here are not tried."""

from __future__ import annotations

import json
import os
from dataclasses import replace

from typer.testing import CliRunner

from slalom_bench.cli import app
from slalom_bench.running import timing
from slalom_bench.running.plan import Plan, make_plan
from slalom_bench.running.suite import make_suite
from slalom_bench.running.timing import measure_plan

WORDS = ["run", "--task", "synthetic-slalom", "--model", "slalom-transformer", "--explainer", "lime", "--dry-run"]


def test_what_methods_share_counts_once_and_not_for_each_of_them(lab, monkeypatch):
    """Three methods, of which the first pays 1 s for the masks of all: 1 s a text, not 3."""
    now, paid = [0.0], set()

    class Work:
        metrics = ("m",)

        def __init__(self, cell, subject):
            self.cell = cell

        def explain(self, example):
            return {}, {}

        def score(self, example, row, label):
            now[0] += 0.0 if self.cell.max_tokens in paid else 1.0
            paid.add(self.cell.max_tokens)

    monkeypatch.setattr(timing, "CellWork", Work)
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])
    subject = lab.subject()
    methods = ("zero", "lime", "random")
    suite = make_suite(
        name="t", tasks=("synthetic-slalom",), models=("slalom-transformer",), explainers=methods, metrics=("deletion",)
    )
    planned = replace(subject.planned(4), lengths=(40, 40, 40, 40))
    found, unknown = measure_plan(make_plan(suite, [planned]), lab.loader(subject))
    # 1 s once, with the short text; then four texts of 1 s
    assert (found, unknown) == (5.0, [])


def test_more_queries_take_longer(lab):
    def seconds(budgets: tuple[int, ...]) -> float:
        subject = lab.subject()
        suite = make_suite(
            name="t",
            tasks=("synthetic-slalom",),
            models=("slalom-transformer",),
            explainers=("zero", "lime"),
            metrics=("deletion",),
            budgets=budgets,
        )
        planned = subject.planned(9)
        lengths = tuple(len(subject.sample(example, None)) for example in subject.task.data.evaluation)
        plan = make_plan(suite, [type(planned)(**{**vars(planned), "lengths": lengths})])
        found, unknown = measure_plan(plan, lab.loader(subject))
        assert unknown == []
        return found

    assert seconds((10, 3000)) > seconds((10,)) > 0


def test_a_dry_run_says_how_long_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*WORDS, "--json"], catch_exceptions=False)
    estimate = json.loads(done.stdout.splitlines()[-1])["estimate"]
    assert estimate["seconds"] > 0
    assert estimate["not_timed"] == []
    assert "on this machine" in CliRunner().invoke(app, WORDS, catch_exceptions=False).stdout
    assert os.listdir(tmp_path) == []


def test_a_plan_without_cells_takes_no_time(lab):
    assert measure_plan(Plan(()), lab.loader()) == (0.0, [])
