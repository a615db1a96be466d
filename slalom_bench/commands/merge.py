"""`slalom-bench merge`: join the directories of a run that was computed in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def merge_command(
    directories: Annotated[list[Path], typer.Argument(help="Run directories: all the parts of `run --shard`.")],
    out: Annotated[Path, typer.Option(help="The new run directory.")],
) -> None:
    """Join run directories into one, the same as if it had been computed at once.

    Every part must be there and finished; nothing is written where one is not, or where two say different things.

    Examples:

      slalom-bench merge runs/imdb-1of2 runs/imdb-2of2 --out runs/imdb

      slalom-bench merge runs/imdb-*of8 --out runs/imdb
    """
    from slalom_bench.running.merging import merge

    merged = merge(directories, out)
    typer.echo(f"{merged.cells} cells with {merged.samples} samples of {len(directories)} directories: {merged.path}")
