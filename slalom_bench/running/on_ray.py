"""Workers on Ray: on this machine, or on a cluster that runs already. Actors compute, this process writes."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from slalom_bench import errors
from slalom_bench.core.cores import usable_cores
from slalom_bench.core.options import ModelOptions
from slalom_bench.errors import InvalidInput, RunStopped, SlalomBenchError
from slalom_bench.models.sending import offers, pack
from slalom_bench.running.cluster import Cluster
from slalom_bench.running.executor import Driver
from slalom_bench.running.jobs import Job, Prepare, Prepared
from slalom_bench.running.loading import Loader
from slalom_bench.running.plan import Plan
from slalom_bench.running.remote import Failed, RemoteWorker, Sent, Setting, needed

QUICK = 0.2
"""Seconds: of jobs that are done in less, a worker has the next one waiting."""
LOADS = 3
"""How often a worker may die while it loads a model before that model is left to others."""
FAIR = {"worker_niceness": 0}
"""Of an instance of our own: Ray gives workers a niceness of 15, beside busy neighbours a thirtieth of a fair share."""
STARTS = 3
"""How often a Ray instance of our own is tried: on a busy machine its parts may not find each other in time."""


@dataclass
class Slot:
    """The place of one worker: the actor that fills it now, and what it was told to do."""

    name: str
    actor: Any
    doing: deque[tuple[Any, Prepare | Job]] = field(default_factory=deque)
    quick: bool = False
    began: float = 0.0
    deaths: int = 0
    """Since it last finished anything."""

    @property
    def jobs(self) -> list[Job]:
        """What it was told to do, in order."""
        return [wanted for _, wanted in self.doing if isinstance(wanted, Job)]

    @property
    def free(self) -> bool:
        """Whether it may be told more."""
        return not self.doing or (self.quick and len(self.doing) < 2 and isinstance(self.doing[0][1], Job))


class OnRay:
    """An executor whose workers are Ray actors. Enter it to start them, leave it to stop what was started."""

    def __init__(self, loader: Loader, plan: Plan, cluster: Cluster) -> None:
        self._loader = loader
        self._plan = plan
        self._cluster = cluster
        self._say = loader.reporter.say
        self._slots: list[Slot] = []
        self._tasks: dict[str, Any] = {}
        self._files: dict[str, Any] = {}
        self._connected = False
        self._share: dict[str, float] = {}
        self._spent: dict[str, Any] = {}
        self.workers = 0
        self.threads: int | None = None

    # ---- start and stop ----

    def __enter__(self) -> OnRay:
        self._ray = ray = import_ray()
        self._connected = not ray.is_initialized()
        if self._connected:
            self._connect()
        try:
            self._hire()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _connect(self) -> None:
        """Join a cluster, or start an instance of our own with the cores that its workers need."""
        cluster = self._cluster
        more: dict[str, Any] = {"log_to_driver": not self._loader.reporter.console.quiet, "logging_level": "error"}
        if cluster.address is not None:
            try:
                self._ray.init(address=cluster.address, **more)
            except ImportError as error:
                raise InvalidInput(f"{cluster.address} needs Ray's client: pip install 'ray[client]'") from error
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                # a client server that gave up sends its whole traceback; what happened is its last line
                why = str(error).strip().splitlines()[-1] if isinstance(error, ConnectionAbortedError) else ""
                why = why or first_line(error)
                raise InvalidInput(f"no Ray cluster answers at {cluster.address} ({why})") from error
            return
        workers, cpus = cluster.workers or 1, self._cpus()
        for left in reversed(range(STARTS)):
            try:
                self._ray.init(
                    address="local",
                    num_cpus=workers * cpus,
                    include_dashboard=False,
                    object_store_memory=512 * 2**20,
                    _system_config=FAIR,
                    **more,
                )
                return
            except Exception as error:
                self._ray.shutdown()
                if not left:
                    raise RunStopped(f"Ray did not start on this machine: {first_line(error)}") from error

    def _cpus(self) -> int:
        """Cores of a worker: as told, else an equal part of this machine's; on a cluster one."""
        if self._cluster.cpus is not None:
            return self._cluster.cpus
        return 1 if self._cluster.address else max(1, usable_cores() // (self._cluster.workers or 1))

    def _hire(self) -> None:
        """Send the tasks' texts, and ask for the workers."""
        cluster, there = self._cluster, self._ray.cluster_resources()
        cpus, gpus = self._cpus(), cluster.gpus
        if gpus is None:
            gpus = (
                0.0 if self._loader.options.device == "cpu" else min(1.0, there.get("GPU", 0) / (cluster.workers or 1))
            )
        room = int(there.get("GPU", 0) / gpus + 1e-9) if gpus else int(there.get("CPU", 0) // cpus)
        count = cluster.workers or room
        if count < 1:
            raise InvalidInput(
                f"no room for a worker of {cpus} CPUs and {gpus:g} GPUs (--cpus-per-worker, --gpus-per-worker): the "
                f"cluster has {there.get('CPU', 0):g} and {there.get('GPU', 0):g}"
            )
        self._share = {"num_cpus": cpus, "num_gpus": gpus}
        cells = self._plan.cells
        for text in dict.fromkeys(cell.task for cell in cells):
            task = self._loader.task(text)
            self._tasks[text] = self._ray.put(task.bare())
        self._setting = Setting(
            options=self._loader.options,
            token_budget=self._loader.token_budget,
            threads=cpus,
            folder=os.getcwd(),
            needed=tuple(needed(cells)),
            show=not self._loader.reporter.console.quiet,
        )
        self.workers, self.threads = count, cpus
        self._slots = [Slot(name, self._actor(name)) for name in (f"worker {i}" for i in range(1, count + 1))]
        where = f"the cluster at {cluster.address}" if cluster.address else "this machine"
        each = f"{cpus} thread{'s' if cpus > 1 else ''}" + (f" and {gpus:g} GPU" if gpus else "")
        self._say(f"{count} workers on {where}, {each} each")

    def _actor(self, name: str) -> Any:
        return self._ray.remote(RemoteWorker).options(max_restarts=0, **self._share).remote(name, self._setting)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for slot in self._slots:
            with contextlib.suppress(Exception):  # it, or the cluster, may be gone
                self._ray.kill(slot.actor)
        self._slots.clear()
        if self._connected:
            self._ray.shutdown()
            self._connected = False

    # ---- work ----

    def run(self, driver: Driver) -> None:
        """Keep every worker busy until all is done; each sample's rows are kept as soon as they are here."""
        while not driver.finished():
            for slot in self._slots:
                while slot.free and (wanted := driver.next(slot.name)) is not None:
                    self._tell(slot, wanted)
            first = {slot.doing[0][0]: slot for slot in self._slots if slot.doing}
            if not first:
                return
            ready, _ = self._ray.wait(list(first), num_returns=1, timeout=1.0)
            for answer in ready:
                self._hear(driver, first[answer], answer)

    def _tell(self, slot: Slot, wanted: Prepare | Job, *, send: bool = False) -> None:
        if not slot.doing:
            slot.began = time.monotonic()
        if isinstance(wanted, Job):
            slot.doing.append((slot.actor.perform.remote(wanted), wanted))
            return
        cell, loader = wanted.cell, self._loader
        data = loader.task(cell.task).data
        offered = self._cluster.address is not None and offers(cell.model, data, loader.options)
        offered = offered or cell.model.startswith("python:")
        files = self._packed(cell.model, cell.task) if send else None
        note = loader.note(cell.task, cell.model)
        call = slot.actor.prepare.remote(wanted, self._tasks[cell.task], note, offered, files)
        slot.doing.append((call, wanted))

    def _packed(self, model: str, task: str) -> Any:
        """A model's files in Ray's object store, put there once."""
        if model not in self._files:
            self._say(f"model {model} is sent to workers that do not have it")
            packed = pack(model, self._loader.task(task).data, self._loader.options)
            try:
                self._files[model] = self._ray.put(packed)
            except TypeError as error:
                raise InvalidInput(f"model {model} cannot be sent to another process: {first_line(error)}") from error
        return self._files[model]

    def _hear(self, driver: Driver, slot: Slot, answer: Any) -> None:
        """What came of the first thing that a worker was told to do."""
        _, wanted = slot.doing[0]
        try:
            found = self._ray.get(answer)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            self._replace(driver, slot, wanted, first_line(error))
            return
        slot.doing.popleft()
        slot.deaths = 0
        now = time.monotonic()
        slot.quick, slot.began = now - slot.began < QUICK, now
        if isinstance(wanted, Job):
            self._keep(driver, slot, wanted, found)
        elif found is None:
            self._tell(slot, wanted, send=True)
        elif isinstance(found, Prepared):
            driver.prepared(slot.name, wanted, found)
        elif found.kind == "Unsupported":
            driver.refused(slot.name, found.message)
        else:
            driver.unfit(slot.name, raised(found))

    def _keep(self, driver: Driver, slot: Slot, job: Job, sent: Sent) -> None:
        for table, row in sent.rows:
            driver.keep(job, table, row)
        if sent.stopped is not None:
            raise raised(sent.stopped)
        driver.done(slot.name, job)

    def _replace(self, driver: Driver, slot: Slot, wanted: Prepare | Job, why: str) -> None:
        """A worker is gone: another takes its place, and what it was doing is done again."""
        self._say(f"{slot.name} is gone ({why}); another takes its place", style="yellow")
        jobs = slot.jobs
        slot.doing.clear()
        slot.deaths += 1
        if isinstance(wanted, Prepare) and slot.deaths >= LOADS:
            driver.unfit(slot.name, RunStopped(f"{slot.deaths} workers died while they loaded it; the last one: {why}"))
            slot.deaths = 0
        driver.lost(slot.name, jobs, why)
        with contextlib.suppress(Exception):
            self._ray.kill(slot.actor)
        slot.actor = self._actor(slot.name)

    def spent(self) -> Mapping[str, Any]:
        """What models whose queries cost have spent, by name and worker."""
        return self._spent


def import_ray() -> Any:
    """Ray, or what to install."""
    try:
        import ray
    except ImportError as error:
        raise InvalidInput('workers need Ray: pip install -c constraints.txt "slalom-bench[ray]"') from error
    return ray


def check_options(options: ModelOptions) -> None:
    """Refuse, before anything is loaded, what workers cannot do."""
    import_ray()
    if ":" in options.device:
        kind = options.device.split(":")[0]
        raise InvalidInput(f"--device {options.device}: Ray gives workers their devices; give --device {kind}")
    if options.max_requests is not None:
        raise InvalidInput("--max-requests is a cap of one process: leave --workers and --ray-address out")


def raised(failed: Failed) -> SlalomBenchError:
    """The error that a worker sent as data."""
    kind = getattr(errors, failed.kind, InvalidInput)
    return InvalidInput(failed.message) if kind is errors.UnknownName else kind(failed.message)


def first_line(error: BaseException) -> str:
    """What an error says first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
