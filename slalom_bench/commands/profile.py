"""`slalom-bench profile`: what each explainer costs, and what the cost buys."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.results.profile import ProfileRow, Timed
    from slalom_bench.running.suite import Suite

Several = "NAME[:key=value,...]; the suite's unless given. May be given several times."


def profile_command(
    suite: Annotated[str | None, typer.Option(help="A built-in suite or a TOML file; else give --task.")] = None,
    task: Annotated[list[str] | None, typer.Option(help=Several)] = None,
    model: Annotated[list[str] | None, typer.Option(help=Several)] = None,
    explainer: Annotated[list[str] | None, typer.Option(help=Several)] = None,
    metric: Annotated[list[str] | None, typer.Option(help=Several)] = None,
    budget: Annotated[
        list[str] | None, typer.Option(help="500,1000,2000 for several; the suite's unless given, or 1000.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Texts for the quality curves; the suite's unless given, or 10.")
    ] = None,
    timed: Annotated[int, typer.Option(min=1, help="Texts that are timed.")] = 3,
    replicates: Annotated[int, typer.Option(min=1, help="Timed repetitions of each.")] = 3,
    warmup: Annotated[int, typer.Option(min=0, help="Untimed repetitions before.")] = 1,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Cut texts to so many content tokens; the suite's unless given.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The class to explain, by name or number; else class 1 of two, the predicted one of more."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data; else SLALOM_BENCH_DATA.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory; that of `run` with -profile unless given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON on stdout.")] = False,
) -> None:
    """Time every explainer at every budget, one alone at a time, and draw quality against cost.

    Timings are warmed up, replicated and device-synchronised; medians with quartiles. The quality curves come from an
    ordinary run at the same budgets, kept in the same directory and resumed like any other.

    Examples:

      slalom-bench profile --suite imdb --budget 500,1000,2000,5000,10000

      slalom-bench profile --task imdb --model mini-bert --explainer slalom-eff --explainer lime --budget 500,1000
    """
    from slalom_bench.api import build_suite
    from slalom_bench.commands.run import numbers
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.results.profile import Timed

    spec = build_suite(
        suite,
        task=task or (),
        model=model or (),
        explainer=explainer or (),
        metric=metric or (),
        budget=numbers("--budget", budget),
        samples=samples,
        max_tokens=max_tokens,
        target=target,
    )
    path = out or Path(f"{spec.directory}-profile")
    rows = _profile(spec, path, ModelOptions(device=device, data_dir=data_dir), Timed(timed, warmup, replicates))
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in rows]))
    else:
        _show(rows)


def _show(rows: list[ProfileRow]) -> None:
    """A table for each task and model."""
    from slalom_bench.core.safe_text import line
    from slalom_bench.showing.columns import print_table
    from slalom_bench.showing.profile import spelled

    for where, own in groupby(rows, key=lambda row: f"{row.task} · {row.model}"):
        head, *body = spelled(list(own))
        typer.echo(f"\n{line(where)}")
        print_table(head, body, head[1:])


def _profile(suite: Suite, path: Path, options: ModelOptions, timed: Timed) -> list[ProfileRow]:
    """Run the suite, time its cells, write the table and the plots."""
    from slalom_bench.results.profile import profile_run
    from slalom_bench.running.files import write_text
    from slalom_bench.running.loading import Loader
    from slalom_bench.running.progress import Reporter
    from slalom_bench.running.runner import run_suite
    from slalom_bench.showing.profile import profile_plots, profile_table

    reporter = Reporter()
    reporter.say("cells are timed one after the other, each alone on its device; other processes are not looked for")
    result = run_suite(suite, path, options, reporter=reporter)
    if result.interrupted:
        reporter.say("stopped; run the same command again to go on.", style="yellow")
        raise typer.Exit(130)
    rows = profile_run(result, Loader(options, reporter), timed)
    write_text(path / "profile.md", profile_table(rows) + "\n")
    plots = profile_plots(rows, path / "plots")
    reporter.say(f"profile: {path / 'profile.json'}, {path / 'profile.md'} and {len(plots)} plots in {path / 'plots'}")
    return rows
