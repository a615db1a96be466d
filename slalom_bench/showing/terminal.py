"""The closing tables of a run, as wide as the terminal: means, undefined and failed counts, cost; as data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from slalom_bench.results.boards import Board, BoardCell, BoardRow, MetricResult, boards
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import Run
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.runner import RunResult
from slalom_bench.showing.columns import HEAD, NAME, blocks, folded, grid, terminal, wide
from slalom_bench.showing.comparing import arithmetic, interval, lead, notes, quality_line
from slalom_bench.showing.wording import TOO_FEW, about_model, cut, heading, training

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
        "passing": result.passing,
        "retried": result.retried,
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
        "to_best": None if cell.ranked.to_best is None else asdict(cell.ranked.to_best),
        "geometric_mean": None if cell.ranked.geometric is None else asdict(cell.ranked.geometric),
    }


def _model_metric(found: MetricResult) -> dict[str, Any]:
    return {**{name: getattr(found.result, name) for name in SUMMARY}, "values": found.values}


def spell(cell: BoardCell | None, intervals: bool = True) -> str:
    """`0.123* [0.10, 0.15] (2)`: a star for the best and its ties, and how many samples are undefined.

    On the log scale `0.09* [0.07, 0.11], mean 0.123`: the geometric mean with its interval, then the arithmetic one.
    """
    if cell is None:
        return "-"
    result, first = cell.result, lead(cell)
    count = f" ({result.undefined})" if result.undefined else ""
    if first is None:
        return f"-{count}"
    text = f"{first:.3g}" + ("*" if cell.marked else "")
    if intervals:
        ends = interval(cell)
        text += ("" if ends is None else f" [{ends[0]:.2g}, {ends[1]:.2g}]") + arithmetic(cell)
    return text + count


COSTS = ("queries", "model s", "total s", "failed")


def print_tables(made: Sequence[Board]) -> None:
    """Each board on stdout; columns that do not fit side by side stand under each other, nothing is cut."""
    from rich.text import Text

    console = terminal()
    for board in made:
        console.print(Text(board.title), style="bold")
        names = ["explainer", *(folded(row.name, NAME) for row in board.rows)]
        room = console.width - wide(names)
        whole = blocks(_columns(board, intervals=True), room)
        intervals = len(whole) == 1
        for block in whole if intervals else blocks(_columns(board, intervals=False), room):
            console.print(grid(names, block, COSTS))
            console.print()
        console.print(Text(_caption(board, intervals)), style="dim")
        console.print()


def _columns(board: Board, intervals: bool) -> list[list[str]]:
    """The columns of a board, each its heading and a cell for every row: metrics, then costs."""
    columns = [
        [folded(heading(info), HEAD), *(spell(row.cells.get(label), intervals) for row in board.rows)]
        for label, info in board.metrics.items()
    ]
    spent = [
        (f"{row.cost.queries:.0f}", f"{row.cost.model_seconds:.2f}", f"{row.cost.seconds:.2f}", str(row.failed))
        if row.cost is not None
        else ("-", "-", "-", str(row.failed))
        for row in board.rows
    ]
    return columns + [[name, *cells] for name, cells in zip(COSTS, zip(*spent, strict=True), strict=True)]


def _caption(board: Board, intervals: bool) -> str:
    """What a reader of the numbers must know, a line each."""
    said = board.identity
    shown = (
        "mean [95 % interval], on the log scale geometric mean [its interval], mean"
        if intervals
        else "mean, on the log scale the geometric one (intervals in the report and with --json)"
    )
    lines = [
        f"{shown}; (n): n samples undefined; * none does better on significantly more texts by what matters (all "
        "pairs, 5 %); costs are per sample, as if run alone.",
        f"Content {said.task.content[:12]} ({said.task.source}), weights {said.model.identity[:12]} "
        f"(training: {training(board)}), protocol {said.protocol}, removal {said.removal}, tokens: {cut(board)}",
        *(f"the model itself, {name}: {value}" for name, value in about_model(board)),
        TOO_FEW if board.too_few else quality_line(board),
        *notes(board),
    ]
    return "\n".join(line for line in lines if line)
