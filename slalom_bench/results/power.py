"""How many texts it takes to tell two methods apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from slalom_bench.errors import InvalidInput
from slalom_bench.results.boards import Board, BoardCell
from slalom_bench.results.quality import POWER, pair_level, texts_needed, wins_at
from slalom_bench.results.ranking import Ranking
from slalom_bench.results.statistics import LEVEL


@dataclass(frozen=True)
class Question:
    """What is asked: which metric, which two methods (the top two unless given), or which difference."""

    metric: str | None = None
    a: str | None = None
    b: str | None = None
    difference: float | None = None
    """In the metric's unit, on the log scale as a share; None: the one that was found."""
    power: float = POWER


@dataclass(frozen=True)
class PowerRow:
    """The answer for one metric of one board."""

    board: str
    metric: str
    a: str
    b: str
    scale: str
    difference: float
    """Between a and b, the median over texts, on the log scale of logarithms; as asked for, or as found."""
    wins: float
    """Share of the texts, ties left out, on which the better one is better at this difference."""
    texts: int
    """What the run has."""
    alone: int | None
    """Texts needed where this is the only comparison; None: no number of texts up to a million."""
    together: int | None
    """Texts needed at the level of a board that compares all its methods at once."""

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def power_table(boards: Sequence[Board], question: Question) -> list[PowerRow]:
    """Answer for every board and metric that has what is asked for; an error where none has."""
    if (question.a is None) != (question.b is None):
        raise InvalidInput("name both methods, --a and --b, or none")
    if not 0 < question.power < 1:
        raise InvalidInput(f"power is between 0 and 1, not {question.power}")
    rows = [row for board in boards for row in _rows(board, question)]
    if not rows:
        metrics = sorted({info.name for board in boards for info in board.metrics.values()})
        names = sorted({row.name for board in boards for row in board.rows if any(map(_ranked, row.cells.values()))})
        raise InvalidInput(
            f"nothing to compare: metrics here are {', '.join(metrics) or 'none'}, "
            f"ranked methods {', '.join(names) or 'none'}, with two texts at least"
        )
    return rows


def _ranked(cell: BoardCell) -> bool:
    return cell.ranked.rank is not None


def _rows(board: Board, question: Question) -> Iterator[PowerRow]:
    for label, info in board.metrics.items():
        ranking = board.ranking(label)
        wanted = question.metric in (None, info.name, str(label), label.unversioned)
        if not wanted or len(ranking.names) < 2 or len(ranking.scores) < 2:
            continue
        a, b = (row.name for row in ranking.rows[:2]) if question.a is None else (question.a, question.b or "")
        if a not in ranking.names or b not in ranking.names or a == b:
            continue
        difference, wins = _effect(ranking, a, b, question)
        level = pair_level(ranking.pairs)
        yield PowerRow(
            board.title,
            info.name,
            a,
            b,
            ranking.scale,
            difference,
            wins,
            len(ranking.scores),
            texts_needed(wins, LEVEL, question.power),
            texts_needed(wins, level, question.power),
        )


def _effect(ranking: Ranking, a: str, b: str, question: Question) -> tuple[float, float]:
    """A difference, and what share of the texts shows it.

    As found; or where one is asked for, if the differences of the texts lay about it as they lie about their median
    (of the two methods, or of the middle one of all pairs where none are named).
    """
    i, j = list(ranking.names).index(a), list(ranking.names).index(b)
    between = ranking.scores[:, j] - ranking.scores[:, i]
    if question.difference is None:
        share = wins_at(between, 0.0)
        return abs(float(np.median(between))), max(share, 1 - share)
    if question.difference <= 0:
        raise InvalidInput(f"a difference to look for is above zero, not {question.difference}")
    sought = float(np.log1p(question.difference)) if ranking.scale == "log" else question.difference
    pairs = [(i, j)] if question.a is not None else list(combinations(range(len(ranking.names)), 2))
    apart = [ranking.scores[:, other] - ranking.scores[:, one] for one, other in pairs]
    return sought, float(np.median([wins_at(each, sought - float(np.median(each))) for each in apart]))
