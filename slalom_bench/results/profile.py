"""The runtime profile of a suite: what each explainer costs at each budget, and what that cost buys (F.6, Table 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.results.reading import CellResult, read_cell
from slalom_bench.results.statistics import summarise
from slalom_bench.run.plan import Cell
from slalom_bench.run.profiling import machine_fingerprint, pareto_front, profile_explainer
from slalom_bench.run.progress import Reporter
from slalom_bench.run.store import RunStore, cell_name, read_json, write_json

if TYPE_CHECKING:
    from slalom_bench.run.runner import RunResult

FILE = "profile.json"


def profile_run(
    result: RunResult, reporter: Reporter, *, samples: int = 3, warmup: int = 1, replicates: int = 3
) -> list[dict[str, Any]]:
    """Profile every cell of a finished run, one alone at a time; what this machine has profiled before is reused."""
    store = RunStore(result.path)
    machine = machine_fingerprint()
    cells = [cell for cell in result.plan.cells if cell.seed == result.suite.seeds[0]]
    rows = []
    with reporter.running(len(cells), len(cells)):
        for cell in cells:
            path = store.path / "cells" / cell_name(cell.identity) / FILE
            wanted = {"machine": machine["id"], "samples": samples, "warmup": warmup, "replicates": replicates}
            done = path.exists() and read_json(path).get("settings") == wanted
            reporter.cell(f"profile {cell.title}", 0 if done else 1, 1)
            if not done:
                measured = _measure(cell, samples, warmup, replicates)
                write_json(path, {"settings": wanted, "machine": machine, **measured})
                reporter.sample(1, 1)
            rows.append(_row(cell, read_json(path), read_cell(store.cell(cell.identity))))
            reporter.cell_done()
    write_json(store.path / FILE, {"machine": machine, "rows": rows})
    return rows


def _measure(cell: Cell, samples: int, warmup: int, replicates: int) -> dict[str, Any]:
    classifier = cell.subject.classifier
    texts = [classifier.encode(e, cell.identity["max_tokens"]) for e in cell.subject.examples[:samples]]
    return profile_explainer(
        classifier, cell.make_explainer(), texts, cell.budget, seed=cell.seed, warmup=warmup, replicates=replicates
    )


def _row(cell: Cell, profile: Mapping[str, Any], stored: CellResult) -> dict[str, Any]:
    """One line of the table: identity, cost, and the mean of every metric's headline value."""
    row: dict[str, Any] = {
        "task": cell.identity["task"]["name"],
        "model": cell.identity["model"]["name"],
        "explainer": stored.explainer,
        "budget": cell.budget,
        "seconds": profile["seconds"]["median"],
        "seconds_low": profile["seconds"]["low"],
        "seconds_high": profile["seconds"]["high"],
        "model_seconds": profile["model_seconds"]["median"],
        "outside_seconds": profile["outside_seconds"]["median"],
    }
    for key in ("queries", "forwards", "backwards", "tokens", "padding_share"):
        row[key] = profile[key]
    row["peak_memory_mb"] = profile["memory"]["peak"] / 1e6
    row["memory_kind"] = profile["memory"]["kind"]
    row["quality"] = {
        label: vars(summarise(stored.values(label, headline(label)).values())) for label in stored.metrics
    }
    return row


def headline(label: str) -> str:
    return str(registry.metrics.get(label.split("@")[0]).headline)


def profile_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of appendix F.6 in Markdown, with what it lacked."""
    from tabulate import tabulate

    labels = list(dict.fromkeys(label for row in rows for label in row["quality"]))
    head = [
        "task",
        "model",
        "explainer",
        "budget",
        "seconds (median)",
        "quartiles",
        "in model",
        "outside",
        "queries",
        "forwards",
        "backwards",
        "tokens",
        "padding",
        "peak MB",
        *labels,
    ]
    body = []
    for row in rows:
        means = [row["quality"].get(label, {}).get("mean") for label in labels]
        body.append(
            [
                row["task"],
                row["model"],
                row["explainer"],
                row["budget"],
                f"{row['seconds']:.3f}",
                f"{row['seconds_low']:.3f} to {row['seconds_high']:.3f}",
                f"{row['model_seconds']:.3f}",
                f"{row['outside_seconds']:.3f}",
                f"{row['queries']:.0f}",
                f"{row['forwards']:.0f}",
                f"{row['backwards']:.0f}",
                f"{row['tokens']:.0f}",
                f"{100 * row['padding_share']:.1f} %",
                f"{row['peak_memory_mb']:.0f}",
                *("" if mean is None else f"{mean:.4g}" for mean in means),
            ]
        )
    return tabulate(body, headers=head, tablefmt="github", disable_numparse=True)


def profile_plots(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Quality against seconds and against queries, a file for each task, model and metric; Pareto points are ringed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    places = dict.fromkeys((row["task"], row["model"], label) for row in rows for label in row["quality"])
    for task, model, label in places:
        chosen = [
            row
            for row in rows
            if (row["task"], row["model"]) == (task, model) and row["quality"].get(label, {}).get("mean") is not None
        ]
        if not chosen:
            continue
        direction = registry.metrics.get(label.split("@")[0]).direction
        figure, axes = plt.subplots(1, 2, figsize=(11, 5), sharey=True, layout="constrained")
        for axis, cost in zip(axes, ("seconds", "queries"), strict=True):
            _panel(axis, chosen, label, cost, direction)
            axis.set_xlabel(f"{cost} per text")
        axes[0].set_ylabel(f"{label} ({direction} is better)")
        axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
        figure.suptitle(f"{task} · {model}")
        path = folder / f"{task}_{model}_{label}.svg".replace(":", "-").replace("/", "-")
        with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}):
            figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        made.append(path)
    return made


def _panel(axis: Any, rows: Sequence[Mapping[str, Any]], label: str, cost: str, direction: str) -> None:
    """One line per explainer over its budgets; the points that no other beats are ringed."""
    points = {f"{row['explainer']} {row['budget']}": (row[cost], row["quality"][label]["mean"]) for row in rows}
    for number, name in enumerate(dict.fromkeys(row["explainer"] for row in rows)):
        own = sorted((row[cost], row["quality"][label]["mean"]) for row in rows if row["explainer"] == name)
        marker = "osv^D<>pX*P"[number % 11]
        axis.plot(*zip(*own, strict=True), marker=marker, label=name, color=f"C{number % 10}", linewidth=1)
    best = [points[name] for name in pareto_front(points, direction)]
    axis.scatter(*zip(*best, strict=True), s=160, facecolors="none", edgecolors="black", label="Pareto front", zorder=3)
    axis.set_xscale("log")
    axis.grid(alpha=0.3)
