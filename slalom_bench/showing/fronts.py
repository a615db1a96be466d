"""A task's headline as the page shows it: sentences, tables of methods, and plots against budget and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slalom_bench.results.headline import Headline
from slalom_bench.results.together import Column, Group
from slalom_bench.running.profiling import pareto_front
from slalom_bench.showing import answers
from slalom_bench.showing.answers import TIERS, Table
from slalom_bench.showing.figures import Point, Series, family_class, lines, scatter
from slalom_bench.showing.front import ROWS, left, stem
from slalom_bench.showing.views import plot
from slalom_bench.showing.wording import ARROWS


def front_view(found: Headline) -> dict[str, Any]:
    """What the template shows of a task."""
    shown = answers.headline_table(found)
    return {
        "task": found.task,
        "stem": stem(found.task),
        "answers": _answers(found),
        "sure": [answers.sure(group) for group in found.groups],
        "table": _table(shown),
        "left": left(found, len(shown.rows)),
        "meanings": answers.meanings(found),
        "plots": [*_budget_plots(found), *_time_plots(found)],
        "tables": [_table(one) for one in (*answers.budget_tables(found), *answers.rule_tables(found))],
    }


def _answers(found: Headline) -> list[dict[str, Any]]:
    """The answers; what a quantity is stands at the first that it decides."""
    made: list[dict[str, Any]] = []
    known: set[str] = set()
    for answer in answers.answers(found):
        made.append({"title": answer.title, "by": "" if answer.by in known else answer.by, "said": answer.sentences})
        known.add(answer.by)
    return made


def _table(shown: Table) -> dict[str, Any]:
    rows = [
        {
            "name": name,
            "family": family,
            "cls": family_class(family),
            "cells": list(zip(shown.heads, cells, strict=True)),
        }
        for name, family, cells in shown.rows[:ROWS]
    ]
    return {"title": shown.title, "heads": shown.heads, "rows": rows}


def _budget_plots(found: Headline) -> list[dict[str, Any]]:
    """Quality against budget, a plot a tier and quantity."""
    made = []
    for tier, groups in found.budgets.items():
        for column in groups[-1].columns:
            series = [
                Series(method.name, method.family, points)
                for method in groups[-1].methods[:ROWS]
                if len(points := _points(groups, column, method.name)) > 1
            ]
            log = column.info.scale == "log"
            head = f"{column.name} {ARROWS[column.info.direction]}"
            drawn = lines(series, "budget (queries)", head, log_x=True, log_y=log)
            made += plot(f"{column.name} against budget", f"Of {TIERS[tier][1]}.", drawn)
    return made


def _points(groups: Sequence[Group], column: Column, method: str) -> list[tuple[float, float]]:
    return [
        (float(group.budget), value)
        for group in groups
        if column.name in group.scores and (value := group.value(column, method)) is not None
    ]


def _time_plots(found: Headline) -> list[dict[str, Any]]:
    """Quality against the seconds of a text, a plot a tier and quantity; the Pareto front is filled."""
    made = []
    for group in found.groups:
        for column in group.columns:
            points = [
                Point(method.name, method.family, method.seconds, value, None, None, method.name)
                for method in group.methods[:ROWS]
                if method.seconds and (value := group.value(column, method.name)) is not None
            ]
            if len({point.x for point in points}) > 1:
                front = pareto_front({point.row: (point.x, point.y) for point in points}, column.info.direction)
                drawn = scatter(points, front, "seconds a text", f"{column.name} {ARROWS[column.info.direction]}")
                note = f"Of {TIERS[group.tier][1]}; filled points are the Pareto front."
                made += plot(f"{column.name} against time", note, drawn)
    return made
