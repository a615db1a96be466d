"""Tables as wide as the terminal: columns that do not fit side by side stand under each other, and nothing is cut."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

NARROW = 80
"""Characters that every terminal is taken to have."""
NAME, HEAD = 30, 13
"""Longest line of a row's name and of a column's heading; what is longer goes on in the next line."""
GAP = 2
"""Characters between two columns."""


def terminal() -> Any:
    """Stdout, and how wide it is."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, NARROW)
    return console


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    """Rows under their headings; the first column is their name and stands before every block of columns.

    Args:
        head: the headings.
        rows: a text for every heading.
        right: headings of columns that are aligned to the right.
    """
    console = terminal()
    names, columns = laid_out(head, rows)
    for block in blocks(columns, console.width - wide(names)):
        console.print(grid(names, block, {folded(name, HEAD) for name in right}))
        console.print()


def fits(head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table would be one block on this terminal."""
    names, columns = laid_out(head, rows)
    return len(blocks(columns, terminal().width - wide(names))) == 1


def laid_out(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The first column and the others, long texts folded."""
    names, *columns = ([folded(name, HEAD), *(folded(row[i], NAME) for row in rows)] for i, name in enumerate(head))
    return names, columns


def folded(text: str, width: int) -> str:
    """A name over several lines, broken after dashes, colons, commas and spaces where it can be.

    >>> folded("faithfulness-correlation ↑", 13)
    'faithfulness-\\ncorrelation ↑'
    """
    lines = [""]
    for part in re.split(r"(?<=[-:, ])", text):
        if len(lines[-1]) + len(part.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return "\n".join(line.rstrip() for line in lines)


def wide(texts: Sequence[str]) -> int:
    """Characters of the longest line."""
    return max(len(line) for text in texts for line in text.split("\n"))


def blocks(columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """The columns in their order, cut where the next one would not fit into so many characters."""
    found: list[list[list[str]]] = [[]]
    used = 0
    for column in columns:
        needed = wide(column) + GAP
        if found[-1] and used + needed > width:
            found.append([])
            used = 0
        found[-1].append(column)
        used += needed
    return found


def grid(names: Sequence[str], columns: Sequence[Sequence[str]], right: Collection[str]) -> Any:
    """One block of columns; what a registered or submitted name holds is text, never markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, collapse_padding=True)
    for column in (names, *columns):
        justify: Any = "right" if column[0] in right else "left"
        table.add_column(Text(column[0]), justify=justify, vertical="top", no_wrap=True, min_width=wide(column))
    for cells in zip(names[1:], *(column[1:] for column in columns), strict=True):
        table.add_row(*map(Text, cells))
    return table
