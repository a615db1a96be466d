"""`slalom-bench leaderboard`: submissions to Markdown tables and one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def leaderboard_command(
    out: Annotated[Path, typer.Option(help="Where the pages go.")] = Path("leaderboards"),
    results: Annotated[Path | None, typer.Option(help="The submissions; OUT/results unless given.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 if a page is stale.")] = False,
) -> None:
    """Make leaderboards/*.md (one for each task) and leaderboards/index.html from leaderboards/results/*.json.

    The same results give the same bytes. Submissions that do not hold together are refused by name.

    Examples:

      slalom-bench leaderboard

      slalom-bench leaderboard --check
    """
    from slalom_bench.showing.leaderboard import generate, read_results, stale, write

    files = generate(read_results(results or out / "results"))
    if check:
        if wrong := stale(files, out):
            typer.secho(f"stale: {', '.join(wrong)}; run `slalom-bench leaderboard`", fg="red", err=True)
            raise typer.Exit(1)
        typer.echo(f"{len(files)} pages are up to date")
        return
    touched = write(files, out)
    for name in touched:
        typer.echo(out / name)
    if not touched:
        typer.echo(f"nothing to do: {len(files)} pages are up to date")
