"""How many texts it takes to tell two methods apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slalom_bench.errors import InvalidInput
from slalom_bench.results.boards import Board, BoardCell
from slalom_bench.results.quality import POWER, pair_level, texts_needed
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
    """a minus b, on the log scale of logarithms; as asked for, or as found."""
    sd: float
    """Standard deviation over texts of the paired difference, on the same scale."""
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
        mean, sd = _spread(ranking, a, b, question)
        effect = mean / sd if sd else np.inf if mean else 0.0
        level = pair_level(ranking.pairs)
        yield PowerRow(
            board.title,
            info.name,
            a,
            b,
            ranking.scale,
            mean,
            sd,
            len(ranking.scores),
            texts_needed(effect, LEVEL, question.power),
            texts_needed(effect, level, question.power),
        )


def _spread(ranking: Ranking, a: str, b: str, question: Question) -> tuple[float, float]:
    """Mean and standard deviation of the paired difference; where only a difference is asked, the median deviation."""
    i, j = list(ranking.names).index(a), list(ranking.names).index(b)
    deviations = ranking.pairs.error * np.sqrt(ranking.pairs.n)
    mean, sd = abs(float(ranking.pairs.difference[i, j])), float(deviations[i, j])
    if question.difference is not None:
        if question.difference <= 0:
            raise InvalidInput(f"a difference to look for is above zero, not {question.difference}")
        mean = float(np.log1p(question.difference)) if ranking.scale == "log" else question.difference
        if question.a is None:
            sd = float(np.median(deviations[np.triu_indices(len(deviations), 1)]))
    return mean, sd
