"""`slalom-bench agreement`: do explainers agree with each other, and with themselves across seeds?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from slalom_bench.results.reading import Group


def agreement_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    magnitudes: Annotated[
        bool | None, typer.Option(help="Compare |score|; by default only where one side is unsigned.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Size of the top sets that are compared.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON on stdout.")] = False,
) -> None:
    """Correlation and overlap between the explainers of a run, and stability of each across seeds.

    Needs no model: stored explanations are compared. `--no-magnitudes` on LIME and attention gives the plain
    correlation of "Attention Meets Post-hoc Interpretability", `--magnitudes` the one of absolute values.

    Examples:

      slalom-bench agreement runs/imdb

      slalom-bench agreement runs/imdb --no-magnitudes --json
    """
    from slalom_bench.results.reading import groups, read_run

    found = [_measure(group, top, magnitudes) for group in groups(read_run(run))]
    if as_json:
        typer.echo(json.dumps(found))
        return
    for group in found:
        _show(group, top)


def _measure(group: Group, top: int, magnitudes: bool | None) -> dict[str, Any]:
    """Pairs over the first seed's explanations, stability over all seeds."""
    from slalom_bench.results.agreement import pairwise, stability
    from slalom_bench.results.statistics import summarise
    from slalom_bench.run.records import explanation_from_dict

    runs = {
        name: [
            {key: explanation_from_dict(row["explanation"]) for key, row in rows.items() if "explanation" in row}
            for rows in (cell.explanations for cell in cells)
        ]
        for name, cells in group.by_explainer().items()
    }
    pairs = pairwise({name: seeds[0] for name, seeds in runs.items()}, top=top, magnitudes=magnitudes)
    return {
        "group": group.title,
        "pairs": [
            {"a": a, "b": b, **{name: vars(summary) for name, summary in measures.items()}}
            for (a, b), measures in pairs.items()
        ],
        "stability": {
            name: vars(summarise(stability(seeds).values())) for name, seeds in runs.items() if len(seeds) > 1
        },
    }


def _show(found: dict[str, Any], top: int) -> None:
    from tabulate import tabulate

    def spell(summary: dict[str, Any]) -> str:
        if summary["mean"] is None:
            return "undefined"
        extra = f" ({summary['undefined']} undef.)" if summary["undefined"] else ""
        interval = "" if summary["low"] is None else f" [{summary['low']:.2f}, {summary['high']:.2f}]"
        return f"{summary['mean']:.2f}{interval}{extra}"

    rows = [[p["a"], p["b"], *(spell(p[name]) for name in ("spearman", "pearson", "top"))] for p in found["pairs"]]
    typer.echo(f"\n{found['group']}: mean over samples [95 % interval]")
    head = ["explainer", "and", "Spearman", "Pearson", f"top-{top} overlap"]
    typer.echo(tabulate(rows, headers=head, tablefmt="github"))
    if found["stability"]:
        rows = [[name, spell(summary)] for name, summary in found["stability"].items()]
        typer.echo("\n" + tabulate(rows, headers=["explainer", "Spearman across seeds"], tablefmt="github"))
