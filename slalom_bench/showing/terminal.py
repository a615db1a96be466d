"""The closing tables of a run: means with intervals, undefined and failed counts, cost."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.results.reading import CellResult, Group, groups, read_cell
from slalom_bench.results.statistics import Ranked, Summary
from slalom_bench.run.store import RunStore, cell_name

if TYPE_CHECKING:
    from slalom_bench.run.runner import RunResult

ARROWS = {"higher": "↑", "lower": "↓"}


def planned_groups(result: RunResult) -> list[Group]:
    """The groups of the cells that this call planned, leaving out what else the directory holds."""
    wanted = {cell_name(cell.identity) for cell in result.plan.cells}
    stores = [store for store in RunStore(result.path).cells() if store.path.name in wanted]
    order = {cell_name(cell.identity): i for i, cell in enumerate(result.plan.cells)}
    return groups([read_cell(s) for s in sorted(stores, key=lambda s: order[s.path.name])])


def summary_json(result: RunResult) -> dict[str, Any]:
    """The tables as data."""
    return {
        "run": str(result.path),
        "suite": result.suite.name,
        "explained": result.explained,
        "scored": result.scored,
        "reused": result.reused,
        "failed": result.failed,
        "interrupted": result.interrupted,
        "skips": [vars(skip) for skip in result.plan.skips],
        "groups": [
            {
                "task": dict(group.task),
                "model": dict(group.model),
                "budget": group.budget,
                **group.settings,
                "metrics": {label: [_row(ranked) for ranked in group.ranking(label)] for label in group.labels()},
                "cost": {name: mean_costs(cells) for name, cells in group.by_explainer().items()},
                "failed": {name: sum(c.failed for c in cells) for name, cells in group.by_explainer().items()},
            }
            for group in planned_groups(result)
        ],
    }


def _row(ranked: Ranked) -> dict[str, Any]:
    return {
        "explainer": ranked.name,
        **vars(ranked.summary),
        "rank": ranked.rank,
        "rank_interval": [ranked.rank_low, ranked.rank_high],
        "tied_with_best": ranked.tied_with_best,
    }


def mean_costs(cells: list[CellResult]) -> dict[str, float]:
    """Mean cost of explaining one sample, over samples and seeds."""
    parts = [cost for cell in cells if (cost := cell.mean_cost())]
    return {key: sum(part[key] for part in parts) / len(parts) for key in (parts[0] if parts else {})}


def spell(summary: Summary, best: bool, interval: bool = True) -> str:
    """`0.123* [0.10, 0.15]`, a star for the best and its ties, and how many samples are undefined."""
    if summary.mean is None:
        return f"undefined ({summary.undefined})" if summary.undefined else "-"
    text = f"{summary.mean:.3g}" + ("*" if best else "")
    if interval and summary.low is not None and summary.high is not None:
        text += f" [{summary.low:.2g}, {summary.high:.2g}]"
    if summary.undefined:
        text += f" ({summary.undefined} undef.)"
    return text


def print_tables(result: RunResult) -> None:
    """One table a group on stdout, as wide as it needs to be where that is a file; intervals where they fit."""
    import shutil
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
    console = Console(highlight=False, width=max(width, 80))
    for group in planned_groups(result):
        every = group.labels()
        labels = [label for label in every if not is_model_level(label)]
        interval = console.width >= 50 + 23 * len(labels)
        caption = _caption(group, interval) + _model_level(group, every)
        table = Table(title=group.title, title_justify="left", caption=caption, caption_justify="left")
        table.add_column("explainer", no_wrap=True)
        for label in labels:
            entry = registry.metrics.get(label.split("@")[0])
            table.add_column(f"{entry.name} {ARROWS[entry.direction]}")
        for name in ("queries", "model s", "total s", "failed"):
            table.add_column(name, justify="right")
        rankings = {label: {ranked.name: ranked for ranked in group.ranking(label)} for label in labels}
        for explainer, cells in group.by_explainer().items():
            found = [rankings[label].get(explainer) for label in labels]
            cost = mean_costs(cells)
            table.add_row(
                Text(explainer),
                *("-" if r is None else spell(r.summary, r.tied_with_best, interval) for r in found),
                f"{cost.get('queries', 0):.0f}",
                *(f"{cost.get(key, 0) + cost.get('saved_seconds', 0):.2f}" for key in ("model_seconds", "seconds")),
                str(sum(cell.failed for cell in cells)),
            )
        console.print(table)


def is_model_level(label: str) -> bool:
    """Whether a metric says something of the model, the same under every explainer."""
    return registry.metrics.get(label.split("@")[0]).level == "model"


def _model_level(group: Group, labels: list[str]) -> str:
    """Model-level metrics, every value of them, as lines under the table."""
    lines = []
    for label in filter(is_model_level, labels):
        rows = [row for cell in group.cells if label in cell.metrics for row in cell.metrics[label].rows.values()]
        names = dict.fromkeys(name for row in rows for name in row["values"])
        means = {name: mean([row["values"][name] for row in rows if name in row["values"]]) for name in names}
        lines.append(f"\n{label}: " + ", ".join(f"{name} {value:.3g}" for name, value in means.items()))
    return "".join(lines)


def _caption(group: Group, interval: bool) -> str:
    shown = "mean [95 % bootstrap interval]" if interval else "mean (intervals in the report and with --json)"
    cut = "" if group.settings["max_tokens"] is None else f", texts cut to {group.settings['max_tokens']} tokens"
    return (
        f"{shown}; * best or not separable from it (paired, Holm, 5 %); costs are per sample, as if run alone. "
        f"Content {group.task['content'][:12]} ({group.task['source']}), weights {group.model['identity'][:12]}, "
        f"protocol {group.settings['protocol']}, removal {group.settings['removal']}{cut}"
    )
