"""Which worker does what next. Cells of one model stay together, and so do the cells of one sample.

Explainers of one sample ask much the same (metrics draw the same masks for all of them), so a sample has a home: the
worker that first took it, and whose cache knows it. A worker without work of its own opens further cells, then takes a
sample over from the worker that has most of them; so the last cells end on all workers at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from slalom_bench.running.facts import Facts
from slalom_bench.running.jobs import Prepare
from slalom_bench.running.opened import OpenCell
from slalom_bench.running.plan import Cell

Opens = Callable[[Facts, Cell], OpenCell | None]
"""Takes a cell up; None where nothing is missing, or another process has it."""
Pick = tuple[OpenCell, str]
"""A cell, and the sample of it that is to be done."""
NOBODY = ""
"""The home of samples that no worker has taken yet."""


@dataclass
class Group:
    """The cells of one model on one task, and who is to do what of them."""

    key: tuple[str, str, str]
    unopened: deque[Cell] = field(default_factory=deque)
    queries: int = 0
    facts: Facts | None = None
    open: int = 0
    """Cells that were opened and are not finished."""
    homes: dict[str, str] = field(default_factory=dict)
    """The worker whose cache knows a sample."""
    waiting: dict[str, dict[str, deque[OpenCell]]] = field(default_factory=dict)
    """By home and sample: the cells that it is still to be done for, those opened first in front."""
    jobs: int = 0
    """That wait."""
    unfit: dict[str, Exception] = field(default_factory=dict)
    """Workers that cannot load the model, and why."""

    def add(self, opened: OpenCell, samples: Iterable[str], *, home: str | None = None) -> None:
        """Samples of a cell that wait for a worker: their own, or a given one."""
        for sample in samples:
            at = self.homes.get(sample, NOBODY) if home is None else home
            self.waiting.setdefault(at, {}).setdefault(sample, deque()).append(opened)
            self.jobs += 1

    def take(self, worker: str) -> Pick | None:
        """The next sample of those that are at home with a worker, or of those that have no home yet."""
        if not self.waiting.get(worker) and not self._move(NOBODY, worker, first=True):
            return None
        own = self.waiting[worker]
        sample = next(iter(own))
        opened = own[sample].popleft()
        if not own[sample]:
            del own[sample]
        self.jobs -= 1
        return opened, sample

    def take_over(self, worker: str) -> Pick | None:
        """A sample of the worker that has most of them: from now on its home is this one."""
        victim = max(self.waiting, key=lambda home: len(self.waiting[home]), default=NOBODY)
        return self.take(worker) if self._move(victim, worker, first=False) else None

    def _move(self, home: str, worker: str, *, first: bool) -> bool:
        left = self.waiting.get(home)
        if not left:
            return False
        sample = next(iter(left) if first else reversed(left))
        self.waiting.setdefault(worker, {})[sample] = left.pop(sample)
        self.homes[sample] = worker
        return True


class Schedule:
    """Hands out the work of many cells, opening few of them at a time.

    Args:
        cells: in the order in which they should begin.
        opens: takes a cell up.
        window: how many cells of a model may be open at once, for workers to go on with while others finish.
    """

    def __init__(self, cells: Iterable[Cell], opens: Opens, *, window: int = 1) -> None:
        self._opens = opens
        self._window = window
        self._loaded: dict[str, Group] = {}
        self._ready: set[str] = set()
        self.groups: dict[tuple[str, str, str], Group] = {}
        for cell in cells:
            group = self.groups.setdefault(cell.loaded, Group(cell.loaded))
            group.unopened.append(cell)
            group.queries += cell.budget * len(cell.places)

    def next(self, worker: str) -> Prepare | Pick | None:
        """The next thing for a worker to do; None while there is nothing for it."""
        at = self._loaded.get(worker)
        if at is not None and (pick := self._pick(at, worker)) is not None:
            return pick
        for group in self._others(worker):
            if group.unopened or group.jobs:
                self._loaded[worker] = group
                self._ready.discard(worker)
                first = group.unopened[0] if group.unopened else _waiting(group)
                return Prepare(first, group.queries, rows=group.facts is None)
        return None

    def _pick(self, group: Group, worker: str) -> Pick | None:
        while (pick := group.take(worker)) is None and group.unopened and group.open < self._window:
            cell = group.unopened.popleft()
            if group.facts is not None and (opened := self._opens(group.facts, cell)) is not None:
                group.open += 1
                group.add(opened, opened.missing)
        return pick or group.take_over(worker)

    def _others(self, worker: str) -> Iterator[Group]:
        """Models that another worker would be of use for: those that nobody has loaded, then those with most to do."""
        own = self._loaded.get(worker)
        useful = [group for group in self.groups.values() if group is not own and worker not in group.unfit]
        taken = {id(group) for group in self._loaded.values()}
        yield from (group for group in useful if id(group) not in taken)
        # a worker that is only being started may never be: those that are there must not wait for it
        there = Counter(id(group) for name, group in self._loaded.items() if name in self._ready)
        helped = [group for group in useful if group.unopened or group.jobs > there[id(group)]]
        yield from sorted(helped, key=lambda group: -len(group.unopened) - group.jobs)

    # ---- what came of it ----

    def prepared(self, worker: str, facts: Facts) -> bool:
        """A worker has loaded what it was to; False where that is not what another one has loaded."""
        group = self._loaded[worker]
        same = group.facts is None or (group.facts.model, group.facts.task) == (facts.model, facts.task)
        if same:
            group.facts = facts
            self._ready.add(worker)
        return same

    def unfit(self, worker: str, error: Exception) -> Group:
        """A worker cannot load what it was to; others may."""
        group = self._loaded.pop(worker)
        group.unfit[worker] = error
        return group

    def refuse(self, worker: str) -> list[Cell]:
        """Nobody can do what a worker was to load for: its cells are dropped."""
        group = self._loaded.pop(worker)
        cells = list(group.unopened)
        group.unopened.clear()
        return cells

    def finished(self, opened: OpenCell) -> None:
        """Nothing is left of a cell."""
        self.groups[opened.cell.loaded].open -= 1

    def gone(self, worker: str) -> None:
        """A worker and what it had loaded are gone; what was at home with it is anyone's."""
        self._loaded.pop(worker, None)
        self._ready.discard(worker)
        for group in self.groups.values():
            for sample, cells in group.waiting.pop(worker, {}).items():
                group.waiting.setdefault(NOBODY, {})[sample] = cells
            group.homes = {sample: home for sample, home in group.homes.items() if home != worker}

    def again(self, opened: OpenCell, sample: str) -> None:
        """A sample that was handed out is to be done after all."""
        self.groups[opened.cell.loaded].add(opened, [sample])

    def unfinished(self) -> list[Group]:
        """Groups with cells that nobody has taken up."""
        return [group for group in self.groups.values() if group.unopened or group.jobs]

    def left(self) -> list[Cell]:
        """Cells that are still to be taken up."""
        return [cell for group in self.groups.values() for cell in group.unopened]


def _waiting(group: Group) -> Cell:
    """A cell with a sample that waits."""
    return next(cells[0].cell for at in group.waiting.values() for cells in at.values() if cells)
