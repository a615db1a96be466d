"""What a loaded model on a loaded task is, as plain data: enough to name its cells, whoever has it loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from slalom_bench import registry
from slalom_bench.core.references import Ref
from slalom_bench.core.types import DataSource
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.classifier import class_number
from slalom_bench.running.external import read_explanations
from slalom_bench.running.identity import (
    CellIdentity,
    ExplainerIdentity,
    ModelIdentity,
    RemovalIdentity,
    TaskIdentity,
)
from slalom_bench.running.plan import Cell, check_removal
from slalom_bench.running.shapes import why

OUTSIDE = "outside"
"""Family of methods that are not registered: their explanations came from a file (`slalom-bench score`)."""


@dataclass(frozen=True)
class Facts:
    """A subject (a model on a task) without its weights and texts; it travels between processes."""

    task: TaskIdentity
    model: ModelIdentity
    backend: str
    """The backend's own name, for messages."""
    class_names: tuple[str, ...]
    capabilities: frozenset[str]
    ids: tuple[str, ...]
    """Of the evaluation texts, in their order."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where data and weights came from, for the provenance of a run."""
    estimate: Mapping[str, int] = field(default_factory=dict)
    """Of a model whose queries cost: upper bounds, by name, of what the planned ones come to."""

    def check(self, cell: Cell) -> None:
        """Raise `Unsupported` where the model does not give what a cell of it needs."""
        check_removal(cell.removal, self.capabilities)
        needs = (
            set() if cell.explanations is not None else registry.explainers.get(Ref.parse(cell.explainer).name).needs
        )
        if missing := sorted(needs - self.capabilities):
            raise Unsupported(f"model {self.backend} gives no {' or '.join(missing)}")

    def samples(self, cell: Cell) -> tuple[str, ...]:
        """The ids of a cell's texts; of explanations from a file those that it explains."""
        chosen = tuple(self.ids[place] for place in cell.places if place < len(self.ids))
        if cell.explanations is None:
            return chosen
        explained = read_explanations(Path(cell.explanations))
        return tuple(sample for sample in chosen if sample in explained)

    def identify(self, cell: Cell) -> CellIdentity:
        """A cell of this subject with everything that can change its numbers."""
        removal = Ref.parse(cell.removal)
        entry = registry.removals.get(removal.name)
        try:
            return CellIdentity(
                task=self.task,
                model=self.model,
                explainer=_explainer(cell),
                budget=cell.budget,
                seed=cell.seed,
                protocol=cell.protocol,
                removal=RemovalIdentity(name=removal.name, version=entry.version, params=entry.given(removal)),
                max_tokens=cell.max_tokens,
                target=target(cell, self.class_names),
            )
        except ValidationError as error:
            raise refused(cell.title, error) from error


def refused(what: str, error: ValidationError) -> InvalidInput:
    """The first fault of a record, named."""
    return InvalidInput(f"{what}: {why(error)}")


def target(cell: Cell, class_names: tuple[str, ...]) -> int | None:
    """The class that a cell explains; None for the usual one, also where it was asked for by name or number."""
    if cell.target is None:
        return None
    number = class_number(cell.target, class_names)
    return None if len(class_names) == 2 and number == 1 else number


def task_identity(ref: Ref, source: DataSource) -> TaskIdentity:
    """What identifies a task's texts; a file that it was read from does by its content, not by its name."""
    entry = registry.tasks.get(ref.name)
    given = entry.given(ref)
    if entry.argument in given and Path(str(given[entry.argument])).exists():
        del given[entry.argument]
    try:
        return TaskIdentity(
            name=entry.name, version=entry.version, params=given, content=source.content_hash, source=source.name
        )
    except ValidationError as error:
        raise refused(str(ref), error) from error


def _explainer(cell: Cell) -> ExplainerIdentity:
    ref = Ref.parse(cell.explainer)
    if cell.explanations is not None:
        return ExplainerIdentity(name=ref.name, version=1, params=dict(sorted(ref.params.items())), family=OUTSIDE)
    entry = registry.explainers.get(ref.name)
    return ExplainerIdentity(
        name=entry.name,
        version=entry.version,
        params=entry.given(ref),
        family=entry.family,
    )
