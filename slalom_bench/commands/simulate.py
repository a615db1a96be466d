"""`slalom-bench simulate`: whether the statistics keep their level where the truth is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def simulate_command(
    repetitions: Annotated[int, typer.Option(min=1, help="Data sets for each line.")] = 300,
    flips: Annotated[int, typer.Option(min=19, help="Sign patterns for each data set; boards use 4,999.")] = 499,
    texts: Annotated[
        list[str] | None, typer.Option(help="20,50,100 for several; else those of docs/statistics.md.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="12,25 for several; else those of docs/statistics.md.")
    ] = None,
    law: Annotated[
        list[str] | None, typer.Option(help="Only these laws, else all; may be given several times.")
    ] = None,
    like: Annotated[
        list[Path] | None,
        typer.Option(help="A submission of whose scores texts are drawn, too; may be given several times; else none."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all that is random.")] = 0,
    write: Annotated[Path | None, typer.Option(help="A Markdown file to put the tables into.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON on stdout.")] = False,
) -> None:
    """Size of the marks and coverage of rank sets and intervals, with scores drawn from known laws.

    With --like also with texts drawn from real results, every pair of methods made equal by a shift of their
    differences.

    Size: all methods are equal, and any pair is called different. Marks lost: share of equal methods without a mark.
    Rank sets hold: methods in three groups of equals, and every set holds all ranks of its group. What does not hold is
    printed like the rest, in bold.

    Examples:

      slalom-bench simulate --repetitions 100 --texts 20 --methods 12 --law lognormal

      slalom-bench simulate --like leaderboards/results/imdb_mini-bert-0123456789abcdef.json

      slalom-bench simulate --write docs/statistics.md
    """
    from dataclasses import asdict

    from rich.console import Console
    from rich.progress import track

    from slalom_bench.commands.run import numbers
    from slalom_bench.errors import UnknownName
    from slalom_bench.results.boards import boards
    from slalom_bench.results.simulation import LAWS, METHODS, SIZES, Plan, Seen
    from slalom_bench.results.verification import read_sound
    from slalom_bench.running.files import write_text
    from slalom_bench.showing.simulation import put_between, simulation_tables

    known = {one.name: one for one in LAWS}
    for name in law or ():
        if name not in known:
            raise UnknownName("law", name, known)
    chosen = [known[name] for name in law] if law else LAWS
    sizes, counts = numbers("--texts", texts) or SIZES, numbers("--methods", methods) or METHODS
    seen = [
        Seen(f"{info.name}, {board.identity.model.name}", info.scale or "linear", ranking.scores)
        for path in like or ()
        for board in boards([read_sound(path)])
        for label, info in board.metrics.items()
        if len((ranking := board.ranking(label)).names) > 1
    ]
    plan = Plan(chosen, sizes, counts, repetitions, flips, seed, seen)
    bar = track(plan.run(), "simulating", plan.lines, console=Console(stderr=True), transient=True, disable=as_json)
    lines = list(bar)
    if as_json:
        typer.echo(json.dumps([{"kind": type(line).__name__.lower(), **asdict(line)} for line in lines]))
        return
    given = {"repetitions": [repetitions], "flips": [flips], "seed": [seed], "texts": texts, "methods": methods}
    asked = [f"--{name} {one}" for name, each in (given | {"law": law, "like": like}).items() for one in each or ()]
    tables = simulation_tables(" ".join(["slalom-bench simulate", *asked]), lines)
    if write is None:
        typer.echo(tables)
        return
    before = write.read_text(encoding="utf-8") if write.exists() else ""
    write_text(write, put_between(before, tables))
    typer.echo(write)
