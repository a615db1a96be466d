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
    command lines of yours are not in it. The same scores again give the same file. A run that is not its suite as it
    is, or has other texts than the results that are there, is submitted too, and told so.

    Examples:

      slalom-bench submit runs/imdb

      slalom-bench submit runs/imdb --out results
    """
    from slalom_bench.core.safe_text import line
    from slalom_bench.results.as_suite import departures, other_texts
    from slalom_bench.results.collect import submit
    from slalom_bench.results.reading import read_run

    read = read_run(run)
    written = submit(read, out)
    for path in written:
        typer.echo(path)
    if others := other_texts(written):
        typer.secho(
            f"note: these are other texts than those of the results in {line(str(out))} ({line('; '.join(others))}): "
            "the rows stand in tables of their own. `slalom-bench data TASK` says where texts are looked for.",
            fg="yellow",
            err=True,
        )
    if wrong := departures(read):
        typer.secho(
            f"note: this is not the suite as it is ({line('; '.join(wrong))}): its rows are not compared with those of "
            "the suite. For a row on that leaderboard run it with no option but --explainer, --model and --scale.",
            fg="yellow",
            err=True,
        )
