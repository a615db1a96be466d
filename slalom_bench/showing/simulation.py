"""The simulation of size and coverage as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from slalom_bench.results.simulation import Coverage, Separation
from slalom_bench.showing.markdown import table

START, END = "<!-- simulated -->", "<!-- end of simulated -->"
"""Between these lines of a file the tables are written anew."""
MOST = 0.07
"""A size above this does not hold, nor does a coverage below 1 - this."""


def simulation_tables(command: str, lines: Sequence[Separation | Coverage]) -> str:
    """Two tables, of marks and rank sets and of intervals, under the command that makes them; bold does not hold."""
    separations = [line for line in lines if isinstance(line, Separation)]
    coverages = [line for line in lines if isinstance(line, Coverage)]
    said = f"`{command}`. Bold: size above {MOST:.0%}, coverage below {1 - MOST:.0%}."
    head = ["law", "compared", "texts", "methods", "size (5 %)", "marks lost", "rank sets hold (95 %)"]
    rows = [
        [
            *(line.law, line.scale, str(line.texts), str(line.methods), _bold(line.size, line.size > MOST)),
            f"{line.unmarked:.1%}",
            "" if line.rank_coverage is None else _bold(line.rank_coverage, line.rank_coverage < 1 - MOST),
        ]
        for line in separations
    ]
    parts = [said, table(head, rows, (2, 3, 4, 5, 6))]
    head = ["law", "compared", "texts", "mean, bootstrap (95 %)", "on the compared scale, Student (95 %)"]
    rows = [
        [line.law, line.scale, str(line.texts), *(_bold(x, x < 1 - MOST) for x in (line.mean, line.compared))]
        for line in coverages
    ]
    if rows:
        parts.append(table(head, rows, (2, 3, 4)))
    return "\n\n".join(parts)


def _bold(share: float, wrong: bool) -> str:
    return f"**{share:.1%}**" if wrong else f"{share:.1%}"


def put_between(text: str, tables: str) -> str:
    """A file with the tables in place of what stands between START and END, or at its end where they are not there."""
    inside = f"{START}\n\n{tables}\n\n{END}"
    if START not in text or END not in text:
        return f"{text.rstrip()}\n\n{inside}\n".lstrip()
    return text[: text.index(START)] + inside + text[text.index(END) + len(END) :]
