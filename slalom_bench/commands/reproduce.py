"""`slalom-bench reproduce`: the tables and figures of the two papers, measured again and compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.reproduction.engine import Reproduced
    from slalom_bench.reproduction.entry import Entry, Scale
    from slalom_bench.running.plan import Cell
    from slalom_bench.running.progress import Reporter


def reproduce_command(
    what: Annotated[list[str] | None, typer.Argument(help="Entries by name (--list shows them), or all.")] = None,
    scale: Annotated[
        Literal["quick", "paper"],
        typer.Option(
            help="quick: small models, two CPU cores; paper: the papers' models and sizes, a GPU and the hub."
        ),
    ] = "quick",
    list_: Annotated[bool, typer.Option("--list", help="Name all entries with their state, and do nothing.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, its cost and how long it may take; write nothing.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of runs, records and reports.")] = Path("runs/reproduce"),
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data; else SLALOM_BENCH_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print states or records as JSON on stdout.")] = False,
) -> None:
    """Measure tables and figures of the papers again, and say which agree.

    Every entry is one file in `slalom_bench/reproduction/entries`: a suite, a layout, the printed numbers, and what
    counts as agreement. All entries of a scale share one run directory, so what they have in common is computed once.
    Those that take least time go first, and one that fails does not stop the others (exit code 1). Ctrl-C loses
    nothing, and the same command goes on. The reports are OUT/SCALE/report.md and report.html; entries that were not
    reached are in them as not measured.

    Examples:

      slalom-bench reproduce --list

      slalom-bench reproduce fig-3 table-6

      slalom-bench reproduce all

      slalom-bench reproduce all --scale paper --device cuda --dry-run
    """
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.errors import InvalidInput
    from slalom_bench.reproduction.engine import reproduce_all
    from slalom_bench.reproduction.entry import entries, find_entries
    from slalom_bench.reproduction.record import to_record, write_record
    from slalom_bench.reproduction.rendering import write_reports
    from slalom_bench.running.progress import Reporter

    if list_:
        _show_states(out, scale, as_json)
        return
    if not what:
        raise InvalidInput(f"name an entry, or all: {', '.join(entries())}")
    chosen, reporter = find_entries(what), Reporter(show=True)
    options = ModelOptions(device=device, data_dir=data_dir)
    if dry_run:
        _show_plans(chosen, scale, options, reporter, as_json)
        return

    def kept(one: Reproduced, so_far: list[Reproduced]) -> None:
        write_record(one, out)
        write_reports(so_far, out)  # each time, so that there is one also after a kill

    found, stopped = reproduce_all(chosen, out, scale, options, reporter, kept)
    if as_json:
        typer.echo(json.dumps([to_record(one) for one in found]))
    reporter.say(f"reports: {', '.join(map(str, write_reports(found, out)))}")
    if stopped:
        reporter.say("stopped; what is finished is kept. Run the same command again to go on.", style="yellow")
        raise typer.Exit(130)
    if any(one.problem for one in found):
        raise typer.Exit(1)


def _show_plans(
    chosen: Sequence[Entry], scale: Scale, options: ModelOptions, reporter: Reporter, as_json: bool
) -> None:
    """The plan of every entry, without what an earlier one has, and what all of them come to."""
    from slalom_bench.commands.run import show_plan
    from slalom_bench.showing.wording import duration

    planned: set[Cell] = set()
    total, unknown = 0.0, set()
    for entry in chosen:
        typer.echo(f"\n{entry.what}: {entry.title}", err=as_json)
        for protocol in entry.protocols:
            seconds, why = show_plan(entry.suite_of(scale, protocol), options, reporter, as_json, planned)
            total += seconds
            unknown.update(why)
    typer.echo(
        f"\nin all {len(chosen)} entries, {len(planned)} cells, about {duration(total)} on this machine", err=as_json
    )
    if scale == "quick":
        said = "each alone, training its models, they took about"
        typer.echo(
            f"{said} {sum(entry.minutes for entry in chosen):.0f} min on one core when last measured", err=as_json
        )
    if unknown:
        typer.echo(
            f"and what {len(unknown)} models take that are not here yet: {'; '.join(sorted(unknown))}", err=as_json
        )


def _show_states(out: Path, scale: Literal["quick", "paper"], as_json: bool) -> None:
    """Every entry: name, state, minutes at the quick scale, what it is, verdicts; what is too long goes on below."""
    from textwrap import wrap

    from slalom_bench.reproduction.entry import entries
    from slalom_bench.reproduction.record import read_state
    from slalom_bench.showing.columns import terminal

    rows: list[dict[str, Any]] = []
    for entry in entries().values():
        state, verdicts = read_state(entry, out, scale)
        said = {"name": entry.name, "what": entry.what, "title": entry.title, "minutes": entry.minutes}
        rows.append(said | {"state": state, "verdicts": dict(verdicts)})
    if as_json:
        typer.echo(json.dumps(rows))
        return
    names, states = (max(len(row[key]) for row in rows) for key in ("name", "state"))
    for row in rows:
        start = f"{row['name']:<{names}}  {row['state']:<{states}}  "
        judged = "".join(f"; {protocol}: {verdict}" for protocol, verdict in row["verdicts"].items())
        what = f"{row['what']}, {row['minutes']:g} min: {row['title']}{judged}"
        typer.echo("\n".join(wrap(what, terminal().width, initial_indent=start, subsequent_indent=" " * len(start))))
