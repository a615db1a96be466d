"""`slalom-bench removals`: do the removal rules agree on which explainer is best?"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slalom_bench.results.removal_agreement import RuleAgreement


def removals_command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, of two removal rules or more.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON on stdout.")] = False,
) -> None:
    """Rank correlations of the explainers between removal rules, for every metric.

    Deleting tokens also moves the others (see the metric position-shift), so a ranking under `delete` is read beside
    the one under `gap`, `mask` or `pad`. Runs of the same task, model, budget and explainers are compared on the
    samples that have scores under both rules.

    Examples:

      slalom-bench run --task imdb --model mini-bert --removal delete --out runs/delete

      slalom-bench run --task imdb --model mini-bert --removal gap --out runs/gap

      slalom-bench removals runs/delete runs/gap
    """
    from slalom_bench.results.reading import read_run
    from slalom_bench.results.removal_agreement import removal_agreement

    found = removal_agreement([read_run(run) for run in runs])
    if as_json:
        typer.echo(json.dumps([agreement.to_dict() for agreement in found]))
        return
    for title, agreements in groupby(found, key=lambda agreement: agreement.table):
        _show(title, list(agreements))


def _show(title: str, agreements: Sequence[RuleAgreement]) -> None:
    """A row for each metric and pair of rules; reasons stand below."""
    from slalom_bench.core.safe_text import line
    from slalom_bench.showing.columns import print_table
    from slalom_bench.showing.comparing import RULES_COLUMNS, rules_rows

    typer.echo(f"\n{line(title)}\nrank correlation of the explainers' means between removal rules")
    rows = rules_rows(agreements)
    reasons = []
    for row, found in zip(rows, agreements, strict=True):
        if found.reason:
            reasons.append(f"{row[0]}, {row[1]}: {found.reason}")
            row[3] = "-"
    print_table(RULES_COLUMNS, rows, RULES_COLUMNS[2:5])
    for reason in reasons:
        typer.echo(line(reason))
