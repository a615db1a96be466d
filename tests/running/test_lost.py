"""Workers that die: what they had is done again, nothing is lost, nothing is there twice."""

from __future__ import annotations

import random
import sys

import pytest

from slalom_bench.errors import InvalidInput, RunStopped
from slalom_bench.running.executor import InProcess
from slalom_bench.running.jobs import Job, Prepare
from slalom_bench.running.plan import make_plan
from slalom_bench.running.runner import RETRIES, Runner
from slalom_bench.running.store import RunStore
from slalom_bench.running.suite import make_suite
from slalom_bench.running.worker import Worker


class Mortal:
    """Three workers in one process that take turns by chance; a job may be the end of one, rows or no rows."""

    workers = 3
    threads = 1

    def __init__(self, loader, seed, deadly=lambda job: False, unfit=(), rate=0.0):
        self._worker = Worker(loader)
        self._chance = random.Random(seed)
        self._deadly = deadly
        self._unfit = unfit
        self._rate = rate
        self.deaths = 0

    def run(self, driver):
        doing: dict[str, list[Prepare | Job]] = {f"worker {i}": [] for i in (1, 2, 3)}
        loaded: dict[str, Prepare] = {}
        while not driver.finished():
            for worker, told in doing.items():
                while len(told) < 2 and not any(isinstance(one, Prepare) for one in told):
                    wanted = driver.next(worker)
                    if wanted is None:
                        break
                    told.append(wanted)
            busy = [worker for worker, told in doing.items() if told]
            if not busy:
                return
            worker = self._chance.choice(busy)
            wanted = doing[worker][0]
            if self._chance.random() < self._rate or (isinstance(wanted, Job) and self._deadly(wanted)):
                self.deaths += 1
                jobs = [one for one in doing[worker] if isinstance(one, Job)]
                doing[worker] = []
                driver.lost(worker, jobs, "killed")
                continue
            doing[worker].pop(0)
            if isinstance(wanted, Prepare):
                if worker in self._unfit:
                    driver.unfit(worker, InvalidInput("no such directory"))
                    continue
                loaded[worker] = wanted
                driver.prepared(worker, wanted, self._worker.prepare(wanted, driver.left()))
            else:
                self._worker.prepare(loaded[worker], [])
                rows = []
                self._worker.perform(wanted, lambda table, row, rows=rows: rows.append((table, row)))
                for table, row in rows:
                    driver.keep(wanted, table, row)
                driver.done(worker, wanted)

    def spent(self):
        return {}


def call(lab, path, executor=None, **values):
    subjects = (lab.subject(), lab.subject("mini-bert", shift=0.2))
    what = {"name": "t", "tasks": ("synthetic-slalom",), "models": ("slalom-transformer", "mini-bert")}
    what |= {
        "explainers": ("leave-one-out", "random", "linear-deletion"),
        "metrics": ("deletion",),
        "budgets": (20, 30),
    }
    suite = make_suite(**(what | values))
    loader = lab.loader(*subjects)
    loader.keep = lambda cells: None  # what the lab has loaded cannot be loaded again
    plan = make_plan(suite, [subject.planned(6) for subject in subjects])
    made = InProcess(loader) if executor is None else executor(loader)
    return Runner(suite, plan, RunStore(path), loader, executor=made).run([]), made


def rows(path):
    timed = ("costs.jsonl", "done.json", "run.json")
    found = (file for file in path.rglob("*") if file.is_file() and file.parent.name != "locks")
    return {str(file.relative_to(path)): file.read_bytes() for file in found if file.name not in timed}


@pytest.mark.parametrize("seed", range(2))
def test_whoever_dies_the_rows_are_the_same_and_each_is_there_once(lab, tmp_path, seed, monkeypatch):
    monkeypatch.setattr("slalom_bench.running.runner.RETRIES", 50)
    alone, _ = call(lab, tmp_path / "alone")
    result, executor = call(lab, tmp_path / "mortal", lambda loader: Mortal(loader, seed, rate=0.2))
    assert executor.deaths > 3
    assert (result.explained, result.scored, result.failed) == (alone.explained, alone.scored, 0) == (72, 72, 0)
    assert rows(tmp_path / "mortal") == rows(tmp_path / "alone")


def test_a_sample_that_always_kills_becomes_an_error_row_and_the_next_run_tries_it_again(lab, tmp_path):
    def deadly(job):
        return job.sample == "s2" and job.cell.explainer == "random"

    alone, _ = call(lab, tmp_path / "alone")
    result, _ = call(lab, tmp_path / "run", lambda loader: Mortal(loader, 1, deadly))
    assert (result.failed, result.passing) == (4, 4)
    for cell in RunStore(tmp_path / "run").cells():
        failed = {name: row["error"] for name, row in cell.explanations.rows.items() if "error" in row}
        assert cell.samples is not None
        assert list(failed) == (["s2"] if cell.identity.explainer.name == "random" else [])
        for error in failed.values():
            assert error["message"] == f"{RETRIES + 1} workers died of it; the last one: killed"
    again, _ = call(lab, tmp_path / "run")
    assert (again.explained, again.retried, again.failed) == (4, 4, 0)
    assert rows(tmp_path / "run") == rows(tmp_path / "alone")
    assert alone.failed == 0


def test_a_worker_that_cannot_load_a_model_leaves_it_to_others(lab, tmp_path):
    call(lab, tmp_path / "alone")
    result, _ = call(lab, tmp_path / "run", lambda loader: Mortal(loader, 5, unfit=("worker 1", "worker 3")))
    assert result.failed == 0
    assert rows(tmp_path / "run") == rows(tmp_path / "alone")
    with pytest.raises(InvalidInput, match="no such directory"):
        call(lab, tmp_path / "none", lambda loader: Mortal(loader, 5, unfit=("worker 1", "worker 2", "worker 3")))


def test_a_fault_that_stops_the_run_keeps_what_is_there(lab, tmp_path, monkeypatch):
    done = []

    def perform(self, job, emit, real=Worker.perform):
        done.append(job)
        if len(done) == 10:
            raise RunStopped("the endpoint is gone")
        real(self, job, emit)

    monkeypatch.setattr(Worker, "perform", perform)
    with pytest.raises(RunStopped, match="the endpoint is gone"):
        call(lab, tmp_path / "run", lambda loader: Mortal(loader, 2))
    kept = sum(len(cell.explanations.rows) for cell in RunStore(tmp_path / "run").cells())
    assert kept == 9
    monkeypatch.undo()
    call(lab, tmp_path / "alone")
    again, _ = call(lab, tmp_path / "run")
    assert again.explained == 72 - kept
    assert rows(tmp_path / "run") == rows(tmp_path / "alone")


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    from slalom_bench.api import run

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r'workers need Ray: pip install -c constraints.txt "slalom-bench\[ray\]"'):
        run("smoke", workers=2, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
