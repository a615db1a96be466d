"""`slalom-bench power`: how many texts it takes to tell two methods apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from slalom_bench.results.power import PowerRow


def power_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    metric: Annotated[str | None, typer.Option(help="Only this metric; else all.")] = None,
    a: Annotated[str | None, typer.Option("--a", help="A method of the run; with --b. Else the top two.")] = None,
    b: Annotated[str | None, typer.Option("--b", help="The other method; else the second of the top two.")] = None,
    difference: Annotated[
        float | None,
        typer.Option(
            help="Difference to look for: in the metric's unit, on the log scale a share (0.05: 5 %); else as found."
        ),
    ] = None,
    power: Annotated[float, typer.Option(help="How often the difference is to be found.")] = 0.8,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON on stdout.")] = False,
) -> None:
    """How many texts separate two methods: as the only comparison, and on the board of all methods of the run.

    It assumes that further texts are like those of the run: the better method wins the same share of them. Without
    --difference the one that was found is taken for the true one; the top two are chosen by the same data, so read the
    number as an order of magnitude. With --difference the share is that of texts whose differences lie about it as
    those of the run lie about their median; of the middle one of all pairs where none are named. The board's level is
    that of the simultaneous critical value with as many methods as the run has; with five texts or fewer, for which
    there is none, Bonferroni's.

    Examples:

      slalom-bench power runs/imdb

      slalom-bench power runs/imdb --metric deletion --a lime --b attnlrp

      slalom-bench power runs/imdb --metric deletion --difference 0.01
    """
    from slalom_bench.results.boards import boards
    from slalom_bench.results.collect import require_results
    from slalom_bench.results.power import Question, power_table
    from slalom_bench.results.reading import read_run

    made = boards([collected.submission for collected in require_results(read_run(run), unfinished=True)])
    rows = power_table(made, Question(metric, a, b, difference, power))
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in rows]))
        return
    for board, own in groupby(rows, key=lambda row: row.board):
        _show(board, list(own))


def _show(board: str, rows: Sequence[PowerRow]) -> None:
    """A board's title and a row for each metric."""
    from slalom_bench.core.safe_text import line
    from slalom_bench.showing.columns import print_table
    from slalom_bench.showing.wording import number

    head = ["metric", "a", "b", "difference", "a wins", "texts here", "needed alone", "needed on the board"]
    spelled = [
        [
            *(row.metric + (" (log)" if row.scale == "log" else ""), row.a, row.b),
            *(number(row.difference), f"{row.wins:.0%}", str(row.texts)),
            *("no number" if texts is None else f"{texts:,}" for texts in (row.alone, row.together)),
        ]
        for row in rows
    ]
    typer.echo(f"\n{line(board)}")
    print_table(head, spelled, head[3:])
