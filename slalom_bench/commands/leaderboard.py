"""`slalom-bench leaderboard`: submissions to Markdown tables and one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def leaderboard_command(
    out: Annotated[Path, typer.Option(help="Where the pages go.")] = Path("leaderboards"),
    results: Annotated[Path | None, typer.Option(help="The submissions; OUT/results unless given.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first file that cannot be used.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 if a page is stale.")] = False,
) -> None:
    """Make the pages of leaderboards/ from leaderboards/results/*.json: README.md, one for each task, index.html.

    In the folder of a task every table has a page of its own. The answers across tasks also go into the README beside
    leaderboards/, where it has the marks for them. The same results give the same bytes. A file that cannot be used is
    named and left out, and the exit code is 1 then.

    Examples:

      slalom-bench leaderboard

      slalom-bench leaderboard --check
    """
    from slalom_bench.core.safe_text import line
    from slalom_bench.results.attestation import read_attestations
    from slalom_bench.showing.leaderboard import README, content, generate, read_results, stale, write

    left_out: list[str] = []
    folder = results or out / "results"
    submissions = read_results(folder, None if strict else left_out)
    attestations = read_attestations(folder, submissions, None if strict else left_out)
    files = generate(submissions, attestations, content(out / README) or "")
    for wrong_file in left_out:
        typer.secho(f"left out: {line(wrong_file)}", fg="red", err=True)
    if check:
        if wrong := stale(files, out):
            typer.secho(f"stale: {', '.join(wrong)}; run `slalom-bench leaderboard`", fg="red", err=True)
            raise typer.Exit(1)
        typer.echo(f"{len(files)} pages are up to date")
        if left_out:
            raise typer.Exit(1)
        return
    touched = write(files, out)
    for name in touched:
        typer.echo(out / name)
    if not touched:
        typer.echo(f"nothing to do: {len(files)} pages are up to date")
    if left_out:
        raise typer.Exit(1)
