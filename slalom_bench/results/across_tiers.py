"""Carry-over on the leaderboard: does the order of the methods on one model predict the order on another?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

from slalom_bench.results.boards import SEARCH, Board
from slalom_bench.results.carry_over import CarryOver, correlate
from slalom_bench.results.statistics import Scores
from slalom_bench.running.identity import MetricLabel

GOAL = 0.8
"""A correlation below this says that the order on the one model does not stand for that on the other."""


def across_tiers(boards: Sequence[Board]) -> list[CarryOver]:
    """From every board of an embedded model to every one of a larger model that differs in the model alone.

    And among the larger ones, which says how much can be asked of the others; but nothing where there are embedded
    models and none of them has a table like theirs.
    """
    small = [board for board in boards if board.tier == "embedded"]
    large = [board for board in boards if board.tier in ("full", "small-pretrained")]
    upwards = _alike(product(small, large))
    if small and not upwards:
        return []
    return [found for one, other in (*upwards, *_alike(combinations(large, 2))) for found in _between(one, other)]


def _alike(pairs: Iterable[tuple[Board, Board]]) -> list[tuple[Board, Board]]:
    """Those that differ in the model alone."""
    return [pair for pair in pairs if pair[0].identity.subject_free_key == pair[1].identity.subject_free_key]


def _between(one: Board, other: Board) -> Iterator[CarryOver]:
    """The correlation of every metric that both boards have."""
    said = one.identity
    cut = "" if said.max_tokens is None else f" · {said.max_tokens} tokens"
    table = f"{one.task} · budget {said.budget} · {said.protocol} · {said.removal}{cut}"
    for label, info in one.metrics.items():
        if label in other.metrics:
            left, right = (_column(board, label) for board in (one, other))
            yield correlate(table, (said.model.name, other.identity.model.name), info, left, right)


def _column(board: Board, label: MetricLabel) -> dict[str, list[Scores]]:
    """The scores of every method by title and version; not of references, nor of rows that files disagree on."""
    rows = [row for row in board.rows if label in row.cells and row.family != SEARCH]
    names = [f"{row.submitted.explainer.title} (v{row.submitted.explainer.version})" for row in rows]
    counts = Counter(names)
    return {
        name: [row.submission.scores(row.submitted, label)]
        for name, row in zip(names, rows, strict=True)
        if counts[name] == 1
    }
