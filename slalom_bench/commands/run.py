"""`slalom-bench run`: run a suite, show progress, end with tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.results.reading import Run
    from slalom_bench.running.plan import Cell
    from slalom_bench.running.progress import Reporter
    from slalom_bench.running.runner import RunResult
    from slalom_bench.running.suite import Suite

Several = "May be given several times."
SUITES = "the suite's unless given"


def run_command(
    suite: Annotated[
        str | None, typer.Option(help="A built-in suite (smoke, imdb, ...) or a TOML file; else give --task.")
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option(help=f"NAME[:key=value,...] or text:FILE; {SUITES}. {Several}")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"NAME[:key=value,...], hf:DIR_OR_ID or openai:MODEL; {SUITES}, or mini-bert. {Several}"),
    ] = None,
    explainer: Annotated[
        list[str] | None, typer.Option(help=f"NAME[:key=value,...]; {SUITES}, or all. {Several}")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help=f"NAME[:key=value,...]; {SUITES}, or all. {Several}")] = None,
    budget: Annotated[
        list[str] | None, typer.Option(help=f"Model queries per sample; 500,1000 for several; {SUITES}, or 1000.")
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help=f"How many texts; {SUITES}, or 10.")] = None,
    seed: Annotated[list[str] | None, typer.Option(help=f"0,1,2 for several; {SUITES}, or 0.")] = None,
    protocol: Annotated[
        Literal["bench", "paper"] | None, typer.Option(help=f"Fair, or as published; {SUITES}, or bench.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="A scale that the suite defines, e.g. paper; else the default one.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help=f"Cut texts to so many content tokens; {SUITES}, or whole.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The class to explain, by name or number; else class 1 of two, the predicted one of more."),
    ] = None,
    removal: Annotated[
        str | None, typer.Option(help=f"How a token is removed: delete, gap, mask, pad, ...; {SUITES}, or delete.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    dtype: Annotated[str, typer.Option(help="float32 unless a large model must be smaller.")] = "float32",
    device_map: Annotated[
        str | None, typer.Option(help="Spread a large model: auto, or as accelerate has it; else one device.")
    ] = None,
    token_budget: Annotated[
        int | None, typer.Option(min=1, help="Padded tokens per batch; the model's own choice unless given.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data; else SLALOM_BENCH_DATA.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory; runs/SUITE unless given, with a hash of what was changed.")
    ] = None,
    mode: Annotated[
        Literal["resume", "restart", "score-only"],
        typer.Option(help="Go on, throw away and begin anew, or score what is explained."),
    ] = "resume",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute what failed again.")] = False,
    train: Annotated[bool, typer.Option(help="Train models that are not there yet.")] = True,
    base_url: Annotated[str | None, typer.Option(help="Endpoint of openai:MODEL, by default none.")] = None,
    max_requests: Annotated[
        int | None, typer.Option(min=1, help="Hard cap on requests to an endpoint; no cap unless given.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Compute on so many Ray workers; else in this process.")
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="A running Ray cluster: auto, HOST:PORT or ray://HOST:PORT; none unless given.")
    ] = None,
    cpus_per_worker: Annotated[
        int | None, typer.Option(min=1, help="Cores, and threads, of a worker; an equal part unless given.")
    ] = None,
    gpus_per_worker: Annotated[
        float | None, typer.Option(min=0, help="GPUs of a worker, 0.5 for half of one; an equal part unless given.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="I/N: only the I-th of N parts of the texts; `merge` joins the directories; all of it unless given."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, its cost and how long it may take; write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")] = False,
) -> None:
    """Run explainers on a task's texts and models, and score them.

    Results are appended to the run directory sample by sample: stop with Ctrl-C or lose power, run the same command
    again, and it goes on. A second call of a finished run computes nothing, but for what failed by a fault of the
    moment (files, network, memory); --retry-failed tries the rest of what failed again. Exit code 1 if
    a sample failed.

    Examples:

      slalom-bench run --suite smoke

      slalom-bench run --suite imdb --scale paper --device cuda

      slalom-bench run --task imdb --model mini-bert --explainer slalom-fidel --explainer lime:tie=token
      --budget 500,1000 --samples 20

      slalom-bench run --task text:reviews.csv,text_column=body --model hf:./my-checkpoint --dry-run

      slalom-bench run --suite imdb --workers 2
    """
    from slalom_bench.api import build_suite, run
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.running.progress import Reporter

    spec = build_suite(
        suite,
        task=task or (),
        model=model or (),
        explainer=explainer or (),
        metric=metric or (),
        budget=numbers("--budget", budget),
        samples=samples,
        seed=numbers("--seed", seed),
        protocol=protocol,
        removal=removal,
        max_tokens=max_tokens,
        target=target,
        scale=scale,
    )
    reporter = Reporter(show=True)
    more: dict[str, Any] = {
        "allow_training": train,
        "base_url": base_url,
        "max_requests": max_requests,
        "device_map": device_map,
    }
    if dry_run:
        show_plan(spec, ModelOptions(device=device, dtype=dtype, data_dir=data_dir, **more), reporter, as_json)
        return
    result = run(
        spec,
        out=out,
        mode=mode,
        retry_failed=retry_failed,
        device=device,
        dtype=dtype,
        token_budget=token_budget,
        data_dir=data_dir,
        reporter=reporter,
        model_options=more,
        workers=workers,
        ray_address=ray_address,
        cpus_per_worker=cpus_per_worker,
        gpus_per_worker=gpus_per_worker,
        shard=shard,
    )
    finish(result, reporter, as_json)


def numbers(option: str, texts: list[str] | None) -> list[int]:
    """`500,1000` and repeated options alike."""
    from slalom_bench.errors import InvalidInput

    parts = [part.strip() for text in texts or [] for part in text.split(",")]
    for part in parts:
        if not part.isdecimal():
            raise InvalidInput(f"{option} {part!r}: whole numbers, separated by commas")
    return [int(part) for part in parts]


def show_plan(
    suite: Suite, options: ModelOptions, reporter: Reporter, as_json: bool, planned: set[Cell] | None = None
) -> tuple[float, list[str]]:
    """The cells, the skips with their reasons, an upper bound of the cost, and how long that takes here.

    Args:
        suite: what would be run.
        options: of models and data.
        reporter: of what loading says.
        as_json: whether to print JSON.
        planned: cells that another plan has, which are left out here; this plan's are added.

    Returns:
        The seconds, and what could not be timed.
    """
    from dataclasses import replace
    from time import perf_counter

    from slalom_bench.core.safe_text import line
    from slalom_bench.running.loading import Loader
    from slalom_bench.running.timing import measure_plan
    from slalom_bench.showing.wording import duration

    begun = perf_counter()
    loader = Loader(options, reporter)
    plan = loader.plan(suite, lengths=True)
    listed = perf_counter() - begun
    known = set() if planned is None else planned
    own = tuple(cell for cell in plan.cells if cell not in known)
    shared, plan = len(plan.cells) - len(own), replace(plan, cells=own)
    known.update(own)
    measured, unknown = measure_plan(plan, loader)
    seconds = listed + measured
    estimate = plan.estimate() | {"seconds": seconds, "not_timed": unknown}
    if as_json:
        cells = [cell.model_dump(mode="json") for cell in plan.cells]
        typer.echo(json.dumps({"cells": cells, "skips": [vars(skip) for skip in plan.skips], "estimate": estimate}))
        return seconds, unknown
    for cell in plan.cells:
        typer.echo(line(f"{cell.title} · {cell.samples} samples"))
    for skip in plan.skips:
        typer.echo(line(f"skip {skip.what}: {skip.reason}"))
    metrics = sorted({str(label) for cell in plan.cells for label in cell.labels.values()})
    typer.echo(f"metrics: {', '.join(metrics) or 'none'}")
    typer.echo(
        f"{estimate['cells']} cells; explaining takes at most {estimate['queries']:,} model queries "
        f"and {estimate['tokens']:,} tokens; nothing was stored"
    )
    if shared:
        typer.echo(f"{shared} more cells are planned already")
    for why in unknown:
        typer.echo(line(f"not timed: {why}"))
    if measured:
        typer.echo(
            f"about {duration(seconds)} on this machine in one process, if it stays as busy as it is: a text of each "
            "model was done by every explainer and metric, and time grows like the length of texts"
        )
    return seconds, unknown


def say_report(run: Run, reporter: Reporter) -> None:
    """Write the run's report and say where; a run with nothing finished yet has none."""
    from slalom_bench.errors import StoreError
    from slalom_bench.showing.report import write_report

    try:
        _markdown, page = write_report(run)
    except StoreError as error:
        reporter.say(f"no report: {error}", style="yellow")
    else:
        reporter.say(f"report: {page}")


def finish(result: RunResult, reporter: Reporter, as_json: bool) -> None:
    """Tables, what was done, how to go on; the exit code says whether anything failed."""
    from slalom_bench.results.collect import missing_metrics
    from slalom_bench.results.reading import read_run
    from slalom_bench.showing.terminal import call_boards, print_tables, summary_json

    run = read_run(result.path)
    boards = call_boards(result, run)
    if as_json:
        typer.echo(json.dumps(summary_json(result, boards)))
    else:
        print_tables(boards)
    for missing in missing_metrics(run):
        reporter.say(missing, style="yellow")
    for repair in result.repairs:
        reporter.say(f"repaired {repair}", style="yellow")
    if not result.explained and not result.scored and not result.interrupted:
        reporter.say(f"nothing to compute: all {result.reused} samples were there already")
    else:
        reporter.say(
            f"{result.explained} samples explained, {result.scored} scores computed, {result.reused} samples reused"
        )
    if not as_json:
        say_report(run, reporter)
    reporter.say(f"results: {result.path}")
    if result.retried:
        reporter.say(f"{result.retried} samples that had failed were tried again")
    if result.passing:
        said = "samples failed by a fault of the moment (files, network, memory): the same command tries them again"
        reporter.say(f"{result.passing} {said}", style="red")
    if kept := result.failed - result.passing:
        said = f"samples failed; their rows in {result.path} say why, --retry-failed computes them again"
        reporter.say(f"{kept} {said}", style="red")
    if result.interrupted:
        reporter.say("stopped; what is finished is kept. Run the same command again to go on.", style="yellow")
        raise typer.Exit(130)
    if result.failed:
        raise typer.Exit(1)
