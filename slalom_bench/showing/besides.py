"""What stands beside the headline values: the law a surrogate was fitted to, and the other values that qualify them."""

from __future__ import annotations

from slalom_bench.results.boards import Board, BoardRow
from slalom_bench.running.identity import MetricLabel
from slalom_bench.showing.wording import heading, number

TITLE = "Beside the headline values"
WORDS = {
    "raw": "the mean squared error itself, in squared log-odds",
    "excluded": "share of the law's masks that the method had itself asked for, so that they do not count for it",
    "missing": "strict fidelity's error where tokens go and the others keep their positions",
    "moving": "what is added to it (or taken from it) because the others move",
    "outside": "share of texts on which the method's order beats the best, or falls below the worst, that was searched",
    "beyond": "by how much of the range it does, on average",
    "never": "share of texts whose class no deletion changes, which count as 1",
}
"""Values of metrics that boards show, means over texts, and what they are."""
SHARES = ("excluded", "outside", "never")
FITTED = "fitted to: the mask law of a regression; - where no surrogate was fitted to masks."


def shown(board: Board) -> list[MetricLabel]:
    """The metrics that have such values on this board."""
    return [label for label in board.metrics if any(_parts(row, label) for row in board.rows)]


def columns(board: Board) -> list[str]:
    """The head of the table; nothing where there is nothing to show."""
    labels = shown(board)
    return ["explainer", "fitted to", *(heading(board.metrics[label]) for label in labels)] if labels else []


def rows(board: Board) -> list[list[str]]:
    """One line an explainer."""
    labels = shown(board)
    return [[row.name, row.submitted.law or "-", *(_spelled(row, label) for label in labels)] for row in board.rows]


def note(board: Board) -> str:
    """What the words of the table mean."""
    used = {name for label in shown(board) for row in board.rows for name in _parts(row, label)}
    words = [f"{name}: {text}" for name, text in WORDS.items() if name in used]
    return f"Means over texts. {FITTED[0].upper()}{FITTED[1:]} {'; '.join(words)}."


def _parts(row: BoardRow, label: MetricLabel) -> dict[str, float]:
    parts = row.cells[label].result.parts if label in row.cells else {}
    return {name: parts[name] for name in WORDS if name in parts}


def _spelled(row: BoardRow, label: MetricLabel) -> str:
    found = _parts(row, label).items()
    return ", ".join(f"{name} {f'{value:.0%}' if name in SHARES else number(value)}" for name, value in found)
