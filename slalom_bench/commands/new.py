"""`slalom-bench new`: the files of a contribution, ready to be filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new_command(
    kind: Annotated[str, typer.Argument(help="What to begin: explainer, metric, task, model or suite.")],
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits, dots and dashes.")],
    directory: Annotated[
        Path | None, typer.Option(help="Write a plugin of your own there, instead of into a checkout.")
    ] = None,
) -> None:
    """Write an explainer, metric, task, model or suite that works at once, and its test; nothing is overwritten.

    In a checkout of slalom-bench the files go where the registry finds them. With --directory they become a small
    package of your own that registers through an entry point. CONTRIBUTING.md tells the rest.

    Examples:

      slalom-bench new explainer my-method

      slalom-bench new metric my-metric

      slalom-bench new explainer my-method --directory ~/my-method
    """
    from slalom_bench.contract.scaffold import new

    written = new(kind, name, directory)
    for path in written.files:
        typer.echo(f"wrote {path}")
    typer.echo("next:")
    for step in written.next_steps:
        typer.echo(f"  {step}")
