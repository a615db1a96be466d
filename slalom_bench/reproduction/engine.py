"""Running entries: each one's suites into one run directory, so that entries share what they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slalom_bench.core.options import ModelOptions
from slalom_bench.reproduction.entry import Entry, Protocol, Scale
from slalom_bench.reproduction.values import Filled, fill, long_table
from slalom_bench.reproduction.verdict import Verdict, judge
from slalom_bench.results.reading import Run, read_run
from slalom_bench.running.progress import Reporter
from slalom_bench.running.runner import RunResult, run_suite


@dataclass(frozen=True)
class Measured:
    """An entry under one protocol: the cells that it is made of, its numbers and what follows from them."""

    run: Run
    filled: Filled
    verdict: Verdict
    failed: int
    skips: tuple[str, ...]


@dataclass(frozen=True)
class Reproduced:
    """An entry as far as it was measured."""

    entry: Entry
    scale: Scale
    measured: Mapping[Protocol, Measured]
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        """Whether every protocol was run to its end."""
        return not self.interrupted and set(self.measured) == set(self.entry.protocols)

    @property
    def verdict(self) -> Verdict:
        """That of the paper's protocol where it was run."""
        if not self.measured:
            return Verdict("not measured", "It was not run to its end.")
        return self.measured.get("paper", next(iter(self.measured.values()))).verdict


def run_directory(out: Path, scale: Scale) -> Path:
    """Where the cells of all entries go."""
    return out / f"run-{scale}"


def reproduce(entry: Entry, out: Path, scale: Scale, options: ModelOptions, reporter: Reporter) -> Reproduced:
    """Run what is missing of an entry and read all of it."""
    measured: dict[Protocol, Measured] = {}
    for protocol in entry.protocols:
        result = run_suite(entry.suite_of(scale, protocol), run_directory(out, scale), options, reporter=reporter)
        if result.interrupted:
            return Reproduced(entry, scale, measured, interrupted=True)
        measured[protocol] = _measured(entry, result)
    return Reproduced(entry, scale, measured)


def _measured(entry: Entry, result: RunResult) -> Measured:
    run = read_run(result.path).only(result.identities.values())
    filled = fill(long_table(run, entry.layout.against), entry.layout)
    skips = tuple(f"{skip.what}: {skip.reason}" for skip in result.skips)
    return Measured(run, filled, judge(entry, filled), sum(cell.failed for cell in run.cells), skips)
