"""Who does what: everything once, in any order, whatever workers do to it."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench.running.jobs import Prepare
from slalom_bench.running.plan import Cell
from slalom_bench.running.schedule import Schedule


def cell(model: str, number: int) -> Cell:
    return Cell(task="t", model=model, explainer="e", budget=number + 1, seed=0, metrics=(), samples=5)


class Bench:
    """Workers that take turns as chance has it, and sometimes die."""

    def __init__(self, cells, window, samples=5):
        self.most = 0
        self.open = set()
        self.done = []
        self.opened = []
        self.samples = [f"s{i}" for i in range(samples)]
        self.schedule = Schedule(cells, self.opens, window=window)

    def opens(self, facts, one):
        assert one not in self.opened
        self.opened.append(one)
        if one.budget % 4 == 0:  # nothing is missing
            return None
        self.open.add(one)
        self.most = max(self.most, len(self.open))
        return SimpleNamespace(cell=one, missing=list(self.samples), left=len(self.samples))

    def run(self, workers, chance):
        doing: dict[str, object] = {}
        while True:
            for worker in workers:
                if worker not in doing and (found := self.schedule.next(worker)) is not None:
                    doing[worker] = found
            if not doing:
                return
            worker = chance(sorted(doing))
            found = doing.pop(worker)
            dies = chance([False] * 9 + [True])
            if isinstance(found, Prepare):
                if dies:
                    self.schedule.gone(worker)
                else:
                    facts = SimpleNamespace(model=found.cell.model, task="t")
                    assert self.schedule.prepared(worker, facts)
                continue
            opened, sample = found
            if dies:
                self.schedule.gone(worker)
                self.schedule.again(opened, sample)
                continue
            self.done.append((opened.cell, sample))
            opened.left -= 1
            if not opened.left:
                self.open.remove(opened.cell)
                self.schedule.finished(opened)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(1, 5))
def test_every_sample_of_every_cell_is_done_once(data, workers, models, count, window):
    cells = [cell(f"m{m}", i) for m in range(models) for i in range(count)]
    bench = Bench(cells, window)
    bench.run([f"worker {i}" for i in range(workers)], lambda options: data.draw(st.sampled_from(options)))
    assert set(bench.opened) == set(cells)
    wanted = {(one, sample) for one in cells if one.budget % 4 for sample in bench.samples}
    assert len(bench.done) == len(wanted)
    assert set(bench.done) == wanted
    assert not bench.schedule.unfinished()
    assert bench.most <= window * models


def test_one_worker_goes_cell_by_cell_and_sample_by_sample():
    cells = [cell("m", i) for i in range(3)]
    bench = Bench(cells, window=1)
    bench.run(["w"], lambda options: options[0])
    assert bench.done == [(one, sample) for one in cells for sample in bench.samples]


def test_samples_stay_with_the_worker_that_knows_them():
    """Two workers that take turns: each does the same samples of every cell, but for the end."""
    cells = [cell("m", i) for i in (0, 1, 2, 4, 5, 6)]
    bench, by = Bench(cells, window=8, samples=6), {}
    turn = iter(range(10**6))
    doing: dict[str, object] = {}
    while True:
        for worker in ("a", "b"):
            if worker not in doing and (found := bench.schedule.next(worker)) is not None:
                doing[worker] = found
        if not doing:
            break
        worker = sorted(doing)[next(turn) % len(doing)]
        found = doing.pop(worker)
        if isinstance(found, Prepare):
            bench.schedule.prepared(worker, SimpleNamespace(model="m", task="t"))
            continue
        by.setdefault(found[1], []).append(worker)
        found[0].left -= 1
        if not found[0].left:
            bench.schedule.finished(found[0])
    assert sum(map(len, by.values())) == 36
    assert sum(len(set(workers)) == 1 for workers in by.values()) >= 4
    assert {worker for workers in by.values() for worker in workers} == {"a", "b"}


def test_nobody_waits_for_a_worker_that_may_never_start():
    """Its worker died, and the one in its place finds no room on the cluster: the last sample goes to who is there."""
    bench = Bench([cell("m", 0), cell("other", 1)], window=2, samples=1)
    first = bench.schedule.next("a")
    bench.schedule.prepared("a", SimpleNamespace(model="m", task="t"))
    opened, sample = bench.schedule.next("a")
    assert isinstance(bench.schedule.next("b"), Prepare)
    bench.schedule.prepared("b", SimpleNamespace(model="other", task="t"))
    other, _ = bench.schedule.next("b")
    bench.schedule.gone("a")
    bench.schedule.again(opened, sample)
    assert bench.schedule.next("a").cell == first.cell  # asked for, and never answered
    bench.schedule.finished(other)
    assert isinstance(bench.schedule.next("b"), Prepare)
    bench.schedule.prepared("b", SimpleNamespace(model="m", task="t"))
    assert bench.schedule.next("b") == (opened, sample)
