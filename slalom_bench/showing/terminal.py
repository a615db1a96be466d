"""The closing tables of a run: means with intervals, undefined and failed counts, cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slalom_bench.results.boards import Board, BoardCell, BoardRow, MetricResult, boards
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import Run
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.runner import RunResult
from slalom_bench.showing.comparing import arithmetic, interval, lead, notes, quality_line
from slalom_bench.showing.wording import about_model, heading, training

SUMMARY = ("n", "undefined", "mean", "standard_error", "low", "high")
"""What the JSON summary says of a metric's result."""


def call_boards(result: RunResult, run: Run) -> list[Board]:
    """The boards of the cells that a call took up, leaving out what else its directory holds."""
    own = run.only(result.identities.values())
    return boards([collected.submission for collected in collect(own, unfinished=True)])


def summary_json(result: RunResult, made: Sequence[Board]) -> dict[str, Any]:
    """What a call did and its boards, as data."""
    return {
        "run": str(result.path),
        "suite": result.suite.name,
        "explained": result.explained,
        "scored": result.scored,
        "reused": result.reused,
        "failed": result.failed,
        "interrupted": result.interrupted,
        "skips": [vars(skip) for skip in result.skips],
        "groups": [_group(board) for board in made],
    }


def _group(board: Board) -> dict[str, Any]:
    said = board.identity
    return {
        "task": said.task.model_dump(mode="json"),
        "model": said.model.model_dump(mode="json"),
        "budget": said.budget,
        "protocol": said.protocol,
        "removal": str(said.removal),
        "max_tokens": said.max_tokens,
        "samples": len(board.samples),
        "metrics": {str(label): _column(board, label) for label in board.metrics},
        "quality": {str(label): vars(found) for label, found in board.quality.items()},
        "metric_agreement": [
            {"a": str(one), "b": str(other), "spearman": value} for (one, other), value in board.agreement.items()
        ],
        "model_metrics": {str(label): _model_metric(found) for label, found in board.about_model.items()},
        "cost": {row.name: None if row.cost is None else row.cost.model_dump() for row in board.rows},
        "diagnostics": {row.name: dict(row.diagnostics) for row in board.rows},
        "failed": {row.name: row.failed for row in board.rows},
    }


def _column(board: Board, label: MetricLabel) -> list[dict[str, Any]]:
    """The rows of one metric, best first, those without a rank last."""
    rows = [row for row in board.rows if label in row.cells]
    rows.sort(key=lambda row: (row.cells[label].ranked.rank or len(rows) + 1, row.name))
    return [_entry(row, row.cells[label]) for row in rows]


def _entry(row: BoardRow, cell: BoardCell) -> dict[str, Any]:
    return {
        "explainer": row.name,
        **{name: getattr(cell.result, name) for name in SUMMARY},
        "rank": cell.ranked.rank,
        "rank_set": [cell.ranked.rank_low, cell.ranked.rank_high],
        "marked": cell.marked,
        "verdict": cell.ranked.verdict,
        "p_adjusted": cell.ranked.p_adjusted,
        "to_best": None if cell.ranked.to_best is None else vars(cell.ranked.to_best),
        "geometric_mean": None if cell.ranked.geometric is None else vars(cell.ranked.geometric),
    }


def _model_metric(found: MetricResult) -> dict[str, Any]:
    return {**{name: getattr(found.result, name) for name in SUMMARY}, "values": found.values}


def spell(cell: BoardCell | None, intervals: bool = True) -> str:
    """`0.123* [0.10, 0.15]`, a star for the best and its ties, and how many samples are undefined.

    On the log scale `0.09* [0.07, 0.11], mean 0.123`: the geometric mean with its interval, then the arithmetic one.
    """
    if cell is None:
        return "-"
    result, first = cell.result, lead(cell)
    if first is None:
        return f"undefined ({result.undefined})" if result.undefined else "-"
    text = f"{first:.3g}" + ("*" if cell.marked else "")
    if intervals:
        ends = interval(cell)
        text += ("" if ends is None else f" [{ends[0]:.2g}, {ends[1]:.2g}]") + arithmetic(cell)
    if result.undefined:
        text += f" ({result.undefined} undef.)"
    return text


COSTS = ("queries", "model s", "total s", "failed")
FRAME = 3
"""Characters that a column takes beside its text."""


def print_tables(made: Sequence[Board]) -> None:
    """Each board on stdout, as tables under each other where its columns do not fit side by side."""
    import shutil
    import sys

    from rich.console import Console
    from rich.text import Text

    width = max(shutil.get_terminal_size().columns if sys.stdout.isatty() else 200, 80)
    console = Console(highlight=False, width=width)
    for board in made:
        intervals = width >= 50 + 23 * len(board.metrics)
        columns = _columns(board, intervals)
        names = ["explainer", *(row.name for row in board.rows)]
        blocks = _blocks(columns, width - max(map(len, names)) - FRAME - 1)
        for number, block in enumerate(blocks):
            console.print(_table(board, block, title=number == 0))
        console.print(Text(_caption(board, intervals)), style="dim")


def _columns(board: Board, intervals: bool) -> list[list[str]]:
    """The columns of a board, each its heading and a cell for every row: metrics, then costs."""
    columns = [
        [heading(info), *(spell(row.cells.get(label), intervals) for row in board.rows)]
        for label, info in board.metrics.items()
    ]
    spent = [
        (f"{row.cost.queries:.0f}", f"{row.cost.model_seconds:.2f}", f"{row.cost.seconds:.2f}", str(row.failed))
        if row.cost is not None
        else ("-", "-", "-", str(row.failed))
        for row in board.rows
    ]
    return columns + [[name, *cells] for name, cells in zip(COSTS, zip(*spent, strict=True), strict=True)]


def _blocks(columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """The columns in their order, cut where the next one would not fit into so many characters."""
    blocks: list[list[list[str]]] = [[]]
    used = 0
    for column in columns:
        needed = max(map(len, column)) + FRAME
        if blocks[-1] and used + needed > width:
            blocks.append([])
            used = 0
        blocks[-1].append(column)
        used += needed
    return blocks


def _table(board: Board, columns: Sequence[Sequence[str]], *, title: bool) -> Any:
    """One block of columns; what a registered or submitted name holds is text, never markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(board.title) if title else None, title_justify="left")
    table.add_column("explainer", no_wrap=True)
    for column in columns:
        table.add_column(Text(column[0]), justify="right" if column[0] in COSTS else "left")
    for row, *cells in zip(board.rows, *(column[1:] for column in columns), strict=True):
        table.add_row(Text(row.name), *map(Text, cells))
    return table


def _caption(board: Board, intervals: bool) -> str:
    said = board.identity
    shown = (
        "mean [95 % interval], on the log scale geometric mean [its interval], mean"
        if intervals
        else "mean, on the log scale the geometric one (intervals in the report and with --json)"
    )
    cut = "" if said.max_tokens is None else f", texts cut to {said.max_tokens} tokens"
    model = "".join(f"\nthe model itself, {name}: {value}" for name, value in about_model(board))
    said_of_metrics = "".join(f"\n{line}" for line in (quality_line(board), *notes(board)) if line)
    return (
        f"{shown}; * best, or none is significantly better by what matters (all pairs, 5 %); "
        "costs are per sample, as if run alone. "
        f"Content {said.task.content[:12]} ({said.task.source}), weights {said.model.identity[:12]} "
        f"(training: {training(board)}), protocol {said.protocol}, removal {said.removal}{cut}{model}{said_of_metrics}"
    )
