"""From a suite to cells: what will be computed, what is skipped and why, and what it will cost at most.

Planning loads the tasks' texts and the models' tokenizers, and no weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from slalom_bench import registry
from slalom_bench.core.extras import missing_extra
from slalom_bench.core.protocols import is_paper
from slalom_bench.core.references import Ref
from slalom_bench.errors import Unsupported
from slalom_bench.interfaces import Explainer
from slalom_bench.running.identity import MetricLabel, Record
from slalom_bench.running.suite import Suite

GIVEN = {
    "marks": "human marks",
    "annotators": "marks of several annotators",
    "pairs": "pairs of a text and its edit",
    "train": "training texts",
    "truth": "a known truth",
}
"""What a task may give to the metrics that need it, in words."""


class Cell(Record):
    """One cell of a plan: references and numbers, no live object, so that any process may take it up."""

    task: str
    model: str
    """As resolved: mini-bert where bert cannot be had."""
    explainer: str
    budget: int
    seed: int
    metrics: tuple[str, ...]
    samples: int
    """The first so many evaluation texts of the task."""
    shard: tuple[int, int] = (1, 1)
    """(i, n): of these texts the i-th, the i+n-th and so on; `slalom-bench merge` joins them with the others."""
    protocol: Literal["bench", "paper"] = "bench"
    removal: str = "delete"
    max_tokens: int | None = None
    target: int | str | None = None
    """As in a suite."""
    explanations: str | None = None
    """A file of explanations that were computed elsewhere; then the explainer's name is not registered here."""

    @property
    def title(self) -> str:
        """The cell in one line."""
        return f"{self.task} · {self.model} · {self.explainer} · b={self.budget} · seed {self.seed}"

    @property
    def subject(self) -> tuple[str, str]:
        """The task and model that must be loaded for it."""
        return self.task, self.model

    @property
    def loaded(self) -> tuple[str, str, str]:
        """The task, the model and the removal rule that it is asked under: what a worker has loaded for it."""
        return self.task, self.model, self.removal

    @property
    def places(self) -> range:
        """Which of the evaluation texts are its own.

        >>> cell = Cell(task="t", model="m", explainer="e", budget=1, seed=0, metrics=(), samples=7, shard=(2, 3))
        >>> list(cell.places)
        [1, 4]
        """
        return range(self.shard[0] - 1, self.samples, self.shard[1])

    @property
    def labels(self) -> dict[str, MetricLabel]:
        """The label of each of its metrics, by reference."""
        return {text: metric_label(text) for text in self.metrics}


def check_removal(removal: str, capabilities: frozenset[str] | None) -> None:
    """Refuse a removal rule that needs what a model does not give; one that only loading can tell of passes.

    >>> check_removal("gap", frozenset({"queries", "positions"}))
    """
    name = Ref.parse(removal).name
    missing = registry.removals.get(name).needs - (capabilities or frozenset())
    if capabilities is not None and missing:
        raise Unsupported(f"removal rule {name} needs {' and '.join(sorted(missing))}, which this model does not have")


def metric_label(text: str) -> MetricLabel:
    """The label of a metric's scores, from its reference."""
    ref = Ref.parse(text)
    entry = registry.metrics.get(ref.name)
    return MetricLabel.of(entry.name, entry.version, entry.given(ref))


def build_explainer(text: str, protocol: str) -> Explainer:
    """The explainer with its parameters, told of the paper protocol if it knows one and was not told otherwise.

    The protocol is part of a cell's identity already, so it is added here and not to the parameters of the suite.
    """
    ref = Ref.parse(text)
    entry = registry.explainers.get(ref.name)
    told = is_paper(protocol) and "protocol" in entry.parameters
    return entry.build({"protocol": protocol, **ref.params} if told else ref.params, ref.argument)


@dataclass(frozen=True)
class Skip:
    """A part of a suite that is not computed, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Planned:
    """A model on a task as far as a plan needs to know them: what they give, how long the texts are."""

    task: str
    model: str
    samples: int
    gives: frozenset[str]
    """Out of `GIVEN`."""
    capabilities: frozenset[str] | None = None
    """None where only the loaded model can tell."""
    lengths: tuple[int, ...] = ()
    """Tokens of each text, special ones included, as far as the model reads."""


@dataclass(frozen=True)
class Plan:
    """What a suite comes to: cells in the order in which they are run, and what was left out."""

    cells: tuple[Cell, ...]
    skips: tuple[Skip, ...] = ()
    subjects: tuple[Planned, ...] = field(default=())
    shard: tuple[int, int] = (1, 1)

    def part(self, shard: tuple[int, int]) -> Plan:
        """The same cells, each with the i-th of n parts of its texts; a cell without any is left out."""
        cells = [cell.model_copy(update={"shard": shard}) for cell in self.cells]
        return replace(self, cells=tuple(cell for cell in cells if cell.places), shard=shard)

    def estimate(self) -> dict[str, int]:
        """An upper bound of the explaining: every budget used up, on sequences as long as the samples."""
        tokens = {(planned.task, planned.model): sum(planned.lengths) for planned in self.subjects}
        return {
            "cells": len(self.cells),
            "queries": sum(cell.budget * cell.samples for cell in self.cells),
            "tokens": sum(cell.budget * tokens.get(cell.subject, 0) for cell in self.cells),
        }


def make_plan(suite: Suite, subjects: Sequence[Planned], skips: Sequence[Skip] = ()) -> Plan:
    """Every combination of the suite on its subjects.

    Args:
        suite: what was asked for.
        subjects: the models on tasks that can be had.
        skips: what was left out already.

    Returns:
        The cells, and a skip with its reason for everything that cannot be done.
    """
    cells: list[Cell] = []
    left = list(skips)
    for subject in subjects:
        metrics = usable_metrics(suite, subject, left)
        for text in suite.explainers:
            for budget in suite.budgets:
                for seed in _seeds(suite, subject, text, left if budget == suite.budgets[0] else []):
                    cells.append(make_cell(suite, subject, text, budget, seed, metrics))
    return Plan(tuple(dict.fromkeys(cells)), tuple(left), tuple(subjects))


def make_cell(suite: Suite, subject: Planned, explainer: str, budget: int, seed: int, metrics: Sequence[str]) -> Cell:
    """One cell of a suite."""
    return Cell(
        task=subject.task,
        model=subject.model,
        explainer=str(Ref.parse(explainer)),
        budget=budget,
        seed=seed,
        metrics=tuple(metrics),
        samples=subject.samples,
        protocol=suite.protocol,
        removal=suite.removal,
        max_tokens=suite.max_tokens,
        target=suite.target,
    )


def _seeds(suite: Suite, subject: Planned, text: str, skips: list[Skip]) -> tuple[int, ...]:
    """The seeds that an explainer is run with: none where model or installation do not give what it needs."""
    entry = registry.explainers.get(Ref.parse(text).name)
    where = f"{subject.task} · {subject.model} · {text}"
    if subject.capabilities is not None and (missing := sorted(entry.needs - subject.capabilities)):
        skips.append(Skip(where, f"needs {' and '.join(missing)}, which this model does not give"))
        return ()
    if reason := missing_extra(entry.extra):
        skips.append(Skip(where, reason))
        return ()
    if len(suite.seeds) > 1 and not entry.stochastic:
        skips.append(Skip(f"{where} · seeds {suite.seeds[1:]}", "not stochastic: one seed says it all"))
        return suite.seeds[:1]
    return suite.seeds


def _default_metrics() -> tuple[str, ...]:
    usual = [entry for entry in registry.metrics.entries() if entry.default]
    return tuple(entry.name for entry in sorted(usual, key=lambda entry: (entry.order, entry.name)))


def usable_metrics(suite: Suite, subject: Planned, skips: list[Skip]) -> tuple[str, ...]:
    """The metrics asked for, or every default one, that the task gives enough for; asked for in vain is a skip."""
    usable = []
    for text in suite.metrics or _default_metrics():
        needs = registry.metrics.get(Ref.parse(text).name).needs
        missing = sorted(need for need in needs & GIVEN.keys() if need not in subject.gives)
        if not missing:
            usable.append(text)
        elif suite.metrics:
            reason = f"the task has no {' and no '.join(GIVEN[need] for need in missing)}"
            skips.append(Skip(f"{subject.task} · {subject.model} · metric {text}", reason))
    return tuple(usable)
