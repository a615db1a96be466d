"""Tables of findings.md and models.md, made of the committed results: `python docs/_pages/tables.py` writes them.

Each stands between `<!-- table NAME: ... -->` and `<!-- end of table -->`; a test compares what stands there with what
the results say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from choosing import published

from slalom_bench.results.across_tiers import across_tiers
from slalom_bench.results.boards import SEARCH, Board, BoardRow
from slalom_bench.results.submission import MetricInfo

DOCS = Path(__file__).resolve().parent.parent
PAGES = ("findings.md", "models.md")
FIDELITY = ("fidelity-few", "fidelity-many", "fidelity-spans", "fidelity-sentences", "fidelity-top")
HEADLINE = (*FIDELITY, "srg", "nb-spearman")
PLACE = re.compile(r"(<!-- table ([\w-]+): [^>]* -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)
Cells = Sequence[str]


def rewritten(text: str) -> str:
    """A page with its tables as the results have them now."""
    return PLACE.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[4]}", text)


def table(heads: Cells, rows: Iterable[Cells]) -> str:
    """As Markdown, numbers to the right."""
    rule = ["---", *("---:" for _ in heads[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


def short(name: str) -> str:
    """A metric in the head of a column."""
    return name.removeprefix("fidelity-").replace("srg", "SRG")


def info(board: Board, name: str) -> MetricInfo | None:
    """The metric of that name on a board."""
    return next((found for found in board.metrics.values() if found.name == name), None)


def cell(board: Board, row: BoardRow, name: str) -> str:
    """A method's mean, geometric where the metric is compared by logarithms; bold where nothing is better.

    Nothing of one that is not ranked: its mean is of other texts.
    """
    found = info(board, name)
    shown = None if found is None else row.cells.get(found.label)
    if shown is None or shown.ranked.rank is None:
        return ""
    geometric = shown.ranked.geometric
    value = shown.result.mean if geometric is None else geometric.value
    if value is None:
        return ""
    return f"**{value:.3g}**" if shown.marked else f"{value:.3g}"


def methods(board: Board) -> list[BoardRow]:
    """The rows of methods, best first by the board's first metric."""
    return [row for row in board.rows if row.family != SEARCH]


def in_short() -> str:
    """The largest board: the most methods, and of those the most texts."""
    board = max(published(), key=lambda board: (len(board.rows), len(board.samples)))
    rows = [[f"`{row.name}`", *(cell(board, row, name) for name in HEADLINE)] for row in methods(board)]
    about = f"{board.title}, removal {board.identity.removal}, {len(board.samples)} texts."
    return f"{about}\n\n{table(['method', *map(short, HEADLINE)], rows)}"


def of_minis() -> list[Board]:
    """Boards of embedded models that differ in the model alone: the most models, and of those the most texts."""
    found: dict[str, list[Board]] = {}
    for board in published():
        if board.tier == "embedded":
            found.setdefault(board.identity.subject_free_key, []).append(board)

    def size(alike: Sequence[Board]) -> tuple[int, int]:
        return len({board.identity.model.name for board in alike}), len(alike[0].samples)

    return max(found.values(), key=size)


def by_positions(metric: str) -> Callable[[], str]:
    """Methods by models that read positions otherwise."""

    def made() -> str:
        minis = of_minis()
        names = [row.name for row in methods(minis[0]) if info(minis[0], metric) and cell(minis[0], row, metric)]
        rows = [[f"`{name}`", *(of_method(board, name, metric) for board in minis)] for name in names]
        said = minis[0].identity
        about = f"{metric}: {said.task.name}, {len(minis[0].samples)} texts of {said.max_tokens or 'all'} tokens"
        heads = [f"`{board.identity.model.name}`" for board in minis]
        return f"{about}, budget {said.budget:,}, removal {said.removal}.\n\n{table(['method', *heads], rows)}"

    return made


def of_method(board: Board, name: str, metric: str) -> str:
    """A cell by the method's name."""
    row = next((row for row in board.rows if row.name == name), None)
    return "" if row is None else cell(board, row, metric)


def carry_over() -> str:
    """Spearman correlation of the methods' order on one model with that on another, a larger or pretrained one."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for one in across_tiers(published()):
        if one.spearman is not None:
            reach = "" if one.interval is None else f" [{one.interval.low:.2f}, {one.interval.high:.2f}]"
            found.setdefault((one.table, *one.models), {})[one.metric.name] = f"{one.spearman:.2f}{reach}"
    rows = [
        [f"`{small}` to `{large}`", where, *(by.get(name, "") for name in HEADLINE)]
        for (where, small, large), by in sorted(found.items())
    ]
    return table(["from, to", "on", *map(short, HEADLINE)], rows)


TABLES: dict[str, Callable[[], str]] = {
    "in-short": in_short,
    "positions-few": by_positions("fidelity-few"),
    "positions-srg": by_positions("srg"),
    "carry-over": carry_over,
}


def main() -> None:
    """Write every table of every page anew."""
    for page in (DOCS / name for name in PAGES):
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
