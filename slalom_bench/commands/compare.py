"""`slalom-bench compare`: two runs, paired sample by sample."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from slalom_bench.results.comparison import Comparison, Key

ABSENT = "absent"
LEGEND = (
    "B minus A, or as a factor B over A (log scale); p and intervals hold for all\n"
    "explainers of a table at once. =: not separable; ≈: no difference that matters."
)


def compare_command(
    run_a: Annotated[Path, typer.Argument(help="The run to compare with.")],
    run_b: Annotated[Path, typer.Argument(help="The run that is compared.")],
    budgets: Annotated[
        tuple[int, int] | None,
        typer.Option(
            help="Compare A's rows at the first budget with B's at the second, else at equal ones; also of one run."
        ),
    ] = None,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit code 1 if B is worse anywhere.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two runs: B minus A for every explainer and metric, on the samples that both define.

    The explainers of a table and metric are compared at once, like the pairs of a board: sign tests over texts,
    family-wise 5 %; differences are medians, ratios where the metric is on the log scale. Worse means worse on
    significantly more texts, by what could matter, or scores that A has and B lost. What changed in seeds,
    budgets, samples, code, packages, machine, data, weights and versions is listed.

    Examples:

      slalom-bench compare runs/before runs/after

      slalom-bench compare runs/main runs/branch --fail-on-regression

      slalom-bench compare runs/mine runs/mine --budgets 100 1000
    """
    from slalom_bench.results.comparison import compare_runs
    from slalom_bench.results.reading import read_run

    found = compare_runs(read_run(run_a), read_run(run_b), budgets)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "changes": [change.to_dict() for change in found.changes],
                    "only_a": [str(key) for key in found.only_a],
                    "only_b": [str(key) for key in found.only_b],
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
    """A table of the differences for each table and metric, then what else changed."""
    from slalom_bench.core.safe_text import line
    from slalom_bench.showing.columns import print_table
    from slalom_bench.showing.comparing import SIGNS, spell_effect
    from slalom_bench.showing.wording import ARROWS

    for (where, metric), changes in groupby(found.changes, key=lambda change: (change.key.table, change.key.metric)):
        rows, counts = [], set()
        for change in changes:
            effect = "-" if change.effect is None else spell_effect(change.effect)
            p = "-" if change.p_adjusted is None else f"{change.p_adjusted:.2g}"
            rows.append([change.key.explainer, effect, p, SIGNS.get(change.verdict, change.verdict)])
            counts.add(change.n)
        n = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
        typer.echo(f"\n{line(where)}\n{line(metric)} {ARROWS[change.direction]}, {n} samples")
        print_table(["explainer", "B against A [95 %]", "p", "verdict"], rows, ("p",))
    typer.echo(LEGEND)
    if found.too_few:
        typer.echo("Too few samples for any difference to be significant.")
    for title, keys in (("only in A", found.only_a), ("only in B", found.only_b)):
        for said in _unpaired(keys):
            typer.echo(f"{title}: {line(said)}")
    changed = [change for change in found.provenance if not _said_above(*change)]
    typer.echo("Changed beside the scores:" if changed else "Nothing changed beside the scores.")
    for what, a, b in changed:
        typer.echo(line(f"  {what}: {a} -> {b}"))


def _said_above(what: str, a: str, b: str) -> bool:
    """A version or seed of what one run alone has."""
    return ABSENT in (a, b) and what.startswith(("version of ", "seeds of "))


def _unpaired(keys: Sequence[Key]) -> list[str]:
    """Tables, explainers and metrics of one run alone: a line for the explainers that have the same metrics alone."""
    metrics: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        metrics.setdefault((key.table, key.explainer), []).append(key.metric)
    explainers: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (table, explainer), own in metrics.items():
        explainers.setdefault((table, tuple(own)), []).append(explainer)
    return [f"{table}: {', '.join(own)} ({', '.join(names)})" for (table, names), own in explainers.items()]
