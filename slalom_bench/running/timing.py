"""How long a plan will take on this machine: one text of each model explained and scored, and multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slalom_bench.core.references import Ref
from slalom_bench.errors import SlalomBenchError
from slalom_bench.handle.backend import MeteredBackend
from slalom_bench.models.loading import model_availability
from slalom_bench.running.loading import Loader
from slalom_bench.running.plan import Cell, Plan, Planned
from slalom_bench.running.work import CellWork

PROBE = "linear-deletion"
"""The explainer that is timed: it asks what it may, fits little, and has a surrogate, so that every metric works."""
QUERIES = 200
"""The most that it asks."""


@dataclass(frozen=True)
class Rate:
    """What explaining and scoring cost on one task and model."""

    per_token: float
    """Seconds to explain, for each query and token of the whole text."""
    scoring: float
    """Seconds that all metrics take on one text."""

    def seconds(self, cells: Sequence[Cell], lengths: Sequence[int]) -> float:
        """Of these cells, every budget used up.

        >>> cell = Cell(task="t", model="m", explainer="e", budget=100, seed=0, metrics=(), samples=2)
        >>> Rate(0.001, 1.5).seconds([cell], [10, 30])
        7.0
        """
        return sum(cell.budget * sum(lengths) * self.per_token + cell.samples * self.scoring for cell in cells)


def measure_plan(plan: Plan, loader: Loader) -> tuple[float, list[str]]:
    """The seconds of a plan, and of which models nothing can be said and why.

    Models that would have to be trained or downloaded first are not, and an endpoint is asked nothing.
    """
    total, unknown = 0.0, []
    for planned in plan.subjects:
        cells = [cell for cell in plan.cells if cell.subject == (planned.task, planned.model)]
        try:
            found = _rate(cells, planned, loader) if cells else None
        except SlalomBenchError as error:
            found = str(error)
        if isinstance(found, Rate):
            total += found.seconds(cells, planned.lengths)
        elif found is not None:
            unknown.append(f"{planned.task} · {planned.model}: {found}")
        loader.keep(cell for cell in plan.cells if cell.subject != (planned.task, planned.model))
    return total, unknown


def _rate(cells: Sequence[Cell], planned: Planned, loader: Loader) -> Rate | str:
    """One text of middle length, after one that warms up; or why it was not tried."""
    there = model_availability(planned.model, Ref.parse(planned.task).name, loader.options)
    if not there.ready:
        return str(there)
    first = cells[0]
    subject = loader.subject(first)
    if isinstance(subject.classifier.backend, MeteredBackend):
        return "every query of an endpoint costs"
    budget = min(first.budget, QUERIES)
    work = CellWork(first.model_copy(update={"explainer": PROBE, "budget": budget}), subject)
    examples = subject.examples(first)
    order = sorted(range(len(examples)), key=lambda i: planned.lengths[i])
    middle = order[len(order) // 2]
    if len(examples) > 1:
        work.explain(examples[order[0]])
    explained, cost = work.explain(examples[middle])
    if "error" in explained:
        return str(explained["error"]["message"])
    spent = [work.score(examples[middle], explained, label)[1] for label in work.metrics]
    return Rate(
        cost["seconds"] / (budget * planned.lengths[middle]),
        sum(row["seconds"] for row in spent if row is not None),
    )
