"""Whether a run was of its suite as it is: what a leaderboard puts side by side, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slalom_bench import registry
from slalom_bench.errors import InvalidInput
from slalom_bench.results.reading import Run
from slalom_bench.results.submission import read_submission
from slalom_bench.running.identity import TaskIdentity
from slalom_bench.running.suite import Suite, load_suite, make_suite

SAME = ("budgets", "samples", "seeds", "protocol", "removal", "max_tokens", "target")
"""Fields that decide which table a row stands in, and how many texts and seeds it is the mean of."""
PARTS = ("tasks", "models")
"""Lists of which a run may be a part. Explainers are the contributor's own, and metrics may be more."""


def departures(run: Run) -> list[str]:
    """What in the last call of a run is not as the suite of its name has it; nothing where it is the suite as it is."""
    return [] if not run.calls else _departures(run.calls[-1]["suite"])


def _departures(said: Mapping[str, Any]) -> list[str]:
    asked = make_suite(**said)
    entry = registry.suites.find(asked.name)
    if entry is None:
        return [f"{asked.name} is no suite of slalom-bench: its rows stand in tables of their own"]
    scales = [scale for scale in entry.scales if _loads(asked.name, scale)]
    found = [_differences(asked, load_suite(asked.name, scale)) for scale in scales]
    return min(found, key=len, default=[])


def other_texts(written: Sequence[Path]) -> list[str]:
    """Tasks that the folder of these submissions has other files of, none of them on the same texts: what each has."""
    found: dict[str, str] = {}
    for path in written:
        task = read_submission(path).task
        beside = [other for other in path.parent.glob("*.json") if other not in written]
        known = {said.content: said.source for other in beside if (said := _task(other)) and said.name == task.name}
        if known and task.content not in known:
            there = ", ".join(f"{content[:12]} ({source})" for content, source in sorted(known.items()))
            found[task.name] = f"{task.name} is {task.content[:12]} ({task.source}) here, and {there} there"
    return list(found.values())


def _task(path: Path) -> TaskIdentity | None:
    """The task of a file that may be anybody's; None where it cannot be used."""
    try:
        return read_submission(path).task
    except InvalidInput:
        return None


def _loads(name: str, scale: str) -> bool:
    try:
        load_suite(name, scale)
    except InvalidInput:  # it names what is not installed here
        return False
    return True


def _differences(asked: Suite, suite: Suite) -> list[str]:
    found = [
        f"{field} is {_spelled(getattr(asked, field))}, in the suite {_spelled(getattr(suite, field))}"
        for field in SAME
        if getattr(asked, field) != getattr(suite, field)
    ]
    if suite.metrics and (missing := [name for name in suite.metrics if asked.metrics and name not in asked.metrics]):
        found.append(f"metrics lack {', '.join(missing)}")
    if asked.metrics and not suite.metrics:
        found.append(f"metrics are {', '.join(asked.metrics)}, in the suite all that apply")
    for field in PARTS:
        if other := [name for name in getattr(asked, field) if name not in _known(suite, field)]:
            found.append(f"{field} {', '.join(other)} are not of the suite")
    return found


def _known(suite: Suite, field: str) -> set[str]:
    """The names of a list, and what stands in where a model cannot be had."""
    names = set(getattr(suite, field))
    if field == "models":
        entries = [registry.models.find(name) for name in names]
        names |= {entry.stand_in for entry in entries if entry is not None and entry.stand_in}
    return names


def _spelled(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
