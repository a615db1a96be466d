"""`slalom-bench report`: a run as Markdown and as one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report_command(
    run: Annotated[Path, typer.Argument(help="A run directory: the --out of `slalom-bench run`.")],
    examples: Annotated[int, typer.Option(min=0, help="Texts to show under every explainer.")] = 2,
) -> None:
    """Write report.md and report.html into a run directory.

    Tables with intervals, fidelity against deletions, quality against budget, time and queries, every sample's score,
    example texts with coloured tokens, failures, undefined scores and where everything came from. An unfinished run
    is reported as far as it is.

    Examples:

      slalom-bench report runs/imdb

      slalom-bench report runs/yelp-hat --examples 5
    """
    from slalom_bench.results.reading import read_run
    from slalom_bench.showing.report import write_report

    for path in write_report(read_run(run), examples):
        typer.echo(path)
