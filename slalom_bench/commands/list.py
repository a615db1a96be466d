"""`slalom-bench list`: what is registered, without loading torch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from slalom_bench.entries import Entry


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
    from slalom_bench.showing.cards import card

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
    if named and not chosen and not as_json:
        width = min(get_terminal_size().columns, 100)
        for entry in named:
            typer.echo(card(entry, **_found(entry, data_dir, available)).plain(width) + "\n")
        return
    rows = {title: [_described(entry, data_dir, available) for entry in found] for title, found in shown.items()}
    if as_json:
        typer.echo(json.dumps(rows, indent=1, default=str))
        return
    cut = [_show_lines(title, found) for title, found in rows.items()]
    if any(cut):
        typer.echo("… stands for more: `slalom-bench list NAME` says everything of one thing")


def _found(entry: Entry[Any], data_dir: Path | None, available: bool) -> dict[str, str]:
    """Of a model, where that is asked for, whether it is here."""
    if not available or entry.kind != "model":
        return {}
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.models.loading import model_availability

    return {"available": str(model_availability(entry.name, None, ModelOptions(data_dir=data_dir)))}


def _described(entry: Entry[Any], data_dir: Path | None, available: bool) -> dict[str, Any]:
    """What an entry declares and its card says, and of a model whether it is here."""
    from slalom_bench.showing.cards import card

    made = card(entry)
    told = {
        "text": made.text,
        "sections": dict(made.sections),
        "parameters": [asdict(each) for each in made.parameters],
    }
    return entry.describe() | told | _found(entry, data_dir, available)


def _show_lines(title: str, rows: list[dict[str, Any]]) -> bool:
    """A line each, as wide as the terminal: name, for models whether it is here, what it is. Whether any was cut."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(f"{title} ({len(rows)})", "bold"))
    width, cut = max((len(row["name"]) for row in rows), default=0), False
    for row in rows:
        said = f"{row['available'].split(':')[0]}; {row['summary']}" if "available" in row else row["summary"]
        line = Text(f"  {row['name']:<{width}}  {said}")
        if console.is_terminal:
            cut = cut or len(line) > console.width
            line.truncate(console.width, overflow="ellipsis")
        console.print(line, soft_wrap=True)
    console.print()
    return cut
