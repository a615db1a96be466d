"""What a task's page leads with: a few quantities, and of each tier the tables that are read together for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from slalom_bench.entries import Tier
from slalom_bench.results.boards import Board
from slalom_bench.results.together import Column, Group, row_values
from slalom_bench.running.identity import MetricLabel

FIDELITY = "fidelity"
LAWS = ("fidelity-few", "fidelity-many", "fidelity-spans", "fidelity-sentences", "fidelity-top")
"""The metrics whose geometric mean is `fidelity`: the error over that of predicting no change, by mask law."""
RANKING = ("srg", "deletion-log-odds", "deletion")
TRUTH = ("human-attention-auroc", "edit-localisation", "recovery", "nb-spearman")
"""Of these metrics the first that a task has: what a ranking does to the model, and what is known beside the model."""
FALLBACK = 3
"""Metrics that lead where none of the above was measured."""
LAW_COVERAGE = 0.75
"""A law that fewer of the texts have (texts of one sentence have no sentence to lose) is no part of `fidelity`."""


@dataclass(frozen=True)
class Headline:
    """What a task's page leads with: a group a tier, and the same at other budgets and under other removal rules."""

    task: str
    groups: tuple[Group, ...]
    """Full models first."""
    budgets: Mapping[Tier, Sequence[Group]]
    """Of each tier its models at every budget they all have, smallest first; nothing for one budget."""
    rules: Mapping[str, Sequence[Group]]
    """Model name to its tables by removal rule, at the budget of the page; nothing for one rule."""


def headline(task: str, boards: Sequence[Board]) -> Headline:
    """The headline of a task's boards.

    Of each tier those boards are read together that differ in the model alone: the most models times texts, under the
    bench protocol where there is a choice, at the budget that most tiers and tables have (the largest of equals).
    """
    families: dict[tuple[str, ...], dict[int, list[Board]]] = {}
    for board in boards:
        families.setdefault(_family(board), {}).setdefault(board.identity.budget, []).append(board)
    best = {tier: _fullest(families, tier) for tier in get_args(Tier) if any(key[0] == tier for key in families)}
    counts = Counter(budget for key in best.values() for budget in families[key])
    sizes = Counter({budget: sum(len(families[key].get(budget, ())) for key in best.values()) for budget in counts})
    order = sorted(counts, key=lambda budget: (-counts[budget], -sizes[budget], -budget))
    groups, series, rules = [], {}, {}
    for tier, key in best.items():
        at = next(budget for budget in order if budget in families[key])
        group = make_group(families[key][at])
        groups.append(group)
        series[tier] = _at_budgets(families[key], group)
        for model in group.models:
            found = [
                make_group([board])
                for other, budgets in families.items()
                for board in budgets.get(at, ())
                if other[:-1] == key[:-1] and board.identity.model.name == model
            ]
            if len(found) > 1:
                rules[model] = found
    return Headline(task, tuple(groups), {tier: made for tier, made in series.items() if len(made) > 1}, rules)


def make_group(boards: Sequence[Board]) -> Group:
    """Boards of different models as a group; of two of one model that with more rows."""
    chosen: dict[str, Board] = {}
    for board in sorted(boards, key=lambda board: (-len(board.rows), board.key)):
        chosen.setdefault(board.identity.model.name, board)
    members = tuple(chosen[name] for name in sorted(chosen))
    return Group(members, _columns(members))


def _family(board: Board) -> tuple[str, ...]:
    """What tables share that are read together or beside each other; the removal rule is last."""
    said = board.identity
    labels = sorted(str(label) for label in board.metrics if label.name in (*LAWS, *RANKING, *TRUTH))
    shared = (str(said.task.params), said.task.content, str(said.max_tokens), str(said.target), said.protocol)
    return (board.tier, *shared, *board.samples, *labels, f"{said.removal} v{said.removal.version}")


def _fullest(families: Mapping[tuple[str, ...], Mapping[int, Sequence[Board]]], tier: Tier) -> tuple[str, ...]:
    """The family of a tier with the most models times texts, then the most tables."""

    def size(key: tuple[str, ...]) -> tuple[int, bool, int, bool, tuple[str, ...]]:
        tables = [board for boards in families[key].values() for board in boards]
        evidence = len({board.identity.model.name for board in tables}) * len(tables[0].samples)
        identity = tables[0].identity
        return (-evidence, identity.protocol != "bench", -len(tables), identity.removal.name != "delete", key)

    return min((key for key in families if key[0] == tier), key=size)


def _at_budgets(tables: Mapping[int, Sequence[Board]], group: Group) -> list[Group]:
    made = []
    for budget in sorted(tables):
        own = [board for board in tables[budget] if board.identity.model.name in group.models]
        if {board.identity.model.name for board in own} == set(group.models):
            made.append(make_group(own))
    return made


def _columns(boards: Sequence[Board]) -> tuple[Column, ...]:
    """The quantities that all boards of a group have."""
    every = [label for label in boards[0].metrics if all(label in board.metrics for board in boards)]
    named = {label.name: label for label in every if not label.params}
    laws = [named[name] for name in LAWS if name in named and _covered(boards, named[name])]
    made = [(FIDELITY, tuple(laws))] if laws else []
    for names in (RANKING, TRUTH) if laws else (("strict-fidelity",), RANKING, TRUTH):
        if found := next((name for name in names if name in named), None):
            made.append((found, (named[found],)))
    made = made or [(str(label) if label.params else label.name, (label,)) for label in every[:FALLBACK]]
    return tuple(Column(name, labels, boards[0].metrics[labels[0]]) for name, labels in made)


def _covered(boards: Sequence[Board], label: MetricLabel) -> bool:
    """Whether some method has this metric on nearly all texts, on every board."""
    return all(
        max(np.isfinite(row_values(row, label)).mean() for row in board.rows if label in row.cells) >= LAW_COVERAGE
        for board in boards
    )
