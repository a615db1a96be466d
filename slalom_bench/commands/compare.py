"""`slalom-bench compare`: two runs, paired sample by sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from slalom_bench.results.comparison import Comparison


def compare_command(
    run_a: Annotated[Path, typer.Argument(help="The run to compare with.")],
    run_b: Annotated[Path, typer.Argument(help="The run that is compared.")],
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit code 1 if B is worse anywhere.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two runs: B minus A for every explainer and metric, on the samples that both define.

    Differences come with a bootstrap interval and a sign-flip test, corrected over all comparisons (Holm, 5 %). Worse
    means significantly worse, or scores that A has and B lost. What changed in code, packages, machine, data, weights
    and versions is listed.

    Examples:

      slalom-bench compare runs/before runs/after

      slalom-bench compare runs/main runs/branch --fail-on-regression
    """
    from slalom_bench.results.comparison import compare_runs
    from slalom_bench.results.reading import read_run

    found = compare_runs(read_run(run_a), read_run(run_b))
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "changes": [change.to_dict() for change in found.changes],
                    "only_a": list(found.only_a),
                    "only_b": list(found.only_b),
                    "too_few_samples": found.too_few,
                    "provenance": [dict(zip(("what", "a", "b"), change, strict=True)) for change in found.provenance],
                }
            )
        )
    else:
        show(found)
    if fail_on_regression and found.worse:
        typer.secho(f"{len(found.worse)} regressions", fg="red", err=True)
        raise typer.Exit(1)


def show(found: Comparison) -> None:
    """A table of the differences, then what else changed."""
    from slalom_bench.showing.markdown import table
    from slalom_bench.showing.wording import ARROWS, number

    rows = []
    for change in found.changes:
        d = change.difference
        mean = "-" if d.mean is None else number(d.mean)
        interval = "" if d.low is None or d.high is None else f"[{number(d.low)}, {number(d.high)}]"
        p = "-" if change.p_adjusted is None else f"{change.p_adjusted:.2g}"
        name = f"{change.metric} {ARROWS[change.direction]}"
        rows.append([change.row, name, str(d.n), mean, interval, p, change.verdict])
    typer.echo(table(["row", "metric", "n", "B - A", "95 % interval", "p (Holm)", "verdict"], rows, (2, 3, 5)))
    if found.too_few:
        typer.echo("Too few samples for any difference to be significant after correction.")
    for title, names in (("only in A", found.only_a), ("only in B", found.only_b)):
        for name in names:
            typer.echo(f"{title}: {name}")
    typer.echo("Changed beside the scores:" if found.provenance else "Nothing changed beside the scores.")
    for what, a, b in found.provenance:
        typer.echo(f"  {what}: {a} -> {b}")
