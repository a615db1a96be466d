"""`slalom-bench carry-over`: does the order of the methods on one model predict that on another?"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slalom_bench.results.carry_over import CarryOver, Resampled


def carry_over_command(
    run_a: Annotated[Path, typer.Argument(help="The run whose order is to predict, e.g. of a mini.")],
    run_b: Annotated[Path, typer.Argument(help="The run that is predicted, e.g. of a pretrained model.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON on stdout.")] = False,
) -> None:
    """Spearman correlation, over the methods in common, between two models' columns of every metric.

    Paired is what has the same task, budget, protocol, removal rule and cut; every model of A with every one of B. The
    interval is the 95 % percentile one over resampled texts, drawn together where both models have them. The ceilings
    say how far a model's own order agrees with itself on resampled texts: beside what other texts alone would do, a
    lower carry-over says something of the models. They are rough marks and no bounds: a resample shares texts with
    what it is held against, which lifts them, and a carry-over may by chance lie above.

    Examples:

      slalom-bench run --task imdb --model mini-bert --out runs/mini

      slalom-bench run --task imdb --model minilm-6 --out runs/pretrained

      slalom-bench carry-over runs/mini runs/pretrained
    """
    from slalom_bench.results.carry_over import carry_over
    from slalom_bench.results.reading import read_run

    found = carry_over(read_run(run_a), read_run(run_b))
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found]))
        return
    for (table, models), numbers in groupby(found, key=lambda one: (one.table, one.models)):
        _show(table, models, numbers)


def _show(title: str, models: tuple[str, str], numbers: Iterable[CarryOver]) -> None:
    """One table, a row for each metric, that fits 80 columns; reasons stand below it."""
    from tabulate import tabulate

    from slalom_bench.core.safe_text import line

    rows, reasons = [], []
    for one in numbers:
        carried = "-" if one.spearman is None else f"{one.spearman:.2f}{_ends(one.interval)}"
        ceilings = ["-" if found is None else f"{found.median:.2f}{_ends(found)}" for found in one.ceiling]
        rows.append([one.metric.name, len(one.means), carried, *ceilings])
        if one.reason:
            reasons.append(f"{one.metric.name}: undefined, {one.reason}")
    typer.echo(f"\n{line(title)}")
    typer.echo(f"A = {line(models[0])}, B = {line(models[1])}: Spearman over methods [95 %]")
    typer.echo(tabulate(rows, ["metric", "m", "A to B", "ceiling A", "ceiling B"], "simple", disable_numparse=True))
    for reason in reasons:
        typer.echo(reason)


def _ends(found: Resampled | None) -> str:
    return "" if found is None else f" [{found.low:.2f},{found.high:.2f}]"
