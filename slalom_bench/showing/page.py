"""Pages as one file each: styles, script and plots inside, nothing fetched, every name escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from slalom_bench.core.safe_text import html
from slalom_bench.entries import Tier
from slalom_bench.results.across_tiers import across_tiers
from slalom_bench.results.boards import Board
from slalom_bench.results.carry_over import CarryOver
from slalom_bench.results.headline import Headline
from slalom_bench.showing import wording
from slalom_bench.showing.answers import TIED, overview_table
from slalom_bench.showing.comparing import CARRIED, NOT_CARRIED, carried_table
from slalom_bench.showing.front import DASH, NEEDS, stem
from slalom_bench.showing.fronts import front_view
from slalom_bench.showing.views import board_view, budget_plots, column

TABLE_ROWS = 200
"""Rows of a table on one page: a browser lays out a few thousand cells at once."""
PAGE_ROWS = 150
FIRST = "tables.html"
TABLE_WEIGHT = 5
"""What stands about a table, in rows."""
TEMPLATES = Path(__file__).parent / "templates"
GROUPS: tuple[tuple[Tier, str, str], ...] = (
    ("full", "Full models", "Models of the size that the task calls for."),
    (
        "small-pretrained",
        "Small pretrained models",
        "MiniLM, 6 layers, 384 wide, trained on as a sentence encoder, or its first layers, fine-tuned on the task: "
        "pretrained, without a hub and on a CPU.",
    ),
    (
        "embedded",
        "Embedded default",
        "The small models of the package, shipped or trained on the task: a demonstration that runs anywhere, "
        "never mixed with full models.",
    ),
    (
        "exact",
        "The task's own law",
        "Closed forms that give a generated task's true log-odds: what is wrong here is the method, and no model.",
    ),
)


@cache
def environment() -> Environment:
    """Autoescape is on for every template: whatever a submission says is text."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **values: Any) -> str:
    """A page that allows its own script by hash and nothing else to run or load."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return (
        environment()
        .get_template(template)
        .render(script=Markup(script), style=Markup(style), script_hash=f"sha256-{digest}", **values)
    )


@dataclass(frozen=True)
class Part:
    """Some rows of a board, which is whole where it has few."""

    board: Board
    number: int
    words: str
    """`rows 201 to 400 of 1,000`; empty for a whole one."""

    @property
    def title(self) -> str:
        """The board, and which rows of it."""
        return f"{self.board.title}{f', {self.words}' if self.words else ''}"


def parts(board: Board) -> list[Part]:
    """A board in parts of TABLE_ROWS rows, of which the first has the plots."""
    count = len(board.rows)
    if count <= TABLE_ROWS:
        return [Part(board, 0, "")]
    made = []
    for number, start in enumerate(range(0, count, TABLE_ROWS)):
        rows = board.rows[start : start + TABLE_ROWS]
        words = f"rows {start + 1:,} to {start + len(rows):,} of {count:,}"
        made.append(Part(replace(board, rows=rows, key=f"{board.key}-{number}"), number, words))
    return made


def pages(task: str, boards: Sequence[Board]) -> dict[str, str]:
    """Every table of a task, file name to page: `tables.html`, and where that would be too long `tables-2.html`, ..."""
    held: list[list[Part]] = [[]]
    room = PAGE_ROWS
    for part in (part for board in boards for part in parts(board)):
        weight = len(part.board.rows) + TABLE_WEIGHT
        if weight > room and held[-1]:
            held.append([])
            room = PAGE_ROWS
        held[-1].append(part)
        room -= weight
    names = [FIRST, *(f"tables-{number}.html" for number in range(2, len(held) + 1))]
    titles = [" to ".join(dict.fromkeys((own[0].title, own[-1].title))) if own else "" for own in held]
    links = list(zip(names, titles, strict=True)) if len(names) > 1 else []
    budgets = budget_plots(boards)
    carried = across_tiers(boards)
    return {name: _page(task, name, own, links, budgets, carried) for name, own in zip(names, held, strict=True)}


def front_page(found: Sequence[Headline], boards: Sequence[Board]) -> str:
    """`index.html`: the answers across tasks, then of every task its answers and its headline table."""
    again = wording.recomputed([row for board in boards for row in board.rows])
    heads, rows = overview_table(found)
    return render(
        "front.html",
        title="slalom-bench leaderboard",
        heading="Which token attribution explains a model best?",
        lead="Faithfulness, ranking quality and cost of token attributions for text classifiers, with honest ties. "
        f"{again}",
        heads=heads,
        rows=[(task, stem(task), cells) for task, cells in rows],
        tasks=[front_view(one) for one in found],
        tied=TIED,
        needs=NEEDS,
        dash=DASH,
    )


def _page(
    task: str,
    name: str,
    held: Sequence[Part],
    links: Sequence[tuple[str, str]],
    budgets: Mapping[str, Sequence[dict[str, Any]]],
    carried: Sequence[CarryOver],
) -> str:
    groups = []
    for tier, title, note in GROUPS:
        views = [_view(part, budgets) for part in held if part.board.tier == tier]
        if views:
            head = _head(carried) if tier == "embedded" else None
            groups.append({"title": title, "note": note, "boards": views, "carried": head})
    boards = [part.board for part in held]
    metrics = {(info.name, info.version): column(label, info) for b in boards for label, info in b.metrics.items()}
    choices = [
        ("model", sorted({board.identity.model.name for board in boards})),
        ("family", sorted({row.family for board in boards for row in board.rows})),
        ("protocol", sorted({board.identity.protocol for board in boards})),
    ]
    return render(
        "index.html",
        title=f"{task}: every table",
        heading=f"{task}: every table",
        lead="With intervals, rank sets, differences from the best, costs, and the command that computes each row. "
        f"{wording.recomputed([row for board in boards for row in board.rows])}",
        groups=groups,
        choices=choices,
        metrics=[metrics[key] for key in sorted(metrics)],
        here=name,
        links=links,
    )


def _head(carried: Sequence[CarryOver]) -> dict[str, Any]:
    """What stands before the embedded models' tables: how far their order carries over."""
    return {"note": CARRIED if carried else NOT_CARRIED, "table": carried_table(carried)}


def _view(part: Part, budgets: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    board = part.board
    plots = budgets.get(board.key.removesuffix(f"-{part.number}") if part.words else board.key, ())
    made = board_view(board, () if part.number else plots, public=True) | {"part": part.words}
    if part.number:
        made |= {"plots": [], "more_plots": [], "not_drawn": 0}
    return made
