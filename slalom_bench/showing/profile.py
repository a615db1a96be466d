"""A runtime profile as a table and as plots of quality against cost (F.6, Table 14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from slalom_bench.core.writing import replacing
from slalom_bench.results.profile import ProfileRow
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.profiling import pareto_front

COLUMNS: dict[str, Callable[[ProfileRow], str]] = {
    "explainer, budget": lambda row: f"{row.explainer}, {row.budget}",
    "seconds (median)": lambda row: f"{row.seconds:.3f}",
    "quartiles": lambda row: f"{row.seconds_low:.3f} to {row.seconds_high:.3f}",
    "in model": lambda row: f"{row.model_seconds:.3f}",
    "outside": lambda row: f"{row.outside_seconds:.3f}",
    "queries": lambda row: f"{row.queries:.0f}",
    "forwards": lambda row: f"{row.forwards:.0f}",
    "backwards": lambda row: f"{row.backwards:.0f}",
    "tokens": lambda row: f"{row.tokens:.0f}",
    "padding": lambda row: f"{100 * row.padding_share:.1f} %",
    "peak MB": lambda row: f"{row.peak_memory_mb:.0f}",
}
MARKERS = "osv^D<>pX*P"


def profile_table(rows: Sequence[ProfileRow]) -> str:
    """The table of appendix F.6 in Markdown, with what it lacked."""
    from tabulate import tabulate

    where = ["task", "model"], *([row.task, row.model] for row in rows)
    head, *body = [[*place, *cells] for place, cells in zip(where, spelled(rows), strict=True)]
    return tabulate(body, headers=head, tablefmt="github", disable_numparse=True)


def spelled(rows: Sequence[ProfileRow]) -> list[list[str]]:
    """The headings, and a line for each row: its costs, then its metrics."""
    labels = list(dict.fromkeys(label for row in rows for label in row.quality))
    lines = [[*COLUMNS, *map(str, labels)]]
    for row in rows:
        means = [_mean(row, label) for label in labels]
        costs = [spell(row) for spell in COLUMNS.values()]
        lines.append([*costs, *("" if mean is None else f"{mean:.4g}" for mean in means)])
    return lines


def _mean(row: ProfileRow, label: MetricLabel) -> float | None:
    return row.quality[label].result.mean if label in row.quality else None


def profile_plots(rows: Sequence[ProfileRow], folder: Path) -> list[Path]:
    """Quality against seconds and against queries, a file for each task, model and metric; Pareto points are ringed."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for task, model, label in dict.fromkeys((row.task, row.model, label) for row in rows for label in row.quality):
        own = [row for row in rows if (row.task, row.model) == (task, model)]
        chosen = [row for row in own if _mean(row, label) is not None]
        if chosen:
            path = folder / f"{task}_{model}_{label}.svg".replace(":", "-").replace("/", "-")
            _draw(chosen, label, f"{task} · {model}", path)
            made.append(path)
    return made


def _draw(rows: Sequence[ProfileRow], label: MetricLabel, title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    direction = rows[0].quality[label].info.direction
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), sharey=True, layout="constrained")
    for axis, cost in zip(axes, ("seconds", "queries"), strict=True):
        _panel(axis, rows, label, cost, direction)
        axis.set_xlabel(f"{cost} per text")
    axes[0].set_ylabel(f"{label} ({direction} is better)")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    figure.suptitle(f"{title}\nmean with its 95 % interval, median seconds with quartiles")
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}), replacing(path) as place:
        figure.savefig(place, format="svg", metadata={"Date": None})
    plt.close(figure)


def _panel(axis: Any, rows: Sequence[ProfileRow], label: MetricLabel, cost: str, direction: str) -> None:
    """One line per explainer over its budgets, with intervals of the quality and quartiles of the time.

    The points that no other beats are ringed.
    """
    places = [(row, (float(getattr(row, cost)), _mean(row, label) or 0.0)) for row in rows]
    for i, name in enumerate(dict.fromkeys(row.explainer for row in rows)):
        own = sorted(place for row, place in places if row.explainer == name)
        marker = MARKERS[i % len(MARKERS)]
        axis.plot(*zip(*own, strict=True), marker=marker, label=name, color=f"C{i % 10}", linewidth=1)
        for row, place in places:
            if row.explainer == name:
                _whiskers(axis, row, label, cost, place, f"C{i % 10}")
    points = {f"{row.explainer} {row.budget}": place for row, place in places}
    best = [points[name] for name in pareto_front(points, direction)]
    axis.scatter(*zip(*best, strict=True), s=160, facecolors="none", edgecolors="black", label="Pareto front", zorder=3)
    axis.set_xscale("log")
    axis.grid(alpha=0.3)


def _whiskers(
    axis: Any, row: ProfileRow, label: MetricLabel, cost: str, place: tuple[float, float], colour: str
) -> None:
    """The 95 % interval of a mean, and the quartiles of seconds; queries are counted and have none."""
    x, y = place
    found = row.quality[label].result
    if found.low is not None and found.high is not None:
        axis.vlines(x, found.low, found.high, color=colour, linewidth=1, gid="interval")
    if cost == "seconds":
        axis.hlines(y, row.seconds_low, row.seconds_high, color=colour, linewidth=1, gid="quartiles")
