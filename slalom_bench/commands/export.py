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
    """Write every score as CSV or parquet, or the tables of means as LaTeX.

    Examples:

      slalom-bench export runs/imdb --format csv

      slalom-bench export runs/imdb --format latex --out paper/table.tex
    """
    from slalom_bench.results.reading import read_run
    from slalom_bench.showing.export import export

    typer.echo(export(read_run(run), kind, out))
