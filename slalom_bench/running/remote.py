"""The end of a worker that is not in this process: what Ray starts on a machine, with a model on its device."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from slalom_bench import registry
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.core.version import VERSION
from slalom_bench.errors import InvalidInput, RunStopped, SlalomBenchError, StoreError, Unsupported
from slalom_bench.models.sending import Files, receive, wants
from slalom_bench.running.jobs import Job, Prepare, Prepared, Row
from slalom_bench.running.loading import LoadedTask, Loader
from slalom_bench.running.plan import Cell
from slalom_bench.running.progress import Reporter
from slalom_bench.running.worker import Worker


@dataclass(frozen=True)
class Needed:
    """A registered thing that a plan uses: a worker must have the same."""

    kind: str
    name: str
    version: int
    package: str

    def problem(self) -> str:
        """Empty where it is here, in this version; else what to install."""
        entry = registry.KINDS[self.kind].find(self.name)
        if entry is not None and entry.version == self.version:
            return ""
        here = "not installed there" if entry is None else f"version {entry.version} there"
        return f"{self.kind} {self.name} {self.version} (package {self.package}) is {here}: install it on that machine"


def needed(cells: Sequence[Cell]) -> list[Needed]:
    """Everything registered that these cells use."""
    names = {
        *(("task", Ref.parse(cell.task).name) for cell in cells),
        *(("model", Ref.parse(cell.model).name) for cell in cells),
        *(("explainer", Ref.parse(cell.explainer).name) for cell in cells),
        *(("removal", Ref.parse(cell.removal).name) for cell in cells),
        *(("metric", Ref.parse(metric).name) for cell in cells for metric in cell.metrics),
    }
    packages = packages_distributions()
    found = []
    for kind, name in sorted(names):
        entry = registry.KINDS[kind].get(name)
        module = entry.origin.split(".")[0].split(":")[0]
        package = packages.get(module, [module])[0]
        with contextlib.suppress(Exception):
            package = f"{package} {version(package)}"
        found.append(Needed(kind, name, entry.version, package))
    return found


@dataclass(frozen=True)
class Setting:
    """How a worker works: the same for all of a run."""

    options: ModelOptions
    token_budget: int | None
    threads: int
    folder: str
    """Where the driver stands: relative paths are meant from there."""
    needed: tuple[Needed, ...]
    show: bool = True
    version: str = VERSION


@dataclass(frozen=True)
class Failed:
    """An error that a user can cause, as plain data; `kind` is the name of its class."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: SlalomBenchError) -> Failed:
        """An error as data."""
        known = next((kind for kind in (Unsupported, RunStopped, StoreError) if isinstance(error, kind)), type(error))
        return cls(known.__name__, str(error))


@dataclass
class Sent:
    """The rows of a job, each with its table, and what stopped it, if anything did."""

    rows: list[tuple[str, Row]] = field(default_factory=list)
    stopped: Failed | None = None


def set_threads(threads: int) -> None:
    """How many threads torch uses, without importing it for that: it reads the environment when it is."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


class RemoteWorker:
    """A worker in a process of its own. What a user can cause comes back as data, faults of ours as they are."""

    def __init__(self, name: str, setting: Setting) -> None:
        self.name = name
        self._setting = setting
        self._worker: Worker | None = None

    def __repr__(self) -> str:
        return self.name

    def prepare(
        self, wanted: Prepare, task: LoadedTask, note: str, offered: bool, files: Files | None
    ) -> Prepared | Failed | None:
        """Load what a cell needs; None where the model's files are not here and were offered."""
        try:
            worker = self._started()
            if files is not None:
                receive(files)
            elif offered and wants(wanted.cell.model, task.data, self._setting.options):
                return None
            worker.loader.keep([wanted.cell])
            worker.loader.give(task, wanted.cell.model, note)
            return worker.prepare(wanted, [])
        except SlalomBenchError as error:
            return Failed.of(error)
        except Exception as error:  # a file or a memory of this machine: others may have what it lacks
            return Failed(RunStopped.__name__, f"{type(error).__name__}: {error}")

    def perform(self, job: Job) -> Sent:
        """Explain one sample and score it."""
        sent = Sent()
        try:
            self._started().perform(job, lambda table, row: sent.rows.append((table, row)))
        except (RunStopped, StoreError) as error:
            sent.stopped = Failed.of(error)
        return sent

    def spent(self) -> dict[str, Any]:
        """What models whose queries cost have spent here."""
        return {model: dict(backend.report()) for model, backend in self._started().meters.items()}

    def _started(self) -> Worker:
        """The worker, once it is sure that this machine has what the plan needs."""
        if self._worker is None:
            setting = self._setting
            if setting.version != VERSION:
                raise InvalidInput(
                    f"the driver is slalom-bench {setting.version}, this machine has {VERSION}; install the same"
                )
            for each in setting.needed:
                if problem := each.problem():
                    raise InvalidInput(problem)
            if Path(setting.folder).is_dir():
                os.chdir(setting.folder)
            set_threads(setting.threads)
            self._worker = Worker(Loader(setting.options, Reporter(setting.show), setting.token_budget))
        return self._worker
