"""Tables as Markdown that also reads well as plain text."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from slalom_bench.core.safe_text import markdown as escape
from slalom_bench.core.safe_text import markdown_code as code
from slalom_bench.results.boards import Board, BoardCell, BoardRow
from slalom_bench.results.carry_over import CarryOver
from slalom_bench.results.removal_agreement import RuleAgreement
from slalom_bench.running.identity import MetricLabel
from slalom_bench.showing import besides, comparing, wording
from slalom_bench.showing.comparing import INTERVALS, MARKS, RANKS
from slalom_bench.showing.wording import MISSING, number

READING = (
    f"Mean [{INTERVALS}] (rank set). **Bold**: {MARKS}. {RANKS}. Undefined samples are counted and left out. "
    "Rows are in the order of the first metric; there is no average over metrics, because they measure unlike things."
)
KINDS = (
    ("What the surrogate foretells", ("fidelity-", "strict-fidelity")),
    ("What the ranking does to the model", ()),
    ("What is known beside the model", ("nb-", "human-", "edit-", "recovery")),
)
"""Titles of the tables that a board of many metrics is shown in, and how the names of their metrics begin."""
NAME = "NAME"
"""Stands for the explainer in a command that many rows share."""
MANY = 7
"""Metrics that one table has room for."""


def kinds(board: Board) -> list[tuple[str, list[MetricLabel]]]:
    """The metrics of a board by what they are about; a board of few metrics is one table."""
    if len(board.metrics) <= MANY:
        return [("", list(board.metrics))]
    found: dict[str, list[MetricLabel]] = {title: [] for title, _ in KINDS}
    for label in board.metrics:
        title = next((title for title, starts in KINDS if label.name.startswith(starts)), KINDS[1][0])
        found[title].append(label)
    return [(title, labels) for title, labels in found.items() if labels]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A pipe table with aligned columns; `numbers` are the columns to align right."""
    from tabulate import tabulate

    align = ["right" if i in numbers else "left" for i in range(len(header))]
    return str(tabulate(rows, headers=header, tablefmt="pipe", colalign=align, disable_numparse=True))


def spell(cell: BoardCell | None) -> str:
    """`0.012 [0.010, 0.015] (1-2)`, or why there is none; on the log scale the geometric mean."""
    if cell is None:
        return MISSING
    result, first = cell.result, comparing.lead(cell)
    if first is None:
        return f"undefined ({result.undefined})"
    counts = f", {result.undefined} undefined" if result.undefined else ""
    text = f"**{number(first)}**" if cell.marked else number(first)
    if (ends := comparing.interval(cell)) is not None:
        text += f" [{number(ends[0])}, {number(ends[1])}]"
    return text + (f" ({cell.place})" if cell.place else " (not ranked)") + counts


def quality(board: Board) -> str:
    """The tables of metrics, one row an explainer."""
    return _tables(board, spell)


def effects(board: Board) -> str:
    """How far every row is from the best."""
    return f"{comparing.EFFECTS}\n\n{_tables(board, comparing.effect)}"


def _tables(board: Board, text: Callable[[BoardCell | None], str]) -> str:
    """A cell for every explainer and metric, in a table for each kind of metrics."""
    parts = []
    for title, labels in kinds(board):
        header = ["explainer", *(escape(wording.heading(board.metrics[label])) for label in labels)]
        rows = [[escape(row.name), *(text(row.cells.get(label)) for label in labels)] for row in board.rows]
        parts += [f"**{title}**"] * bool(title) + [table(header, rows)]
    return "\n\n".join(parts)


def beside(board: Board) -> str:
    """The law each surrogate was fitted to, and what qualifies the headline values."""
    lines = [[escape(text) for text in row] for row in besides.rows(board)]
    return f"{escape(besides.note(board))}\n\n{table([escape(name) for name in besides.columns(board)], lines)}"


def metric_quality(board: Board) -> str:
    """How good each metric is on this board, which metrics agree, and whether other removal rules rank alike."""
    rows = [[escape(text) for text in row] for row in comparing.quality_rows(board)]
    parts = [comparing.QUALITY, table(comparing.QUALITY_COLUMNS, rows, (1, 2, 3, 4))]
    if matrix := comparing.agreement_rows(board):
        header = ["Spearman over methods", *(escape(info.name) for info in board.metrics.values())]
        rows = [[escape(name), *values] for name, *values in matrix]
        parts.append(table(header, rows, range(1, len(header))))
    if board.across_rules:
        parts += [comparing.RULES, rules(board.across_rules)]
    return "\n\n".join(parts)


def rules(agreements: Sequence[RuleAgreement]) -> str:
    """How alike removal rules rank the explainers."""
    rows = [[escape(text) for text in row] for row in comparing.rules_rows(agreements)]
    return table(comparing.RULES_COLUMNS, rows, (2, 3, 4))


def carried(found: Sequence[CarryOver]) -> str:
    """What the order on one model says of that on another."""
    if not found:
        return comparing.NOT_CARRIED
    header, rows = comparing.carried_table(found)
    return f"{comparing.CARRIED}\n\n{table(_escaped(header), [_escaped(row) for row in rows])}"


def _escaped(texts: Sequence[str]) -> list[str]:
    return [escape(text) for text in texts]


def cost(board: Board) -> str:
    """One table a machine; queries and tokens are the same everywhere, seconds are not."""
    header = ["explainer", "queries", "forwards", "backwards", "tokens", "model s", "total s", "median s", "failed"]
    told = any(row.diagnostics for row in board.rows)
    header += ["diagnostics"] * told
    parts = []
    for machine, rows in board.machines():
        where = "several machines: seconds are not shown" if machine is None else f"{machine}, {machine.fingerprint}"
        parts += [
            f"Per sample, on {escape(where)}:",
            table(header, [_cost(row)[: len(header)] for row in rows], range(1, 9)),
        ]
    if any(row.reused for row in board.rows):
        parts.append(wording.REUSED)
    if told:
        parts.append(wording.DIAGNOSTICS)
    return "\n\n".join(parts)


def _cost(row: BoardRow) -> list[str]:
    last = [str(row.failed), escape(wording.diagnostics(row.diagnostics)) or "-"]
    if row.cost is None:
        return [escape(row.name), *[MISSING] * 7, *last]
    counts = [f"{value:,.0f}" for value in (row.cost.queries, row.cost.forwards, row.cost.backwards, row.cost.tokens)]
    seconds = (row.cost.model_seconds, row.cost.seconds, row.cost.median_seconds)
    times = ["-" if row.machine is None else number(value) + "†" * row.reused for value in seconds]
    return [escape(row.name), *counts, *times, *last]


def curves(board: Board) -> list[tuple[str, str]]:
    """Title and table of every metric that declares a curve, the means of its points (Fig. 6 as numbers)."""
    made = []
    for label, info in board.metrics.items():
        points = wording.curve_points(board, label)
        means = [(row.name, row.cells[label].result.parts) for row in board.rows if label in row.cells]
        rows = [
            [escape(name), *(number(parts[k]) if k in parts else MISSING for k in points)]
            for name, parts in means
            if parts
        ]
        if rows and points:
            header = table(["explainer", *points], rows, range(1, len(points) + 1))
            unit = f", {escape(info.unit)}" if info.unit else ""
            made.append((wording.curve_title(info), f"Mean at each k{unit}:\n\n{header}"))
    return made


def undefined(board: Board) -> str:
    """Why samples have no value: a line a metric and reason, with the explainers and how many samples of each."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in board.rows:
        for label, cell in row.cells.items():
            for reason, count in cell.result.reasons.items():
                found.setdefault((board.metrics[label].name, reason), []).append(f"{row.name} {count}")
    lines = [
        f"- {escape(metric)}: {escape(reason)} ({escape(', '.join(who))})" for (metric, reason), who in found.items()
    ]
    return "\n".join(lines) or "Every score is defined."


def commands(board: Board) -> str:
    """The command that computes each row, once for rows that differ in the explainer alone; how the rows stand."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in board.rows:
        same = "".join(f", the same in {claim.submission.file_name}" for claim in row.also)
        own = f"--explainer {shlex.quote(row.submitted.explainer.title)}"
        words = row.command.replace(f"{own} ", f"--explainer {NAME} ", 1)
        found.setdefault((words, wording.standing(row) + same), []).append(row.name)
    lines = [
        f"- {code(words)} with {NAME} one of {escape(', '.join(names))} ({escape(stands)})"
        for (words, stands), names in found.items()
    ]
    return "\n".join([wording.recomputed(board.rows), "", *lines])


def facts(board: Board) -> str:
    """What all rows share, in one line."""
    return "; ".join(f"{name} {escape(value)}" for name, value in wording.facts(board))


def folded(title: str, text: str) -> str:
    """A part that is closed until one asks for it."""
    return f"<details><summary>{escape(title)}</summary>\n\n{text}\n\n</details>"


def section(board: Board, level: int = 2, elsewhere: str = "") -> str:
    """A whole table with its cost and commands; what follows the numbers is folded.

    Args:
        board: the table.
        level: of its heading.
        elsewhere: the file that has its differences; empty where they stand here.
    """
    marks = "#" * level
    parts = [f"{marks} {escape(board.title)}", facts(board), quality(board)]
    parts += [f"The model itself, {escape(name)}: {escape(value)}" for name, value in wording.about_model(board)]
    if board.too_few:
        parts.append(wording.TOO_FEW)
    parts += [escape(note) for note in comparing.notes(board)]
    if elsewhere:
        parts.append(f"[Differences from the best, and what stands beside the headline values]({elsewhere})")
    elif board.metrics:
        parts.append(differences(board))
    if board.metrics:
        parts.append(folded("How good each metric is here", metric_quality(board)))
    parts += [folded(title, curve) for title, curve in curves(board)]
    parts += [folded("Cost", cost(board)), folded("Undefined", undefined(board))]
    parts.append(folded("Reproduce", commands(board)))
    return "\n\n".join(parts)


def differences(board: Board) -> str:
    """How far rows are from the best, and what qualifies the headline values."""
    parts = [folded("Difference from the best", effects(board))]
    return "\n\n".join([*parts, *([folded(besides.TITLE, beside(board))] if besides.shown(board) else [])])
