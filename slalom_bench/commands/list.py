"""`slalom-bench list`: what is registered, without loading torch."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from slalom_bench.entries import Entry

OWN = ("kind", "name", "factory", "summary", "argument")
"""What a card says in its first lines, or not at all."""


def list_command(
    what: Annotated[
        str | None,
        typer.Argument(help="tasks, models, explainers, metrics, removals, laws or suites; or the name of one thing."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything that is declared, parameters too.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Where data may lie; else SLALOM_BENCH_DATA.")] = None,
) -> None:
    """Show what is registered, a line each; of one thing, everything.

    Examples:

      slalom-bench list

      slalom-bench list explainers

      slalom-bench list slalom-fidel

      slalom-bench list models --data-dir ~/data

      slalom-bench list --json
    """
    from slalom_bench import registry
    from slalom_bench.errors import UnknownName

    kinds = [name for name in registry.KINDS if name != "surrogate"]
    chosen = kinds if what is None else [kind for kind in kinds if what in (kind, f"{kind}s")]
    named = [entry for kind in kinds if (entry := registry.KINDS[kind].find(what or "")) is not None]
    if not chosen and not named:
        known = [name for kind in kinds for name in registry.KINDS[kind].names()]
        raise UnknownName("kind or name", what or "", [*(f"{kind}s" for kind in kinds), *known])
    shown = {f"{kind}s": registry.KINDS[kind].entries() for kind in chosen} or {
        f"{entry.kind}s": [entry] for entry in named
    }
    available = what is not None and "models" in shown
    rows = {title: [_described(entry, data_dir, available) for entry in found] for title, found in shown.items()}
    if as_json:
        typer.echo(json.dumps(rows, indent=1, default=str))
    elif chosen:
        for title, found in rows.items():
            _show_lines(title, found)
    else:
        for entry, row in zip(named, (row for found in rows.values() for row in found), strict=True):
            _show_card(entry, row)


def _described(entry: Entry[Any], data_dir: Path | None, available: bool) -> dict[str, Any]:
    """What an entry declares, its parameters, and of a model whether it is here."""
    row = entry.describe() | {"parameters": _parameters(entry)}
    if available and entry.kind == "model":
        from slalom_bench.core.options import ModelOptions
        from slalom_bench.models.loading import model_availability

        row["available"] = str(model_availability(entry.name, None, ModelOptions(data_dir=data_dir)))
    return row


def _parameters(entry: Entry[Any]) -> list[dict[str, Any]]:
    """Name, type and default of what the constructor takes."""
    from slalom_bench.core.parameters import parameter_types, spell_type

    if entry.kind == "suite":
        return []
    types = parameter_types(entry.factory)
    return [
        {
            "name": name,
            "type": spell_type(types.get(name, parameter.annotation)),
            "default": None if parameter.default is inspect.Parameter.empty else parameter.default,
        }
        for name, parameter in entry.parameters.items()
    ]


def _show_lines(title: str, rows: list[dict[str, Any]]) -> None:
    """A line each, as wide as the terminal: the name, for models whether it is here, and what it is."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(f"{title} ({len(rows)})", "bold"))
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        said = f"{row['available'].split(':')[0]}; {row['summary']}" if "available" in row else row["summary"]
        line = Text(f"  {row['name']:<{width}}  {said}")
        if console.is_terminal:
            line.truncate(console.width, overflow="ellipsis")
        console.print(line, soft_wrap=True)
    console.print()


def _show_card(entry: Entry[Any], row: dict[str, Any]) -> None:
    """Everything of one thing: what it is, what it declares, what it takes."""
    typer.echo(f"{entry.kind} {entry.name}\n")
    typer.echo((inspect.getdoc(entry.factory) or entry.summary) if entry.kind != "suite" else entry.summary)
    typer.echo("")
    for key, value in row.items():
        if key not in (*OWN, "parameters") and value not in ("", None, (), [], {}):
            typer.echo(f"{key.replace('_', ' ')}: {_spell(value)}")
    if row["parameters"]:
        typer.echo("parameters:")
        for each in row["parameters"]:
            typer.echo(f"  {each['name']}: {each['type']} = {each['default']!r}")


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple, set, frozenset)) else str(value)
