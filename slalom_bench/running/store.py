"""The run directory: one folder a cell, rows appended one by one, a commit marker written last.

    RUN/run.json                        what was asked, and the provenance of every call
    RUN/samples/NAME-KEY.jsonl          the texts of a task in a model's tokens, for reports
    RUN/cells/NAME-KEY/cell.json        the cell's full identity
                      /explanations.jsonl, costs.jsonl, scores/METRIC@VERSION.jsonl
                      /done.json        samples, metrics and a checksum of each table; written last, by atomic rename
    RUN/locks/NAME-KEY.lock             held by the process that works on a cell; the system frees it when that dies

Several processes may work on one run directory: each takes a cell by its lock, and run.json is changed under a lock
of its own, held for the moment of the change.

A process may be killed at any point: rows are whole lines, a torn last line is cut off when the file is next opened,
and whether a sample is done is read from the rows, never from the marker alone. A row is handed to the system when it
is appended, so that a kill loses none; rows are forced to the disk with the first that comes a second after the last
time, and when a cell ends, so that a power cut loses the last of them at most, which the next call computes again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from slalom_bench.core.safe_text import file_name
from slalom_bench.core.writing import force
from slalom_bench.errors import StoreError
from slalom_bench.running.files import SCHEMA, read_bytes, read_json, sweep, write_error, write_json, write_text
from slalom_bench.running.forcing import Forcing
from slalom_bench.running.identity import CellIdentity, MetricLabel
from slalom_bench.running.marker import Marker
from slalom_bench.running.shapes import (
    Calls,
    CostRow,
    Row,
    SampleRow,
    ScoreRow,
    Shape,
    explanation_row,
    parse_stored,
    why,
)

EXPLANATIONS, COSTS, SCORES = "explanations", "costs", "scores/"
"""Tables of a cell by name; those of scores go on with the metric's label."""
SYNC_EVERY = 1.0
"""Seconds, at least, between two times that one file of rows is forced to the disk."""


class Rows:
    """An append-only file of JSON rows, each with an id; a torn last line does not count and is cut off later.

    Every row is written at once and survives the death of the process. Forcing it to the disk costs far more than
    writing it, so `append` does that at most every SYNC_EVERY seconds, and `sync` at the end for what is left.

    Args:
        path: the file.
        shape: what every row of it is like; a file with another one is refused.
        light: hold of each row no more than whether it is there and its error; `whole` reads one again. So the size of
            a cell that is being worked on does not matter.
    """

    def __init__(self, path: Path, shape: Shape = Row.model_validate, *, light: bool = False) -> None:
        self.path = path
        self.shape = shape
        self.light = light
        self.repaired: str | None = None
        self._rows: dict[str, dict[str, Any]] | None = None
        self._lines: list[str] = []
        self._starts: dict[str, int] | None = None
        self._torn_at: int | None = None
        self._synced_at = time.monotonic()
        self._unsynced = False
        self._has_folder = False

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Every whole row by id, read once; of a light table its id and error alone."""
        if self._rows is None:
            self._rows = self._read()
        return self._rows

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            raw = read_bytes(self.path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror or error}; restore or remove it") from error
        whole = raw.rfind(b"\n") + 1
        rows: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(raw[:whole].splitlines(), start=1):
            try:
                row = parse_stored(line)
                self.shape(row)
            except ValueError as error:
                raise StoreError(
                    f"{self.path}, line {number} is damaged ({why(error)}); delete that line to compute it again, or "
                    "use --mode restart"
                ) from error
            rows[row["id"]] = self._held(row)
            self._lines.append(row["id"])
        if whole < len(raw):
            self._torn_at = whole
            self.repaired = f"{self.path.name}: dropped an unfinished last row of {len(raw) - whole} bytes"
        return rows

    def append(self, row: Mapping[str, Any]) -> None:
        """One whole line; on a failed write the file is put back as it was."""
        rows = self.rows
        line = _line(row).encode()
        try:
            if not self._has_folder:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._has_folder = True
            with self.path.open("ab", buffering=0) as file:
                if self._torn_at is not None:
                    file.truncate(self._torn_at)
                    self._torn_at = None
                size = os.fstat(file.fileno()).st_size
                try:
                    if file.write(line) != len(line):
                        raise OSError("disk full: only part of the row could be written")
                    self._unsynced = True
                    if time.monotonic() - self._synced_at >= SYNC_EVERY:
                        self._force(file.fileno())
                except OSError:
                    with contextlib.suppress(OSError):
                        file.truncate(size)
                    raise
        except OSError as error:
            raise write_error(self.path, error) from error
        rows[row["id"]] = self._held(row)
        self._lines.append(row["id"])
        if self._starts is not None:
            self._starts[row["id"]] = size

    def sync(self) -> None:
        """Force to the disk what was appended since that was last done."""
        if not self._unsynced:
            return
        try:
            with self.path.open("r+b") as file:
                self._force(file.fileno())
        except OSError as error:
            raise write_error(self.path, error) from error

    def fill(self, rows: Mapping[str, Mapping[str, Any]], order: Sequence[str]) -> None:
        """A new file with these rows, at once, those of the given ids first."""
        wanted = [name for name in dict.fromkeys([*order, *rows]) if name in rows]
        write_text(self.path, "".join(_line(rows[name]) for name in wanted))
        self._rows, self._lines, self._starts = {name: self._held(rows[name]) for name in wanted}, wanted, None

    def whole(self, name: str) -> dict[str, Any]:
        """One row with all that is in it."""
        if not self.light:
            return self.rows[name]
        if self._starts is None:
            lengths = [len(line) for line in self._whole_lines()]
            self._starts = dict(zip(self._lines, accumulate(lengths, initial=0), strict=False))
        with self.path.open("rb") as file:
            file.seek(self._starts[name])
            return dict(json.loads(file.readline()))

    def _whole_lines(self) -> list[bytes]:
        raw = self.path.read_bytes()
        return raw[: raw.rfind(b"\n") + 1].splitlines(keepends=True)

    def _held(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {key: row[key] for key in ("id", "error") if key in row} if self.light else dict(row)

    def arrange(self, order: Sequence[str]) -> None:
        """Put the rows of these ids first, in this order, and each once: the same rows are then the same bytes."""
        rows = self.rows
        wanted = [name for name in dict.fromkeys([*order, *rows]) if name in rows]
        if self._torn_at is None and self._lines == wanted:
            return
        raw = {json.loads(line)["id"]: line for line in self._whole_lines()}
        write_text(self.path, b"".join(raw[name] for name in wanted).decode())
        self._rows, self._lines, self._starts = {name: rows[name] for name in wanted}, wanted, None
        self._torn_at, self._unsynced = None, False

    def _force(self, file: int) -> None:
        os.fsync(file)
        self._synced_at = time.monotonic()
        self._unsynced = False


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


class CellStore:
    """The files of one cell."""

    def __init__(self, path: Path, identity: CellIdentity, *, light: bool = False) -> None:
        self.path = path
        self.identity = identity
        self.marker = Marker(path)
        self.explanations = Rows(path / "explanations.jsonl", explanation_row, light=light)
        self.costs = Rows(path / "costs.jsonl", CostRow.model_validate, light=light)
        self._light = light
        self._scores: dict[MetricLabel, Rows] = {}

    @property
    def files(self) -> list[Path]:
        """Every file that the store itself wrote here, the marker first and the identity last."""
        tables = sorted((self.path / "scores").glob("*.jsonl"))
        names = [self.path / name for name in ("done.json", "explanations.jsonl", "costs.jsonl")]
        return [file for file in (*names, *tables, self.path / "cell.json") if file.is_file()]

    def scores(self, label: MetricLabel) -> Rows:
        """The rows of one metric."""
        if label not in self._scores:
            self._scores[label] = Rows(
                self.path / "scores" / f"{label}.jsonl", ScoreRow.model_validate, light=self._light
            )
        return self._scores[label]

    def table(self, name: str) -> Rows:
        """The rows of a table by its name: explanations, costs, scores/LABEL."""
        if name.startswith(SCORES):
            return self.scores(MetricLabel.parse(name.removeprefix(SCORES)))
        return {EXPLANATIONS: self.explanations, COSTS: self.costs}[name]

    def labels(self) -> list[MetricLabel]:
        """The metrics that have rows here."""
        return sorted(MetricLabel.parse(file.stem) for file in (self.path / "scores").glob("*.jsonl"))

    def sync(self) -> None:
        """Force every row of the cell to the disk."""
        for rows in (self.explanations, self.costs, *self._scores.values()):
            rows.sync()

    @property
    def samples(self) -> list[str] | None:
        """The samples of a finished cell, in their order; None while it is not finished."""
        said = self.marker.read()
        return None if said is None else list(said["samples"])

    def commit(self, samples: Sequence[str], labels: Sequence[MetricLabel]) -> None:
        """Say that these samples and metrics are all there, each table in their order, whoever came first.

        The marker is for readers; rows remain the truth.
        """
        for label in labels:
            self.scores(label).arrange(samples)
        self.explanations.arrange(samples)
        works = ("explain", *map(str, labels))
        self.costs.arrange([f"{work}:{sample}" for sample in samples for work in works])
        self.marker.write(samples, [str(label) for label in labels], [f for f in self.files if f.suffix == ".jsonl"])

    def uncommit(self) -> None:
        """The cell is not finished (any more)."""
        self.marker.path.unlink(missing_ok=True)


class RunStore:
    """A run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.forcing = Forcing()

    # ---- the record of calls ----

    def open(self, call: Mapping[str, Any]) -> str:
        """Check the schema version and add a call's record to run.json; returns the call's id."""
        name = uuid.uuid4().hex[:12]

        def add(data: dict[str, Any]) -> None:
            data["calls"].append({"id": name, **call})

        self._change(add)
        return name

    def adopt(self, call: Mapping[str, Any]) -> None:
        """Add the record of a call on another directory."""
        self._change(lambda data: data["calls"].append({**call, "shard": [1, 1], "part": call.get("shard", [1, 1])}))

    def update(self, name: str, facts: Mapping[str, Any]) -> None:
        """Add facts to the record of a call."""

        def change(data: dict[str, Any]) -> None:
            for call in data["calls"]:
                if call.get("id") == name:
                    call |= facts

        self._change(change)

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        self._read()  # a directory of another schema is refused before anything is written to it
        with self._locked("run", wait=True):
            sweep(self.path / "run.json")
            data = self._read() or {"schema": SCHEMA, "calls": []}
            change(data)
            write_json(self.path / "run.json", data)

    def _read(self) -> dict[str, Any] | None:
        file = self.path / "run.json"
        if not file.exists():
            if any((self.path / "cells").glob("*/cell.json")):
                raise StoreError(f"{self.path} has cells but no run.json; restore it or choose another --out")
            return None
        data = read_json(file)
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else "none"
            raise StoreError(
                f"{self.path} was written with schema {found}, this version writes {SCHEMA}; "
                "choose another --out (the old directory stays as it is)"
            )
        try:
            Calls.model_validate(data)
        except ValueError as error:
            raise StoreError(f"{file} is damaged ({why(error)}); restore it or choose another --out") from error
        return data

    def calls(self) -> list[dict[str, Any]]:
        """The record of every call on the directory, an error where it is not that of a run."""
        data = self._read()
        if data is None:
            raise StoreError(
                f"{self.path} is not a run directory (no run.json); give the --out of a `slalom-bench run`"
            )
        if not data["calls"]:
            raise StoreError(f"{self.path}/run.json records no call; run again into another --out")
        return list(data["calls"])

    def check_restart(self) -> None:
        """Refuse to begin anew in a folder with something in it that is no run."""
        if self._read() is None and self.path.is_dir() and any(self.path.iterdir()):
            raise StoreError(f"{self.path} is not a run directory: nothing to restart there; choose another --out")

    def check_shard(self, shard: tuple[int, int]) -> None:
        """Refuse to put parts of a run into the directory of another part: a cell would be of both and say one."""
        data = self._read() or {"calls": []}
        for call in data["calls"]:
            there = tuple(call.get("shard", (1, 1)))
            if there != tuple(shard):
                raise StoreError(
                    f"{self.path} holds part {there[0]} of {there[1]} of a run, not {shard[0]} of {shard[1]}; choose "
                    "another --out, and join the directories with `slalom-bench merge`"
                )

    # ---- locks ----

    @contextlib.contextmanager
    def _locked(self, name: str, *, wait: bool) -> Iterator[bool]:
        """Hold the lock of a name, waiting for it or not; whether it is held."""
        from filelock import FileLock, Timeout

        file = self.path / "locks" / f"{name}.lock"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(file, thread_local=False)  # a cell may be closed in another thread (`Forcing`)
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout:
            yield False
            return
        except OSError as error:
            raise write_error(file, error) from error
        try:
            yield True
        finally:
            lock.release()

    # ---- cells and samples ----

    @contextlib.contextmanager
    def taken(self, identity: CellIdentity, *, restart: bool = False, wait: bool = False) -> Iterator[CellStore | None]:
        """A cell to work on, made if it is not there; None where another process has it and `wait` is not set.

        Its tables are light (`Rows`).
        """
        with self._locked(identity.folder, wait=wait) as held:
            yield self._cell(identity, restart=restart) if held else None

    def has(self, identity: CellIdentity) -> bool:
        """Whether the cell was ever taken up."""
        return (self._folder(identity) / "cell.json").exists()

    def _folder(self, identity: CellIdentity) -> Path:
        return self.path / "cells" / identity.folder

    def _cell(self, identity: CellIdentity, *, restart: bool) -> CellStore:
        path = self._folder(identity)
        try:
            if path.exists():
                for name in ("cell.json", "done.json", "explanations.jsonl", "costs.jsonl", "scores/*.jsonl"):
                    sweep(path / name)
                if restart:
                    # by its own list, and in an order in which a kill leaves a cell that can be gone on with
                    for file in CellStore(path, identity).files:
                        file.unlink()
            if not _is_written(path / "cell.json"):
                said = {"schema": SCHEMA, "identity": identity.model_dump(mode="json")}
                write_json(path / "cell.json", said, forced=False)
                self.forcing.do(partial(force, path / "cell.json"))
            elif _identity(path / "cell.json").key != identity.key:
                raise StoreError(f"{path} holds another cell than its name says; move it away or choose another --out")
        except OSError as error:
            raise write_error(path, error) from error
        return CellStore(path, identity, light=True)

    @contextlib.contextmanager
    def keeping_samples(self, identity: CellIdentity) -> Iterator[Rows]:
        """The samples that a cell of this identity explains, to be added to by one process at a time."""
        rows = self.samples(identity)
        with self._locked(f"samples-{identity.samples_key}", wait=True):
            yield rows
            rows.sync()

    def samples(self, identity: CellIdentity) -> Rows:
        """The samples that a cell of this identity explains: one file for a task, model and cut of the texts."""
        readable = file_name(identity.task.name, identity.model.name)
        return Rows(self.path / "samples" / f"{readable}-{identity.samples_key}.jsonl", SampleRow.model_validate)

    def cells(self) -> list[CellStore]:
        """Every cell of the run, in the order of their folder names."""
        files = sorted(file for file in (self.path / "cells").glob("*/cell.json") if _is_written(file))
        return [CellStore(file.parent, _identity(file)) for file in files]


def _is_written(file: Path) -> bool:
    """Whether there is something in a file: a power cut in the moment of its writing may leave an empty one."""
    return file.exists() and file.stat().st_size > 0


def _identity(file: Path) -> CellIdentity:
    data = read_json(file)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else "none"
        raise StoreError(f"{file.parent} was written with schema {found}, not {SCHEMA}")
    try:
        return CellIdentity.model_validate(data.get("identity"))
    except ValidationError as error:
        raise StoreError(f"{file} is damaged ({why(error)}); move its folder away") from error
