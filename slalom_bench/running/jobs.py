"""What goes to a worker and what comes back, as plain data: any process may take it up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slalom_bench.core.types import Cost, Score
from slalom_bench.running.facts import Facts
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.plan import Cell
from slalom_bench.running.records import NOT_EXPLAINED
from slalom_bench.running.store import COSTS, EXPLANATIONS, SCORES

Row = dict[str, Any]
Emit = Callable[[str, Row], None]
"""Takes one row for a table of its cell."""


@dataclass(frozen=True)
class Prepare:
    """Load the task and model of a cell, and say what they are."""

    cell: Cell
    queries: int
    """That the plan may ask of this model, for what that costs."""
    rows: bool
    """Whether the texts in the model's tokens are wanted too."""


@dataclass(frozen=True)
class Prepared:
    """What was loaded."""

    facts: Facts
    rows: Sequence[Row] = ()
    """The texts of the cell in the model's tokens; one that cannot be encoded has none."""


@dataclass(frozen=True)
class Job:
    """One sample of a cell: explain it, unless it is, and score it by some metrics."""

    cell: Cell
    sample: str
    explained: Mapping[str, Any] | None
    """The stored row of the explanation; None: explain."""
    labels: tuple[MetricLabel, ...]
    """The metrics to score it by."""


def given_up(job: Job, message: str) -> list[tuple[str, Row]]:
    """The rows, each with its table, of a job that nobody could finish: errors that the next run tries again."""
    error: dict[str, Any] = {"type": "WorkerDied", "message": message, "passing": True}
    rows: list[tuple[str, Row]] = []
    if job.explained is None:
        rows.append((COSTS, {"id": f"explain:{job.sample}", **Cost().to_dict()}))
        rows.append((EXPLANATIONS, {"id": job.sample, "error": error}))
        error = {"type": NOT_EXPLAINED, "message": message}
    scored = {"id": job.sample, **Score().to_dict(), "error": error}
    return [*rows, *((f"{SCORES}{label}", scored) for label in job.labels)]
