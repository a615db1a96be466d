"""`slalom-bench export`: a run's scores for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def export_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    kind: Annotated[Literal["csv", "parquet", "latex"], typer.Option("--format", help="What to write.")] = "csv",
    out: Annotated[Path | None, typer.Option(help="The file; in the run directory unless given.")] = None,
) -> None:
    """Write every score and what explaining cost as CSV or parquet, or the tables of means and costs as LaTeX.

    Costs are lines whose metric is `cost`: queries, forwards, tokens, seconds and so on of each sample.

    Examples:

      slalom-bench export runs/imdb --format csv

      slalom-bench export runs/imdb --format latex --out paper/table.tex
    """
    from slalom_bench.results.reading import read_run
    from slalom_bench.showing.export import export

    typer.echo(export(read_run(run), kind, out))
