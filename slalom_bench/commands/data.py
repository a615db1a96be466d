"""`slalom-bench data`: which data a task would use, and whether it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from slalom_bench.data.sources import Source


def data_command(
    name: Annotated[str, typer.Argument(help="A task: NAME[:key=value,...] or text:FILE.")],
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data; else SLALOM_BENCH_DATA.")] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="Download where the hub is what would be used.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Say which data a task would use: each place looked at, counts, content hash.

    Examples:

      slalom-bench data imdb

      slalom-bench data yelp-hat:subset=50,consensus=majority --data-dir ~/data

      slalom-bench data text:reviews.csv,text_column=body --json
    """
    from slalom_bench.core.references import Ref
    from slalom_bench.data.loading import build_task, data_directory
    from slalom_bench.errors import InvalidInput

    ref = Ref.parse(name)
    built: Any = build_task(ref.spec, ref.params)
    folder = data_directory(data_dir)
    tried = [_look(source) for source in built.sources(folder)] if hasattr(built, "sources") else []
    used = next((row for row in tried if row["there"]), None)
    absent = bool(tried) and used is None
    found: dict[str, Any] = {"task": str(ref), "tried": tried, "used": used and f"{used['kind']} {used['name']}"}
    if absent:
        found["remedies"] = list(getattr(built, "remedies", ()))
    elif used is None or used["kind"] != "hub" or fetch:
        found |= _counts(built.load(folder))
    if as_json:
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _show(found)
    if absent:
        raise InvalidInput(f"no data for task {ref}; see the remedies above")


def _look(source: Source) -> dict[str, Any]:
    """One place: whether the data is there, and what it says of itself."""
    from slalom_bench.data.sources import Absent

    try:
        detail, there = source.check(), True
    except Absent as absent:
        detail, there = str(absent), False
    return {"kind": source.kind, "name": source.name, "there": there, "detail": detail}


def _counts(data: Any) -> dict[str, Any]:
    """What loading gave: the source as results name it, and how much of everything."""
    from collections import Counter

    labels = Counter(example.label for example in data.evaluation)
    names: dict[int | None, str] = {**dict(enumerate(data.class_names)), None: "unlabelled"}
    return {
        "used": f"{data.source.kind} {data.source.name}",
        "content_hash": data.source.content_hash,
        "note": data.source.note,
        "evaluation": len(data.evaluation),
        "train": len(data.train),
        "marked": sum(example.word_marks is not None for example in data.evaluation),
        "classes": {name: labels[i] for i, name in names.items() if i is not None or labels[None]},
        "truth": data.truth.get("kind"),
    }


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if found["tried"]:
        table = Table(title=f"task {found['task']}: places looked at, in order", title_justify="left")
        for title in ("kind", "name", "there", "what"):
            table.add_column(title)
        for row in found["tried"]:
            there = Text("yes", "green") if row["there"] else Text("no", "yellow")
            table.add_row(Text(row["kind"]), Text(row["name"]), there, Text(row["detail"]))
        console.print(table)
    if found["used"]:
        console.print(Text(f"used: {found['used']}"), soft_wrap=True)
    for key in ("content_hash", "evaluation", "train", "marked", "classes", "truth", "note"):
        if found.get(key):
            value = found[key]
            shown = ", ".join(f"{name} {count}" for name, count in value.items()) if isinstance(value, dict) else value
            console.print(Text(f"{key.replace('_', ' ')}: {shown}"), soft_wrap=True)
    if found["used"] and "content_hash" not in found:
        console.print(Text("not downloaded; --fetch does, and shows counts and content hash"), soft_wrap=True)
    for remedy in found.get("remedies", ()):
        console.print(Text(f"- {remedy}"), soft_wrap=True)
