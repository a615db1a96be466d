"""How long a plan will take on this machine: a text of each model done by every explainer and metric, and multiplied.

The text is done in the order of a run, and the clock on the wall is read: explainers ask much the same and metrics
share their masks, so what each costs alone (which is what a run records) would add up to ten times what a run takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from slalom_bench.core.references import Ref
from slalom_bench.core.types import Example
from slalom_bench.errors import SlalomBenchError
from slalom_bench.handle.backend import MeteredBackend
from slalom_bench.models.loading import model_availability
from slalom_bench.running.loading import Loader, Subject
from slalom_bench.running.plan import Cell, Plan, Planned
from slalom_bench.running.work import CellWork

PROBE, QUERIES = "linear-deletion", 64
"""The explainer that says how fast a model is before anything else is tried, and how often it asks."""
SHORT, LONGER = 16, 64
"""Tokens that the text is cut to: first, when all that is done once for a model is done too; and then."""
PATIENCE = 10.0
"""Seconds. A model that would keep the short text longer is tried with smaller budgets, and not with a longer text."""
Method = tuple[str, int]
"""An explainer and its budget; other seeds take as long."""


@dataclass(frozen=True)
class Tried:
    """What one text took on one task and model."""

    once: float
    """Seconds to load the model, and for what is done once for it."""
    spent: Mapping[Method, float]
    """Seconds of each method on the text, scoring included."""
    tokens: int
    """Of the text, special ones included."""

    def seconds(self, cells: Sequence[Cell], lengths: Sequence[int]) -> float:
        """Of these cells on texts of these lengths; time grows like the length.

        >>> cell = Cell(task="t", model="m", explainer="e", budget=100, seed=0, metrics=(), samples=2)
        >>> Tried(5.0, {("e", 100): 1.5}, 10).seconds([cell], [10, 30])
        11.0
        """
        texts = sum(lengths) / self.tokens
        return self.once + texts * sum(self.spent[cell.explainer, cell.budget] for cell in cells)


def measure_plan(plan: Plan, loader: Loader) -> tuple[float, list[str]]:
    """The seconds of a plan in one process, and of which models nothing can be said and why.

    Models that would have to be trained or downloaded first are not, and an endpoint is asked nothing.
    """
    total, unknown = 0.0, []
    for planned in plan.subjects:
        cells = [cell for cell in plan.cells if cell.subject == (planned.task, planned.model)]
        try:
            found = _try(cells, planned, loader) if cells else None
        except SlalomBenchError as error:
            found = str(error)
        if isinstance(found, Tried):
            total += found.seconds(cells, planned.lengths)
        elif found is not None:
            unknown.append(f"{planned.task} · {planned.model}: {found}")
        loader.keep(cell for cell in plan.cells if cell.subject != (planned.task, planned.model))
    return total, unknown


def _try(cells: Sequence[Cell], planned: Planned, loader: Loader) -> Tried | str:
    """Every method on a text cut short, then on a longer one while that is quick; or why it was not tried."""
    there = model_availability(planned.model, Ref.parse(planned.task).name, loader.options)
    if not there.ready:
        return str(there)
    begun = perf_counter()
    subject = loader.subject(cells[0])
    if isinstance(subject.classifier.backend, MeteredBackend):
        return "every query of an endpoint costs"
    examples = subject.examples(cells[0])
    order = sorted(range(len(examples)), key=lambda i: planned.lengths[i])
    middle = order[len(order) // 2]
    trial = _Trial(subject, examples[middle], planned.lengths[middle], cells)
    share = min(1.0, PATIENCE / max(trial.bound(), 1e-9))
    short = trial.time(SHORT, share)
    took = perf_counter() - begun
    if share < 1 or took > 2 * PATIENCE:
        return Tried(0.0, short, trial.tokens(SHORT))
    cut, longer = LONGER, trial.time(LONGER)
    while sum(longer.values()) < PATIENCE / 5 and trial.tokens(cut) < trial.length:
        cut, longer = 2 * cut, trial.time(2 * cut)
    return Tried(took, longer, trial.tokens(cut))


class _Trial:
    """One text, which every method of some cells can be timed on."""

    def __init__(self, subject: Subject, example: Example, length: int, cells: Sequence[Cell]) -> None:
        self.subject, self.example, self.length = subject, example, length
        self.first = cells[0]
        self.methods = {(cell.explainer, cell.budget): cell for cell in reversed(cells)}

    def tokens(self, cut: int) -> int:
        """Of the text where it is cut, special ones included."""
        tokens = self.subject.classifier.tokens
        return min(self.length, cut + len(tokens.prefix) + len(tokens.suffix))

    def bound(self) -> float:
        """Seconds that explaining the short text takes at most, were every budget used up and nothing shared."""
        for seed in (0, 1):  # the first call warms up
            cell = self.first.model_copy(update={"explainer": PROBE, "budget": QUERIES, "seed": seed})
            begun = perf_counter()
            CellWork(self._cut(cell, SHORT), self.subject).explain(self.example)
            took = perf_counter() - begun
        return took / QUERIES * sum(budget for _, budget in self.methods)

    def time(self, cut: int, share: float = 1.0) -> dict[Method, float]:
        """Seconds of each method on the text, cut; with a share of its budget, which counts for the whole of it."""
        return dict(self._timed(cut, share))

    def _timed(self, cut: int, share: float) -> Iterator[tuple[Method, float]]:
        for method, cell in reversed(self.methods.items()):
            budget = max(round(share * cell.budget), min(cell.budget, QUERIES))
            work = CellWork(self._cut(cell.model_copy(update={"budget": budget}), cut), self.subject)
            begun = perf_counter()
            row, _cost = work.explain(self.example)
            explained = perf_counter()
            for label in work.metrics:
                work.score(self.example, row, label)
            yield method, (explained - begun) * cell.budget / budget + perf_counter() - explained

    def _cut(self, cell: Cell, cut: int) -> Cell:
        return cell.model_copy(update={"max_tokens": min(cut, cell.max_tokens or cut)})
