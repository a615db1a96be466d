"""Who computes: the runner says what, an executor has it done, here or elsewhere. The rows are the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from slalom_bench.errors import Unsupported
from slalom_bench.running.jobs import Job, Prepare, Prepared, Row
from slalom_bench.running.loading import Loader
from slalom_bench.running.plan import Cell
from slalom_bench.running.worker import Worker


class Driver(Protocol):
    """What an executor asks for work and tells what came of it: one process, which alone writes."""

    def next(self, worker: str) -> Prepare | Job | None:
        """The next thing for a worker to do; None while there is nothing for it."""
        ...

    def prepared(self, worker: str, wanted: Prepare, found: Prepared) -> None:
        """A worker has loaded what it was to."""
        ...

    def refused(self, worker: str, why: str) -> None:
        """What a worker was to load does not give what is needed, wherever it is loaded."""
        ...

    def unfit(self, worker: str, error: Exception) -> None:
        """This worker cannot load what it was to; others may."""
        ...

    def keep(self, job: Job, table: str, row: Row) -> None:
        """One row of a job."""
        ...

    def done(self, worker: str, job: Job) -> None:
        """All rows of a job were kept."""
        ...

    def lost(self, worker: str, jobs: list[Job], why: str) -> None:
        """A worker is gone, and with it what it was doing (the first of these jobs) or would have done next."""
        ...

    def left(self) -> list[Cell]:
        """Cells that are still to be taken up."""
        ...

    def finished(self) -> bool:
        """Whether nothing is left to be done."""
        ...


class Executor(Protocol):
    """Has the work of a driver done."""

    workers: int
    """How many compute at the same time."""
    threads: int | None
    """Torch's threads of each, on which the last bits of answers depend; None: those of this process."""

    def run(self, driver: Driver) -> None:
        """Ask for work until there is none."""
        ...

    def spent(self) -> Mapping[str, Any]:
        """What models whose queries cost have spent, by name."""
        ...


class InProcess:
    """Everything here, one thing after the other."""

    workers = 1
    threads: int | None = None

    def __init__(self, loader: Loader) -> None:
        self._worker = Worker(loader)

    def run(self, driver: Driver) -> None:
        """Ask for work until there is none; each row is kept as soon as it is there."""
        name = "this process"
        while (wanted := driver.next(name)) is not None:
            if isinstance(wanted, Job):
                self._worker.perform(wanted, partial(driver.keep, wanted))
                driver.done(name, wanted)
                continue
            try:
                found = self._worker.prepare(wanted, driver.left())
            except Unsupported as error:
                driver.refused(name, str(error))
            else:
                driver.prepared(name, wanted, found)

    def spent(self) -> Mapping[str, Any]:
        """What models whose queries cost have spent, by name."""
        return {model: backend.report() for model, backend in self._worker.meters.items()}
