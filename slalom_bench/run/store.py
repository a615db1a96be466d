"""The run directory: one folder a cell, rows appended one by one, a commit marker written last.

    RUN/run.json                        what was asked, and the provenance of every call
    RUN/samples/NAME-KEY.jsonl          the texts of a task in a model's tokens, for reports
    RUN/cells/NAME-KEY/cell.json        the cell's full identity
                      /explanations.jsonl, costs.jsonl, scores/METRIC@VERSION.jsonl
                      /done.json        written last, by atomic rename

A process may be killed at any point: rows are whole lines, a torn last line is cut off when the file is next opened,
and whether a sample is done is read from the rows, never from the marker alone. A row is handed to the system when it
is appended, so that a kill loses none; rows are forced to the disk with the first that comes a second after the last
time, and when a cell ends, so that a power cut loses the last of them at most, which the next call computes again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slalom_bench.core.hashing import canonical, short_hash
from slalom_bench.errors import StoreError

SCHEMA = 1
SYNC_EVERY = 1.0
"""Seconds, at least, between two times that one file of rows is forced to the disk."""


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False))


def write_text(path: Path, text: str) -> None:
    """The whole file or nothing: written beside its place, then renamed over it."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _write_error(path, error) from error


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {path}: {error}; restore it, or start anew with another --out") from error


def _write_error(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write {path}: {error.strerror or error}. What was finished before is kept: "
        "make room (or choose another --out) and run the same command again"
    )


class Rows:
    """An append-only file of JSON rows, each with an id; a torn last line does not count and is cut off later.

    Every row is written at once and survives the death of the process. Forcing it to the disk costs far more than
    writing it, so `append` does that at most every SYNC_EVERY seconds, and `sync` at the end for what is left.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.repaired: str | None = None
        self._rows: dict[str, dict[str, Any]] | None = None
        self._torn_at: int | None = None
        self._synced_at = time.monotonic()
        self._unsynced = False

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Every whole row by id, read once."""
        if self._rows is None:
            self._rows = self._read()
        return self._rows

    def _read(self) -> dict[str, dict[str, Any]]:
        if not self.path.exists():
            return {}
        raw = self.path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        rows: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(raw[:whole].splitlines(), start=1):
            try:
                row = json.loads(line)
                rows[row["id"]] = row
            except (ValueError, KeyError, TypeError) as error:
                raise StoreError(
                    f"{self.path}, line {number} is damaged ({type(error).__name__}); delete that line to compute it "
                    "again, or use --mode restart"
                ) from error
        if whole < len(raw):
            self._torn_at = whole
            self.repaired = f"{self.path.name}: dropped an unfinished last row of {len(raw) - whole} bytes"
        return rows

    def append(self, row: Mapping[str, Any]) -> None:
        """One whole line; on a failed write the file is put back as it was."""
        rows = self.rows
        line = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
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
            raise _write_error(self.path, error) from error
        rows[row["id"]] = dict(row)

    def sync(self) -> None:
        """Force to the disk what was appended since that was last done."""
        if not self._unsynced:
            return
        try:
            with self.path.open("r+b") as file:
                self._force(file.fileno())
        except OSError as error:
            raise _write_error(self.path, error) from error

    def _force(self, file: int) -> None:
        os.fsync(file)
        self._synced_at = time.monotonic()
        self._unsynced = False


class CellStore:
    """The files of one cell."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self.identity = identity
        self.explanations = Rows(path / "explanations.jsonl")
        self.costs = Rows(path / "costs.jsonl")
        self._scores: dict[str, Rows] = {}

    def scores(self, metric: str) -> Rows:
        """Rows of one metric, named with its version (`strict-fidelity@1`)."""
        if metric not in self._scores:
            self._scores[metric] = Rows(self.path / "scores" / f"{metric}.jsonl")
        return self._scores[metric]

    def metrics(self) -> list[str]:
        return sorted(file.stem for file in (self.path / "scores").glob("*.jsonl"))

    def sync(self) -> None:
        """Force every row of the cell to the disk."""
        for rows in (self.explanations, self.costs, *self._scores.values()):
            rows.sync()

    def commit(self, samples: list[str], metrics: list[str]) -> None:
        """Say that these samples and metrics are all there. The marker is for readers; rows remain the truth."""
        failed = sum(1 for row in self.explanations.rows.values() if row.get("error"))
        done = {"schema": SCHEMA, "samples": samples, "metrics": metrics, "failed": failed}
        marker = self.path / "done.json"
        if not marker.exists() or read_json(marker) != done:
            write_json(marker, done)

    def uncommit(self) -> None:
        (self.path / "done.json").unlink(missing_ok=True)


class RunStore:
    """A run directory, locked by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[RunStore]:
        from filelock import FileLock, Timeout

        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _write_error(self.path, error) from error
        lock = FileLock(self.path / "run.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise StoreError(
                f"another slalom-bench process is writing to {self.path}; wait for it or choose another --out"
            ) from error
        try:
            yield self
        finally:
            lock.release()

    def open(self, call: Mapping[str, Any]) -> None:
        """Check the schema version and add this call's record to run.json."""
        file = self.path / "run.json"
        data: dict[str, Any] = {"schema": SCHEMA, "calls": []}
        if file.exists():
            data = read_json(file)
            if not isinstance(data, dict) or data.get("schema") != SCHEMA:
                found = data.get("schema") if isinstance(data, dict) else "none"
                raise StoreError(
                    f"{self.path} was written with schema {found}, this version writes {SCHEMA}; "
                    "choose another --out (the old directory stays as it is)"
                )
        elif any((self.path / "cells").glob("*/cell.json")):
            raise StoreError(f"{self.path} has cells but no run.json; restore it or choose another --out")
        data["calls"].append(dict(call))
        write_json(file, data)

    def finish(self, end: Mapping[str, Any]) -> None:
        """Add the end time and counts to the record of the last call."""
        data = read_json(self.path / "run.json")
        data["calls"][-1] |= end
        write_json(self.path / "run.json", data)

    def cell(self, identity: Mapping[str, Any], *, restart: bool = False) -> CellStore:
        """The cell of that identity, made if it is not there; another identity under its key is refused."""
        path = self.path / "cells" / cell_name(identity)
        try:
            if restart and path.exists():
                trash = self.path / "old" / path.name
                shutil.rmtree(trash, ignore_errors=True)
                trash.parent.mkdir(exist_ok=True)
                path.rename(trash)
                shutil.rmtree(trash.parent)
            if not (path / "cell.json").exists():
                path.mkdir(parents=True, exist_ok=True)
                write_json(path / "cell.json", {"schema": SCHEMA, "identity": identity})
        except OSError as error:
            raise _write_error(path, error) from error
        stored = read_json(path / "cell.json")
        if stored.get("schema") != SCHEMA or canonical(stored.get("identity")) != canonical(identity):
            raise StoreError(f"{path} holds another cell than its name says; move it away or choose another --out")
        return CellStore(path, identity)

    def samples(self, identity: Mapping[str, Any]) -> Rows:
        """The samples that a cell of this identity explains: one file for a task, model and cut of the texts."""
        shared = {key: identity[key] for key in ("task", "model", "max_tokens")}
        readable = readable_name(identity["task"]["name"], identity["model"]["name"])
        return Rows(self.path / "samples" / f"{readable}-{short_hash(shared, 16)}.jsonl")

    def cells(self) -> list[CellStore]:
        """Every cell of the run, in the order of their folder names."""
        found = []
        for file in sorted((self.path / "cells").glob("*/cell.json")):
            data = read_json(file)
            if data.get("schema") != SCHEMA:
                raise StoreError(f"{file.parent} was written with schema {data.get('schema')}, not {SCHEMA}")
            found.append(CellStore(file.parent, data["identity"]))
        return found


def cell_name(identity: Mapping[str, Any]) -> str:
    """A folder name that a person can read and that no name in it can escape from."""
    readable = readable_name(identity["task"]["name"], identity["model"]["name"], identity["explainer"]["name"])
    return f"{readable}_b{identity['budget']}_s{identity['seed']}-{short_hash(identity, 16)}"


def readable_name(*words: str) -> str:
    """Words for a file name: nothing in them can leave the folder."""
    return "_".join(re.sub(r"[^a-z0-9.-]+", "-", word.lower()).strip(".-")[:40] for word in words)
