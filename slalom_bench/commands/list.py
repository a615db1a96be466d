"""`slalom-bench list`: what is registered, without loading torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def list_command(
    kind: Annotated[
        str | None, typer.Argument(help="tasks, models, explainers, metrics, removals, laws or suites; else all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every registered thing with version and needs.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Where data may lie; else SLALOM_BENCH_DATA.")] = None,
) -> None:
    """Show what is registered: tasks, models, explainers, metrics, suites.

    Examples:

      slalom-bench list

      slalom-bench list explainers

      slalom-bench list models --data-dir ~/data

      slalom-bench list --json
    """
    from slalom_bench import registry
    from slalom_bench.errors import UnknownName

    kinds = [name for name in registry.KINDS if name != "surrogate"]
    if kind is not None:
        single = kind.removesuffix("s")
        if single not in kinds:
            raise UnknownName("kind", kind, [f"{name}s" for name in kinds])
        kinds = [single]
    found = {f"{name}s": [entry.describe() for entry in registry.KINDS[name].entries()] for name in kinds}
    if "models" in found and kind is not None:
        _add_availability(found["models"], data_dir)
    if as_json:
        typer.echo(json.dumps(found, indent=1, default=sorted))
        return
    for title, rows in found.items():
        _show(title, rows)


def _add_availability(rows: list[dict[str, Any]], data_dir: Path | None) -> None:
    """What is here, and what would be downloaded or trained."""
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.models.loading import model_availability

    options = ModelOptions(data_dir=data_dir)
    for row in rows:
        row["available"] = str(model_availability(row["name"], None, options))


COLUMNS = {
    "tasks": ("source", "licence"),
    "models": ("needs", "available"),
    "explainers": ("family", "needs", "stochastic"),
    "metrics": ("direction", "unit", "needs"),
    "suites": ("tasks", "models", "scales"),
    "removals": (),
    "laws": (),
}


def _show(title: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [name for name in COLUMNS[title] if any(name in row for row in rows)]
    table = Table(title=title, title_justify="left")
    for name in ("name", "v", *columns, "what it is"):
        table.add_column(name, no_wrap=name == "name")
    for row in rows:
        cells = [_spell(row.get(name, "")) for name in columns]
        table.add_row(*map(Text, (row["name"], str(row["version"]), *cells, row["summary"])))
    Console(highlight=False).print(table)


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple, set, frozenset)) else str(value)
