"""Running entries: each one's suites into one run directory, so that entries share what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    measured: Mapping[Protocol, Measured] = field(default_factory=dict)
    problem: str = ""
    """Why it could not be run to its end."""

    @property
    def complete(self) -> bool:
        """Whether every protocol was run to its end."""
        return set(self.measured) == set(self.entry.protocols)

    @property
    def verdict(self) -> Verdict:
        """That of the paper's protocol where it was run."""
        if not self.complete:
            return Verdict("not measured", f"{self.problem or 'It was not run to its end'}.")
        return self.measured.get("paper", next(iter(self.measured.values()))).verdict


def run_directory(out: Path, scale: Scale) -> Path:
    """Where the cells of all entries go."""
    return out / f"run-{scale}"


def reproduce_all(
    chosen: Sequence[Entry],
    out: Path,
    scale: Scale,
    options: ModelOptions,
    reporter: Reporter,
    kept: Callable[[Reproduced, list[Reproduced]], object],
) -> tuple[list[Reproduced], bool]:
    """Every entry, those that take least time first; one that fails does not stop the others.

    Args:
        chosen: the entries.
        out: folder of runs.
        scale: which suites.
        options: of models and data.
        reporter: of progress.
        kept: takes each entry as soon as it is done, and all of them as they are then.

    Returns:
        All of the entries in the order that they were given in, those not reached among them, and whether the user
        stopped it.
    """
    found = {entry.name: Reproduced(entry, scale) for entry in chosen}
    stopped = False
    try:
        for entry, one in _each(chosen, out, scale, options, reporter):
            found[entry.name] = one
            kept(one, list(found.values()))
            reporter.say(f"{one.verdict.word}: {one.verdict.sentence}")
    except KeyboardInterrupt:
        stopped = True
    return list(found.values()), stopped


def _each(
    chosen: Sequence[Entry], out: Path, scale: Scale, options: ModelOptions, reporter: Reporter
) -> Iterator[tuple[Entry, Reproduced]]:
    for i, entry in enumerate(sorted(chosen, key=lambda entry: entry.minutes), start=1):
        reporter.say(f"\n[{i}/{len(chosen)}] {entry.what}: {entry.title}")
        try:
            yield entry, reproduce(entry, out, scale, options, reporter)
        except Exception as error:  # whatever it is, the other entries can do without this one
            yield entry, Reproduced(entry, scale, problem=f"It failed: {type(error).__name__}: {error}")


def reproduce(entry: Entry, out: Path, scale: Scale, options: ModelOptions, reporter: Reporter) -> Reproduced:
    """Run what is missing of an entry and read all of it."""
    measured: dict[Protocol, Measured] = {}
    for protocol in entry.protocols:
        result = run_suite(entry.suite_of(scale, protocol), run_directory(out, scale), options, reporter=reporter)
        if result.interrupted:
            raise KeyboardInterrupt
        measured[protocol] = _measured(entry, result)
    return Reproduced(entry, scale, measured)


def _measured(entry: Entry, result: RunResult) -> Measured:
    run = read_run(result.path).only(result.identities.values())
    filled = fill(long_table(run, entry.layout.against), entry.layout)
    skips = tuple(f"{skip.what}: {skip.reason}" for skip in result.skips)
    return Measured(run, filled, judge(entry, filled), sum(cell.failed for cell in run.cells), skips)
