"""Reproduced entries for a person: Markdown and one page, published beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from slalom_bench.core.safe_text import markdown as escape
from slalom_bench.reproduction.engine import Measured, Reproduced
from slalom_bench.reproduction.entry import PAPERS, Entry, Protocol
from slalom_bench.reproduction.pictures import maps, scatters
from slalom_bench.reproduction.values import Value
from slalom_bench.running.files import write_text
from slalom_bench.showing.figures import FAMILIES, Series, lines
from slalom_bench.showing.markdown import table
from slalom_bench.showing.page import render
from slalom_bench.showing.wording import MISSING, number

HEADINGS: dict[Protocol, str] = {"paper": "ours, paper protocol", "bench": "ours, bench protocol"}


def write_reports(found: Sequence[Reproduced], out: Path) -> tuple[Path, Path]:
    """Write `report.md` and `report.html` of the entries into the folder of their scale."""
    folder = out / found[0].scale
    folder.mkdir(parents=True, exist_ok=True)
    markdown, page = folder / "report.md", folder / "report.html"
    write_text(markdown, as_markdown(found))
    write_text(page, as_html(found))
    return markdown, page


def summary(found: Sequence[Reproduced]) -> list[list[str]]:
    """One row an entry: what it is, the verdicts, why."""
    return [[one.entry.name, one.entry.what, one.verdict.word, one.verdict.sentence] for one in found]


def cells(found: Reproduced) -> tuple[list[str], list[list[str]]]:
    """Header and rows of an entry's table: a row and column of the layout each, printed, then ours by protocol."""
    entry = found.entry
    header = ["", "", *(["published"] if entry.published else []), *(HEADINGS[protocol] for protocol in found.measured)]
    rows = []
    for row, column in _places(entry):
        ours = [measured.filled.cells.get((row, column)) for measured in found.measured.values()]
        if any(ours):
            printed = [_printed(entry, row, column)] if entry.published else []
            rows.append([row, column, *printed, *map(_spell, ours)])
    return header, rows


def _places(entry: Entry) -> list[tuple[str, str]]:
    return [(r, c) for r in (*entry.layout.rows, *entry.layout.sums) for c in entry.layout.columns]


def as_markdown(found: Sequence[Reproduced]) -> str:
    """All entries, a summary first."""
    parts = [f"# The papers again, at scale {found[0].scale}", _lead(found)]
    parts.append(table(["entry", "what", "verdict", "why"], [[escape(text) for text in row] for row in summary(found)]))
    for one in found:
        entry = one.entry
        parts.append(f"## {escape(entry.what)}: {escape(entry.title)}")
        parts.append(f"{escape(PAPERS[entry.paper])}. {escape(entry.says)}")
        parts.append(f"**{one.verdict.word}.** {escape(one.verdict.sentence)}")
        parts += [
            f"Under the {name} protocol: **{m.verdict.word}.** {escape(m.verdict.sentence)}" for name, m in _others(one)
        ]
        header, rows = cells(one)
        if rows:
            width = range(2, len(header))
            parts.append(table(header, [[escape(text) for text in row] for row in rows], width))
        parts += [f"{escape(title)}\n\n{text}" for title, text in _curves(one)]
        parts += [escape(note) for note in _notes(one)]
    return "\n\n".join(parts) + "\n"


def as_html(found: Sequence[Reproduced]) -> str:
    """The same as one page, with plots."""
    return render(
        "reproduction.html",
        title="The papers again",
        heading="The papers' tables and figures, measured again",
        lead=_lead(found),
        summary=summary(found),
        entries=[_view(one) for one in found],
    )


def _lead(found: Sequence[Reproduced]) -> str:
    words = [one.verdict.word for one in found]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return (
        f"{len(found)} tables and figures: {counts}. A number is the mean over texts ± its standard error; "
        "of seconds it is the median."
    )


def _view(one: Reproduced) -> dict[str, Any]:
    entry = one.entry
    header, rows = cells(one)
    return {
        "name": entry.name,
        "what": entry.what,
        "title": entry.title,
        "paper": PAPERS[entry.paper],
        "says": entry.says,
        "unit": entry.layout.unit,
        "verdict": one.verdict,
        "others": [(name, measured.verdict) for name, measured in _others(one)],
        "header": header,
        "rows": rows,
        "plots": [plot for protocol, measured in one.measured.items() for plot in _plots(entry, protocol, measured)],
        "maps": [view for measured in one.measured.values() for view in maps(entry, measured.run)][:3],
        "notes": _notes(one),
    }


def _others(one: Reproduced) -> list[tuple[Protocol, Measured]]:
    """The protocols beside the one whose verdict leads."""
    return [(name, measured) for name, measured in one.measured.items() if measured.verdict is not one.verdict]


def _notes(one: Reproduced) -> list[str]:
    """The entry's size, and what is missing of it."""
    suite = one.entry.suite_of(one.scale, one.entry.protocols[0])
    length = "" if suite.max_tokens is None else f", of at most {suite.max_tokens} tokens each"
    notes = [
        f"Texts: {suite.samples} at most{length}. Models: {', '.join(suite.models)}. Queries: "
        f"{', '.join(map(str, suite.budgets))}. Seeds: {', '.join(map(str, suite.seeds))}. Removal: {suite.removal}."
    ]
    if gaps := [place for place in _places(one.entry) if not _has(one, place)]:
        whole = {row for row, _ in gaps if not any(_has(one, place) for place in _places(one.entry) if place[0] == row)}
        names = [row if row in whole else f"{row} · {column}" for row, column in gaps]
        notes.append(f"Without a value at this scale: {', '.join(dict.fromkeys(names))}.")
    skips = dict.fromkeys(skip for measured in one.measured.values() for skip in measured.skips)
    notes += [f"Left out: {skip}" for skip in skips]
    if failed := sum(measured.failed for measured in one.measured.values()):
        notes.append(f"Failed: {failed} texts, whose rows in the run say why.")
    return notes


def _has(one: Reproduced, place: tuple[str, str]) -> bool:
    return any(measured.filled.cells.get(place) for measured in one.measured.values())


def _plots(entry: Entry, protocol: Protocol, measured: Measured) -> list[tuple[str, Markup]]:
    """Title and figure: lines of every row, or points."""
    if entry.layout.kind == "scatter":
        return [(f"{title}, {protocol}", drawn) for title, drawn in scatters(entry, measured.run)]
    made = []
    for row in entry.layout.rows if entry.layout.kind == "lines" else ():
        series = [
            Series(column, FAMILIES[i % len(FAMILIES)], points)
            for i, column in enumerate(entry.layout.columns)
            if (points := measured.filled.lines.get((row, column)))
        ]
        if series:
            drawn = lines(
                series, _axis(entry), entry.layout.unit, log_y=entry.layout.log, log_x=entry.layout.x == "budget"
            )
            made.append((f"{row}, {protocol} protocol", drawn))
    return made


def _axis(entry: Entry) -> str:
    return {"length": "tokens of the text", "budget": "model queries", "k": "number of deletions", "": ""}[
        entry.layout.x
    ]


def _curves(one: Reproduced) -> list[tuple[str, str]]:
    """The lines of an entry as tables."""
    made = []
    for protocol, measured in one.measured.items():
        for row in one.entry.layout.rows if one.entry.layout.kind == "lines" else ():
            known = {column: dict(measured.filled.lines.get((row, column), ())) for column in one.entry.layout.columns}
            xs = sorted({x for points in known.values() for x in points})
            if xs:
                texts = [[escape(c), *(number(p[x]) if x in p else MISSING for x in xs)] for c, p in known.items() if p]
                title = f"{row}, {protocol} protocol, over {_axis(one.entry)}:"
                made.append((title, table(["", *(f"{x:g}" for x in xs)], texts, range(1, len(xs) + 1))))
    return made


def _spell(value: Value | None) -> str:
    if value is None:
        return MISSING
    return number(value.mean) + ("" if value.error is None else f" ± {number(value.error)}")


def _printed(entry: Entry, row: str, column: str) -> str:
    at = list(entry.layout.columns).index(column)
    printed = entry.published[row][at] if row in entry.published else "-"
    return printed if isinstance(printed, str) else f"{printed:g}"
