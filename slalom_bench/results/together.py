"""Tables that differ in the model alone, read together text by text.

A text's value is the mean over the models of a tier (of errors, which are compared on the log scale, the geometric one;
of fidelity over the mask laws too), so that methods are ranked over texts just as on a single table. The models are
these and no sample of models: nothing here is said of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slalom_bench import registry
from slalom_bench.core.types import Floats
from slalom_bench.entries import Tier
from slalom_bench.results.boards import BASELINE, SEARCH, Board, BoardRow, partial
from slalom_bench.results.quality import MetricQuality, metric_quality
from slalom_bench.results.ranking import Ranked, Ranking, log_floor, rank
from slalom_bench.results.statistics import Scores
from slalom_bench.results.submission import Machine, MetricInfo
from slalom_bench.running.identity import MetricLabel

CHEAP = 2
"""Queries, forward or backward, of a method that is called cheap."""


@dataclass(frozen=True)
class Column:
    """One quantity that pages lead with."""

    name: str
    labels: tuple[MetricLabel, ...]
    """The metrics that it is the mean of; one, but for `fidelity`."""
    info: MetricInfo
    """Direction, scale and what matters: that of the first."""


class Method(NamedTuple):
    """A method of a group, the same on every table."""

    name: str
    family: str
    rows: tuple[BoardRow, ...]

    @property
    def needs(self) -> frozenset[str] | None:
        """What it needs of a model, gradients included where it took them; None: it is not registered here."""
        entry = registry.explainers.find(self.rows[0].submitted.explainer.name)
        if entry is None:
            return None
        took = any(row.cost is not None and row.cost.backwards > 0 for row in self.rows)
        return entry.needs | {"gradients"} if took else entry.needs

    @property
    def queries(self) -> float | None:
        """Sequences asked of the model, a text."""
        return self._mean([None if row.cost is None else row.cost.queries for row in self.rows])

    @property
    def seconds(self) -> float | None:
        """Of the median text, as a mean over the models; None where they are not all of one known machine."""
        machines = {row.machine for row in self.rows}
        return self._mean([row.seconds for row in self.rows]) if len(machines) == 1 else None

    @staticmethod
    def _mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(values) else None


class Choice(NamedTuple):
    """The best of some methods, and those that are tied with it."""

    tied: Sequence[Method]
    """The best first."""
    value: float
    of: int
    """Methods that were ranked."""
    texts: int
    decided: bool
    """Whether any two of them are told apart."""
    clear: bool
    """Whether the best is told apart from every other: that no other is tied is less, another may be the better one."""


@dataclass(frozen=True)
class Group:
    """Tables of one tier that differ in the model alone, in the order of the models' names."""

    boards: tuple[Board, ...]
    columns: tuple[Column, ...]

    @property
    def tier(self) -> Tier:
        """Of all its models."""
        return self.boards[0].tier

    @property
    def budget(self) -> int:
        """Of all its tables."""
        return self.boards[0].identity.budget

    @property
    def models(self) -> list[str]:
        """Their names."""
        return [board.identity.model.name for board in self.boards]

    @cached_property
    def methods(self) -> list[Method]:
        """Those on every table, by title (and version, where that differs); rows in conflict are left out."""
        named = [_by_title(board) for board in self.boards]
        common = [key for key in named[0] if all(key in other for other in named)]
        titles = Counter(title for title, _ in common)
        return [
            Method(
                title if titles[title] == 1 else f"{title} (v{version})",
                named[0][title, version].family,
                tuple(own[title, version] for own in named),
            )
            for title, version in common
        ]

    @property
    def left_out(self) -> list[str]:
        """Names of rows that are on some of the tables only."""
        common = {id(row) for method in self.methods for row in method.rows}
        return sorted({row.name for board in self.boards for row in board.rows if id(row) not in common})

    @property
    def machines(self) -> list[Machine]:
        """What it was timed on."""
        found = {row.machine for method in self.methods for row in method.rows if row.machine is not None}
        return sorted(found, key=lambda machine: machine.fingerprint)

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, Scores]]:
        """Column to method to text to value, None where any table or law has none; of methods that failed nowhere."""
        return {column.name: self._scores(column) for column in self.columns}

    def _scores(self, column: Column) -> dict[str, Scores]:
        log = column.info.scale == "log"
        aside = [_failed(board, column) for board in self.boards]
        whole = [m for m in self.methods if not any(row.name in out for row, out in zip(m.rows, aside, strict=True))]
        stacks: dict[str, list[Floats]] = {method.name: [] for method in whole}
        for i, label in ((i, label) for i in range(len(self.boards)) for label in column.labels):
            table = {m.name: row_values(m.rows[i], label) for m in self.methods if label in m.rows[i].cells}
            floor = _floor(list(table.values())) if log else 0.0
            for name in stacks:
                own = table.get(name, np.full(len(self.boards[0].samples), np.nan))
                stacks[name].append(np.log(np.maximum(own, floor)) if log else own)
        made = {}
        for name, parts in stacks.items():
            means = np.mean(parts, axis=0)
            values = np.exp(means) if log else means
            pairs = zip(self.boards[0].samples, values.tolist(), strict=True)
            made[name] = {sample: None if np.isnan(value) else value for sample, value in pairs}
        return {name: row for name, row in made.items() if set(row.values()) - {None}}

    @cached_property
    def rankings(self) -> Mapping[str, Ranking]:
        """Of all methods, by column."""
        return {column.name: self._rank(column, self.methods) for column in self.columns}

    @cached_property
    def quality(self) -> Mapping[str, MetricQuality]:
        """How good each column is here."""
        return {name: metric_quality(ranking) for name, ranking in self.rankings.items()}

    def places(self, column: str) -> dict[str, Ranked]:
        """Method to its place."""
        return {row.name: row for row in self.rankings[column].rows}

    def value(self, column: Column, method: str) -> float | None:
        """The mean over texts, geometric where compared on the log scale; None where it has none."""
        row = self.scores[column.name].get(method)
        if row is None:
            return None
        known = np.array([value for value in row.values() if value is not None])
        return float(np.exp(np.log(known).mean()) if column.info.scale == "log" else known.mean())

    def best(self, column: Column, allowed: Callable[[Method], bool]) -> Choice | None:
        """The best by a column of the methods that are allowed, compared among themselves; None where there is none.

        Neither baselines nor searches are methods to choose.
        """
        asked = [m for m in self.methods if m.family not in (BASELINE, SEARCH) and allowed(m)]
        asked = [method for method in asked if method.name in self.scores[column.name]]
        if not asked:
            return None
        ranking = self._rank(column, asked)
        named = {method.name: method for method in asked}
        tied = [named[row.name] for row in ranking.rows if row.tied_with_best]
        value = self.value(column, tied[0].name) if tied else None
        if value is None:
            return None
        first = list(ranking.names).index(tied[0].name)
        others = np.delete(ranking.pairs.told_apart(ranking.relevant)[first], first)
        count = len(ranking.names)
        return Choice(tied, value, count, ranking.pairs.n, ranking.separates or count == 1, bool(others.all()))

    @cached_property
    def _ranked(self) -> dict[tuple[str, ...], Ranking]:
        """Rankings that were asked for before: several questions have the same methods to choose from."""
        return {}

    def _rank(self, column: Column, methods: Sequence[Method]) -> Ranking:
        key = (column.name, *(method.name for method in methods))
        if key not in self._ranked:
            self._ranked[key] = self._compare(column, methods)
        return self._ranked[key]

    def _compare(self, column: Column, methods: Sequence[Method]) -> Ranking:
        scores, info = self.scores[column.name], column.info
        kinds = {
            kind: {method.name for method in methods if method.family == kind and method.name in scores}
            for kind in (SEARCH, BASELINE)
        }
        return rank(
            {method.name: scores[method.name] for method in methods if method.name in scores},
            info.direction,
            scale=info.scale or "linear",
            relevant=info.relevant,
            references=kinds[SEARCH],
            baselines=kinds[BASELINE],
        )


def _failed(board: Board, column: Column) -> set[str]:
    """Rows that failed on more texts than others: their means would be of other texts."""
    rows = {row.name: row.submitted for row in board.rows}
    return {name for label in column.labels for name in partial(rows, label)}


def black_box(method: Method) -> bool:
    """Whether answers to texts are all that it asks for."""
    return method.needs is not None and method.needs <= {"queries"}


def cheap(method: Method) -> bool:
    """Whether it takes a query or two, backward passes among them."""
    return method.queries is not None and method.queries <= CHEAP


def anything(method: Method) -> bool:
    """Every method."""
    return True


def _by_title(board: Board) -> dict[tuple[str, int], BoardRow]:
    keys = [(row.submitted.explainer.title, row.submitted.explainer.version) for row in board.rows]
    counts = Counter(keys)
    return {key: row for key, row in zip(keys, board.rows, strict=True) if counts[key] == 1}


def row_values(row: BoardRow, label: MetricLabel) -> Floats:
    """The row's value of every text, not a number where it is undefined."""
    return np.array([np.nan if value is None else value for value in row.scores(label).values()], np.float64)


def _floor(rows: Sequence[Floats]) -> float:
    """What the smallest errors of a table count as: see `ranking.log_floor`."""
    whole = [row for row in rows if np.isfinite(row).any()]
    medians = np.array([[float(np.nanmedian(row)) for row in whole]])
    return log_floor(medians, np.concatenate(whole)[np.isfinite(np.concatenate(whole))]) if whole else 0.0
