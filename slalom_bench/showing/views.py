"""What the templates show of a table: every number spelled, every plot drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from slalom_bench.core.safe_text import visible
from slalom_bench.results.boards import Board, BoardCell, BoardRow
from slalom_bench.results.headline import LAWS, RANKING, TRUTH
from slalom_bench.results.submission import Machine, MetricInfo
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.profiling import pareto_front
from slalom_bench.showing import besides, comparing, wording
from slalom_bench.showing.figures import Point, Series, family_class, lines, scatter, strips, whisker
from slalom_bench.showing.wording import ARROWS, number

DRAWN = 60
"""Rows whose points and lines a plot can hold."""
COST_COLUMNS = (
    ("queries", "Sequences asked of the model: what a budget limits."),
    ("forwards", "Sequences that went through the model: duplicates and known answers left out."),
    ("backwards", "Backward passes, for explainers that need gradients."),
    ("tokens", "Tokens that went through the model, padding left out."),
    ("model s", "Mean seconds spent inside the model."),
    ("total s", "Mean seconds for one sample, model and fit."),
    ("median s", "Median seconds for one sample, model and fit."),
)


def help_text(info: MetricInfo) -> str:
    """What a metric measures, in which unit, and which way is better."""
    unit = f" Unit: {info.unit}." if info.unit else ""
    params = "".join(f" {key}={value}" for key, value in info.params.items())
    said = info.summary.replace("`", "")  # a page has no Markdown
    way = "" if f"{info.direction} is better" in said else f" {info.direction.capitalize()} is better."
    return f"{said}{way}{unit} Version {info.version}{params}."


def column(label: MetricLabel, info: MetricInfo) -> dict[str, str]:
    """The head of a metric's column."""
    return {
        "label": str(label),
        "name": info.name,
        "arrow": ARROWS[info.direction],
        "direction": info.direction,
        "help": help_text(info),
    }


def board_view(board: Board, plots: Sequence[dict[str, Any]] = (), *, public: bool = False) -> dict[str, Any]:
    """A table as the template takes it; `plots` come after the table's own; a public one says how its rows stand."""
    scales = {label: _scale(board, label) for label in board.metrics}
    rows = [_row_view(board, i, row, scales) for i, row in enumerate(board.rows)]
    ids = {row.name: view["id"] for row, view in zip(board.rows, rows, strict=True)}
    reasons = [
        {"name": row.name, "metric": board.metrics[label].name, "reason": visible(reason), "count": count}
        for row in board.rows
        for label, cell in row.cells.items()
        for reason, count in cell.result.reasons.items()
    ]
    drawn = first_rows(board, DRAWN)
    costs = cost_plots(drawn)
    return {
        "key": board.key,
        "public": public,
        "part": "",
        "title": board.title,
        "task": board.task,
        "model": board.identity.model.name,
        "protocol": board.identity.protocol,
        "budget": f"{board.identity.budget:,}",
        "facts": wording.facts(board),
        "columns": [column(label, info) for label, info in board.metrics.items()],
        "rows": rows,
        "machines": [
            _machine_view(i, machine, members, ids) for i, (machine, members) in enumerate(board.machines(), start=1)
        ],
        "effects": {"note": comparing.EFFECTS, "rows": comparing.effect_rows(board)},
        "beside": {
            "title": besides.TITLE,
            "columns": besides.columns(board),
            "rows": besides.rows(board),
            "note": besides.note(board),
        },
        "quality": _quality_view(board),
        "notes": comparing.notes(board),
        "about_model": wording.about_model(board),
        "too_few": wording.TOO_FEW if board.too_few else "",
        "reused": wording.REUSED if any(row.reused for row in board.rows) else "",
        "told": wording.DIAGNOSTICS if any(row.diagnostics for row in board.rows) else "",
        "plots": [*curve_plots(drawn), *costs[:1], *plots],
        "more_plots": costs[1:],
        "not_drawn": len(board.rows) - len(drawn.rows),
        "reasons": reasons,
        "undefined_total": sum(reason["count"] for reason in reasons),
    }


def first_rows(board: Board, count: int) -> Board:
    """The board with so many rows, the first by its first metric."""
    return board if len(board.rows) <= count else replace(board, rows=board.rows[:count])


def _quality_view(board: Board) -> dict[str, Any]:
    return {
        "note": comparing.QUALITY,
        "columns": comparing.QUALITY_COLUMNS,
        "rows": comparing.quality_rows(board),
        "names": [info.name for info in board.metrics.values()],
        "agreement": comparing.agreement_rows(board),
        "rules": comparing.rules_rows(board.across_rules),
        "rules_note": comparing.RULES,
        "rules_columns": comparing.RULES_COLUMNS,
    }


def row_id(board: Board, index: int) -> str:
    """By which a row of a table and its marks in plots are found."""
    return f"{board.key}-{index}"


def _row_view(board: Board, i: int, row: BoardRow, scales: dict[MetricLabel, tuple[float, float]]) -> dict[str, Any]:
    return {
        "id": row_id(board, i),
        "name": row.name,
        "family": row.family,
        "cls": family_class(row.family),
        "search": f"{row.name} {row.family}",
        "failed": row.failed,
        "command": row.command,
        "also": [claim.submission.file_name for claim in row.also],
        "standing": wording.standing(row),
        "again": row.again,
        "cells": [_cell_view(row.cells.get(label), scales[label]) for label in board.metrics],
    }


def _scale(board: Board, label: MetricLabel) -> tuple[float, float]:
    """The ends of a column's intervals, for the small marks in its cells."""
    cells = [row.cells[label] for row in board.rows if label in row.cells]
    ends = [end for cell in cells for end in _drawn(cell) or ()]
    return (min(ends), max(ends)) if ends else (0.0, 1.0)


def _drawn(cell: BoardCell) -> tuple[float, float, float] | None:
    """Low, centre and high of a cell's interval as it is drawn: logarithms where rows are compared by them."""
    centre, ends = comparing.lead(cell), comparing.interval(cell)
    if centre is None or ends is None:
        return None
    low, high = ends
    if cell.ranked.geometric is None or low <= 0:
        return low, centre, high
    return math.log(low), math.log(centre), math.log(high)


def _cell_view(cell: BoardCell | None, scale: tuple[float, float]) -> dict[str, Any]:
    if cell is None:
        return {"state": "missing", "sort": "", "best": False}
    result, first = cell.result, comparing.lead(cell)
    if first is None:
        return {"state": "undefined", "sort": "", "best": False, "undefined": result.undefined}
    ends, drawn = comparing.interval(cell), _drawn(cell)
    interval = "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"
    return {
        "state": "value",
        "sort": repr(first),
        "best": cell.marked,
        "lead": number(first),
        "place": cell.place.replace("-", "\u2013"),
        "interval": interval + comparing.arithmetic(cell),
        "effect": comparing.effect(cell),
        "undefined": result.undefined,
        "whisker": Markup("") if drawn is None else whisker(*drawn, scale),
    }


def _machine_view(index: int, machine: Machine | None, rows: Sequence[BoardRow], ids: dict[str, str]) -> dict[str, Any]:
    name = "several machines, so seconds are not shown" if machine is None else f"{machine}, {machine.fingerprint}"
    made = []
    for row in rows:
        values: list[tuple[str, str]] = [("missing", "")] * len(COST_COLUMNS)
        if row.cost is not None:
            counts = (row.cost.queries, row.cost.forwards, row.cost.backwards, row.cost.tokens)
            times = (row.cost.model_seconds, row.cost.seconds, row.cost.median_seconds)
            values = [(f"{value:,.0f}", repr(value)) for value in counts]
            if machine is None:
                values += [("-", "")] * len(times)
            else:
                values += [(number(value) + "†" * row.reused, repr(value)) for value in times]
        cells = [(name, *value) for (name, _), value in zip(COST_COLUMNS, values, strict=True)]
        made.append(
            {"id": ids[row.name], "name": row.name, "cells": cells, "told": wording.diagnostics(row.diagnostics)}
        )
    return {"index": index, "name": name, "columns": COST_COLUMNS, "rows": made}


def plot(title: str, note: str, svg: Markup) -> list[dict[str, Any]]:
    """A plot as the templates take it; none where there was nothing to draw."""
    return [{"title": title, "note": note, "svg": svg}] if svg else []


def curve_plots(board: Board) -> list[dict[str, Any]]:
    """Every metric that declares a curve over k, one line an explainer (Fig. 6)."""
    made = []
    for label, info in board.metrics.items():
        points = wording.curve_points(board, label)
        series = []
        for i, row in enumerate(board.rows):
            parts = row.cells[label].result.parts if label in row.cells else {}
            own = [(float(k[1:]), parts[k]) for k in points if k in parts]
            series.append(Series(row.name, row.family, own, row_id(board, i)))
        log = info.direction == "lower"
        foot = " What is far below the rest is at the foot." if log else ""
        made += plot(
            wording.curve_title(info),
            f"{info.direction.capitalize()} is better.{foot}",
            lines(series, info.curve, info.unit or info.name, log_y=log),
        )
    return made


def cost_plots(board: Board) -> list[dict[str, Any]]:
    """The leading metrics against seconds inside one machine, and against queries; the Pareto front is marked."""
    made: list[dict[str, Any]] = []
    leading = (*LAWS, *RANKING[:1], *TRUTH)
    few = {label: info for label, info in board.metrics.items() if label.name in leading}
    for label, info in (few or board.metrics).items():
        for machine, rows in board.machines():
            timed = {row.name: row.seconds for row in rows if row.seconds}
            note = f"Median seconds a sample on {machine}; filled points are the Pareto front."
            drawn = _scatter(board, label, timed, "seconds a sample")
            made += plot(f"{info.name} against time", note, drawn)
        asked = {row.name: row.cost.queries for row in board.rows if row.cost is not None and row.cost.queries > 0}
        drawn = _scatter(board, label, asked, "queries a sample")
        made += plot(f"{info.name} against queries", "Filled points are the Pareto front.", drawn)
    return made


def _scatter(board: Board, label: MetricLabel, costs: Mapping[str, float], x_label: str) -> Markup:
    """A metric against what the named rows cost; nothing where all cost the same."""
    points = []
    for i, row in enumerate(board.rows):
        cell = row.cells.get(label)
        if row.name in costs and cell is not None and (y := comparing.lead(cell)) is not None:
            low, high = comparing.interval(cell) or (None, None)
            points.append(Point(row.name, row.family, costs[row.name], y, low, high, row_id(board, i)))
    if len({p.x for p in points}) < 2:
        return Markup("")
    info = board.metrics[label]
    front = pareto_front({p.row: (p.x, p.y) for p in points}, info.direction)
    return scatter(points, front, x_label, wording.heading(info))


def budget_plots(boards: Sequence[Board]) -> dict[str, list[dict[str, Any]]]:
    """Quality against budget, for tables that differ in nothing else; given to the table of the largest budget."""
    alike: dict[tuple[str, ...], list[Board]] = {}
    for board in boards:
        alike.setdefault((board.identity.subject_key, *board.samples), []).append(board)
    made: dict[str, list[dict[str, Any]]] = {}
    for members in alike.values():
        members = sorted(members, key=lambda board: board.identity.budget)
        if len(members) < 2:
            continue
        last = members[-1]
        for label, info in last.metrics.items():
            series = []
            for i, row in enumerate(first_rows(last, DRAWN).rows):
                points = [
                    (float(board.identity.budget), mean) for board in members for mean in _means(board, row.name, label)
                ]
                series.append(Series(row.name, row.family, points if len(points) > 1 else [], row_id(last, i)))
            drawn = lines(
                series, "budget (queries)", wording.heading(info), log_x=True, log_y=info.direction == "lower"
            )
            made.setdefault(last.key, []).extend(plot(f"{info.name} against budget", "", drawn))
    return made


def _means(board: Board, name: str, label: MetricLabel) -> list[float]:
    results = [comparing.lead(row.cells[label]) for row in board.rows if row.name == name and label in row.cells]
    return [mean for mean in results if mean is not None]


def distribution_plots(board: Board) -> list[dict[str, Any]]:
    """Every sample's score, by explainer."""
    made = []
    for label, info in board.metrics.items():
        rows = []
        for row in board.rows:
            if label in row.cells:
                cell = row.cells[label]
                low, high = comparing.interval(cell) or (None, None)
                values = [value for value in cell.result.values if value is not None]
                rows.append((row.name, row.family, values, comparing.lead(cell), low, high))
        made += plot(
            wording.heading(info),
            "A dot is a sample; the bar is the mean (on the log scale the geometric one), the line its interval.",
            strips(rows, info.unit or info.name),
        )
    return made
