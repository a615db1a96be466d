"""The closing tables of a run: means with intervals, undefined and failed counts, cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slalom_bench.results.boards import Board, BoardCell, BoardRow, MetricResult, boards
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import Run
from slalom_bench.run.identity import MetricLabel
from slalom_bench.run.runner import RunResult
from slalom_bench.showing.comparing import interval, notes, quality_line
from slalom_bench.showing.wording import about_model, heading

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

    On the log scale `0.123* g 0.09 [0.07, 0.11]`: the interval is that of the geometric mean.
    """
    if cell is None:
        return "-"
    result = cell.result
    if result.mean is None:
        return f"undefined ({result.undefined})" if result.undefined else "-"
    text = f"{result.mean:.3g}" + ("*" if cell.marked else "")
    if intervals and (ends := interval(cell)) is not None:
        low, centre, high = ends
        text += (
            f" [{low:.2g}, {high:.2g}]" if cell.ranked.geometric is None else f" g {centre:.3g} [{low:.2g}, {high:.2g}]"
        )
    if result.undefined:
        text += f" ({result.undefined} undef.)"
    return text


def print_tables(made: Sequence[Board]) -> None:
    """One table a board on stdout, as wide as it needs to be where that is a file; intervals where they fit."""
    import shutil
    import sys

    from rich.console import Console

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
    console = Console(highlight=False, width=max(width, 80))
    for board in made:
        console.print(_table(board, intervals=console.width >= 50 + 23 * len(board.metrics)))


def _table(board: Board, intervals: bool) -> Any:
    from rich.table import Table
    from rich.text import Text

    # what a registered or submitted name holds is text, never markup
    table = Table(
        title=Text(board.title), title_justify="left", caption=Text(_caption(board, intervals)), caption_justify="left"
    )
    table.add_column("explainer", no_wrap=True)
    for info in board.metrics.values():
        table.add_column(Text(heading(info)))
    for name in ("queries", "model s", "total s", "failed"):
        table.add_column(name, justify="right")
    for row in board.rows:
        spent = ("-",) * 3
        if row.cost is not None:
            spent = (f"{row.cost.queries:.0f}", f"{row.cost.model_seconds:.2f}", f"{row.cost.seconds:.2f}")
        table.add_row(
            Text(row.name),
            *(Text(spell(row.cells.get(label), intervals)) for label in board.metrics),
            *spent,
            str(row.failed),
        )
    return table


def _caption(board: Board, intervals: bool) -> str:
    said = board.identity
    shown = (
        "mean [95 % interval], g: geometric mean [its interval]"
        if intervals
        else "mean (intervals in the report and with --json)"
    )
    cut = "" if said.max_tokens is None else f", texts cut to {said.max_tokens} tokens"
    model = "".join(f"\nthe model itself, {name}: {value}" for name, value in about_model(board))
    said_of_metrics = "".join(f"\n{line}" for line in (quality_line(board), *notes(board)) if line)
    return (
        f"{shown}; * best, or none is significantly better by what matters (all pairs, 5 %); "
        "costs are per sample, as if run alone. "
        f"Content {said.task.content[:12]} ({said.task.source}), weights {said.model.identity[:12]}, "
        f"protocol {said.protocol}, removal {said.removal}{cut}{model}{said_of_metrics}"
    )
