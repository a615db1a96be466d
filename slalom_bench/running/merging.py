"""Joining run directories: parts that were computed apart (`run --shard`), into the one that the whole would be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from slalom_bench.errors import InvalidInput, StoreError
from slalom_bench.running.identity import CellIdentity, MetricLabel
from slalom_bench.running.shards import Shard
from slalom_bench.running.store import COSTS, EXPLANATIONS, SCORES, CellStore, RunStore

NAMED = 8
"""Missing parts that an error names."""


@dataclass(frozen=True)
class Part:
    """A directory to be joined."""

    store: RunStore
    calls: tuple[Mapping[str, Any], ...]
    shard: Shard

    def places(self, samples: Sequence[str]) -> dict[int, str]:
        """Where its samples of a cell stand among all of them."""
        return {self.shard[0] - 1 + j * self.shard[1]: sample for j, sample in enumerate(samples)}


@dataclass(frozen=True)
class Merged:
    """What was joined."""

    path: Path
    cells: int
    samples: int
    """Rows of explanations, over all cells."""


def merge(directories: Sequence[Path], out: Path) -> Merged:
    """Join run directories into a new one; nothing is written unless all of them are whole and agree.

    Args:
        directories: of finished runs: all the parts of one, or runs of other cells.
        out: the new run directory; must not be there, or be empty.

    Returns:
        What was joined. An unfinished cell, a part that is not given and rows that disagree are errors.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInput(f"{out} is not empty: give a new --out")
    parts = [_part(Path(directory)) for directory in directories]
    _check_parts(parts)
    cells: dict[str, list[tuple[Part, CellStore]]] = {}
    for part in parts:
        for cell in part.store.cells():
            cells.setdefault(cell.identity.key, []).append((part, cell))
    texts: dict[str, tuple[CellIdentity, list[str]]] = {}
    for found in cells.values():  # everything is read before anything is written
        order, identity = _order(found), found[0][1].identity
        for _ in _tables(found, order):
            pass
        if len(order) > len(texts.get(identity.samples_key, (identity, ()))[1]):
            texts[identity.samples_key] = identity, order
    said = {key: _union((part.store.samples(one).rows for part in parts), "samples") for key, (one, _) in texts.items()}
    store, samples = RunStore(out), 0
    for part in parts:
        for call in part.calls:
            store.adopt(call)
    for found in cells.values():
        samples += _join(store, found)
    for key, (identity, order) in texts.items():
        with store.keeping_samples(identity) as kept:
            kept.fill(said[key], order)
    return Merged(out, len(cells), samples)


def _part(path: Path) -> Part:
    store = RunStore(path)
    calls = store.calls()
    shards = {tuple(call.get("shard", (1, 1))) for call in calls}
    if len(shards) > 1:
        raise StoreError(f"{path} records calls of several parts of a run: {sorted(shards)}")
    i, n = shards.pop()
    return Part(store, tuple(calls), (i, n))


def _check_parts(parts: Sequence[Part]) -> None:
    """All parts of what is in parts are there, each once."""
    counts = {part.shard[1] for part in parts}
    if len(counts) > 1:
        raise InvalidInput(f"these are parts of runs that were cut into {' and '.join(map(str, sorted(counts)))} parts")
    (count,) = counts
    given = {part.shard[0] for part in parts}
    # not all of them are counted: what the directories say may be forged
    missing = list(islice((i for i in range(1, count + 1) if i not in given), NAMED + 1))
    if missing:
        said = ", ".join(f"{i}/{count}" for i in missing[:NAMED]) + " and more" * (len(missing) > NAMED)
        raise InvalidInput(f"the directory of part {said} is not given: run it with --shard, then merge all")


def _order(found: Sequence[tuple[Part, CellStore]]) -> list[str]:
    """The samples of a cell over all its parts, in their order; parts that do not agree are refused."""
    places: dict[int, str] = {}
    metrics = None
    for part, cell in found:
        said = cell.marker.read()
        if said is None:
            raise StoreError(f"{cell.path} is not finished: run its command again, then merge")
        if metrics not in (None, sorted(said["metrics"])):
            raise StoreError(f"{cell.path} has other metrics than the same cell of another directory")
        metrics = sorted(said["metrics"])
        cell.marker.check()
        for place, sample in part.places(said["samples"]).items():
            if places.setdefault(place, sample) != sample:
                raise StoreError(f"{cell.path}: text {place + 1} is {sample} there, elsewhere {places[place]}")
    if sorted(places) != list(range(len(places))):
        raise StoreError(f"{found[0][1].path}: texts are missing between its parts; had all runs the same --samples?")
    return [places[place] for place in sorted(places)]


def _join(store: RunStore, found: Sequence[tuple[Part, CellStore]]) -> int:
    """Write the tables of one cell, of all its parts; how many samples it has."""
    identity, order = found[0][1].identity, _order(found)
    with store.taken(identity, wait=True) as cell:
        if cell is None:
            raise StoreError(f"{identity.folder} is held by another process")
        for table, rows in _tables(found, order):
            cell.table(table).fill(rows, order)
        cell.commit(order, _labels(found))
    return len(order)


def _labels(found: Sequence[tuple[Part, CellStore]]) -> list[MetricLabel]:
    return [MetricLabel.parse(label) for label in found[0][1].marker.read()["metrics"]]  # type: ignore[index]


def _tables(
    found: Sequence[tuple[Part, CellStore]], order: Sequence[str]
) -> Iterator[tuple[str, dict[str, Mapping[str, Any]]]]:
    """The tables of one cell, joined; one that lacks a sample is refused, whatever its marker says."""
    title = found[0][1].identity.title
    for table in (EXPLANATIONS, COSTS, *(f"{SCORES}{label}" for label in _labels(found))):
        rows = _union((cell.table(table).rows for _, cell in found), f"{title}: {table}")
        lost = next((name for name in order if name not in rows), None)
        if lost is not None and table != COSTS:
            raise StoreError(f"{title}: {table} has no row of {lost}: run its command again, then merge")
        yield table, rows


def _union(tables: Iterable[Mapping[str, Mapping[str, Any]]], what: str) -> dict[str, Mapping[str, Any]]:
    """Rows of several tables; one that is in two of them must be the same, but for what it cost."""
    rows: dict[str, Mapping[str, Any]] = {}
    for table in tables:
        for name, row in table.items():
            if rows.setdefault(name, row) != row and not what.endswith(COSTS):
                raise StoreError(f"{what}: the rows of {name} differ between two directories")
    return rows
