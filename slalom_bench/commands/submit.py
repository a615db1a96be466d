"""`slalom-bench submit`: a run's results as small files that can be reviewed and ranked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def submit_command(
    run: Annotated[Path, typer.Argument(help="A finished run directory.")],
    out: Annotated[Path, typer.Option(help="Where the files go.")] = Path("leaderboards/results"),
) -> None:
    """Write one JSON file for each task, model and protocol of a run.

    A file holds the scores of every sample (not its text), means, intervals, costs, versions and the machine. Paths and
    command lines of yours are not in it. The same scores again give the same file.

    Examples:

      slalom-bench submit runs/imdb

      slalom-bench submit runs/imdb --out results
    """
    from slalom_bench.results.collect import submit
    from slalom_bench.results.reading import read_run

    for path in submit(read_run(run), out):
        typer.echo(path)
