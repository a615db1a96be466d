"""`slalom-bench agreement`: do explainers agree with each other, and with themselves across seeds?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from slalom_bench.results.agreement import TableAgreement
    from slalom_bench.results.statistics import Summary


def agreement_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    magnitudes: Annotated[
        bool | None, typer.Option(help="Compare |score|; by default only where one side is unsigned.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Size of the top sets that are compared.")] = 10,
    out: Annotated[Path | None, typer.Option(help="Folder for the file and pictures; the run's unless given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON on stdout, write nothing.")] = False,
) -> None:
    """Correlation and overlap between the explainers of a run, and stability of each across seeds.

    Needs no model: stored explanations are compared. `--no-magnitudes` on LIME and attention gives the plain
    correlation of "Attention Meets Post-hoc Interpretability", `--magnitudes` the one of absolute values. Everything is
    written to agreement.json too, and a picture of each table beside it.

    Examples:

      slalom-bench agreement runs/imdb

      slalom-bench agreement runs/imdb --no-magnitudes --json
    """
    from slalom_bench.results.agreement import run_agreement
    from slalom_bench.results.reading import read_run

    found = run_agreement(read_run(run), top=top, magnitudes=magnitudes)
    if as_json:
        typer.echo(json.dumps([table.to_dict() for table in found]))
        return
    for table in found:
        _show(table, top)
    from slalom_bench.showing.agreement import write_agreement

    for path in write_agreement(found, out or run):
        typer.echo(f"wrote {path}", err=True)


def _show(found: TableAgreement, top: int) -> None:
    from slalom_bench.core.safe_text import line
    from slalom_bench.showing.columns import fits, print_table

    def rows(intervals: bool) -> list[list[str]]:
        return [
            [a, b, *(_spell(measures[name], intervals) for name in ("spearman", "pearson", "top"))]
            for (a, b), measures in found.pairs.items()
        ]

    head = ["explainer", "and", "Spearman", "Pearson", f"top {top}"]
    roomy = fits(head, rows(True))
    shown = "mean over samples [95 %]" if roomy else "mean over samples"
    typer.echo(
        f"\n{line(found.title)}\n{shown}, (n): n undefined; {'all of it is' if roomy else 'intervals are'} in the file"
    )
    print_table(head, rows(roomy))
    if found.stability:
        seeds = [[name, _spell(summary, True)] for name, summary in found.stability.items()]
        print_table(["explainer", "Spearman across seeds [95 %]"], seeds)


def _spell(summary: Summary, intervals: bool) -> str:
    count = f" ({summary.undefined})" if summary.undefined else ""
    if summary.mean is None:
        return f"-{count}"
    ends = f" [{summary.low:.2f}, {summary.high:.2f}]" if intervals and summary.low is not None else ""
    return f"{summary.mean:.2f}{ends}{count}"
