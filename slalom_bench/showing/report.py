"""The report of a run: what was measured, how sure it is, what it cost, what failed, where it came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slalom_bench.results.boards import Board, boards
from slalom_bench.results.collect import NOT_EXPLAINED, Collected, collect, run_calls
from slalom_bench.run.store import write_text
from slalom_bench.showing import markdown
from slalom_bench.showing.examples import examples
from slalom_bench.showing.page import render
from slalom_bench.showing.units import visible
from slalom_bench.showing.views import board_view, budget_plots, column, distribution_plots

NAMES = ("report.md", "report.html")


def write_report(run: Path, shown: int = 2) -> tuple[Path, Path]:
    """`report.md` and `report.html` in the run directory, with `shown` example texts for each task and model."""
    collected = collect(run, unfinished=True)
    calls = run_calls(run)
    made = boards([c.submission for c in collected])
    write_text(run / NAMES[0], as_markdown(run, collected, made, calls))
    write_text(run / NAMES[1], as_html(run, collected, made, calls, shown))
    return run / NAMES[0], run / NAMES[1]


def failures(collected: Sequence[Collected]) -> list[dict[str, Any]]:
    """Every kind of failure once: which explainer and metric, what it said, how often."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for part in collected:
        where = f"{part.submission.task.name} · {part.submission.model.name}"
        for entry, cells in zip(part.submission.entries, part.cells, strict=True):
            who = f"{entry.title}, budget {entry.budget}"
            for cell in cells:
                tables = [("explaining", cell.explanations)]
                tables += [(label, metric.rows) for label, metric in cell.metrics.items()]
                for what, rows in tables:
                    for row in rows.values():
                        if (error := row.get("error")) and error["type"] != NOT_EXPLAINED:
                            counts[where, who, what, visible(f"{error['type']}: {error['message']}")[:300]] += 1
    keys = ("where", "who", "what", "why")
    return [dict(zip(keys, key, strict=True)) | {"count": count} for key, count in sorted(counts.items())]


def provenance(calls: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The last call's record, flat; the machine and packages of a run are those of its calls."""
    last = calls[-1]
    machine = last["machine"]
    found = [
        ("command", " ".join(last["command"]) or "called from Python"),
        ("suite", last["suite"]["name"]),
        ("calls", f"{len(calls)}, the first {calls[0]['started']}, the last until {last.get('ended', 'unfinished')}"),
        (
            "slalom-bench",
            f"{last['slalom_bench']}, revision {last['git']['revision'] or 'of an installed package'}"
            + (" with uncommitted changes" if last["git"]["dirty"] else ""),
        ),
        ("machine", f"{machine['model']}, {machine['count']} on {machine['device']}, {machine['threads']} threads"),
        ("python", f"{last['python']}, {last['platform']}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in last["packages"].items() if version)),
    ]
    for source in last["sources"]:
        said = source["source"]
        found.append(
            (
                f"{source['task']} · {source['model']}",
                f"texts: {said['kind']} {said['name']}, content {said['content_hash']}; weights {source['weights']}, "
                f"{source['dtype']} on {source['device']}" + (f"; {source['note']}" if source.get("note") else ""),
            )
        )
    return [(visible(name), visible(value)) for name, value in found]


def skips(calls: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(visible(skip["what"]), visible(skip["reason"])) for skip in calls[-1].get("skips", [])]


def headline(collected: Sequence[Collected], failed: Sequence[dict[str, Any]]) -> str:
    rows = sum(len(part.submission.entries) for part in collected)
    samples = sum(len(part.submission.samples) * len(e.seeds) for part in collected for e in part.submission.entries)
    count = sum(f["count"] for f in failed)
    trouble = f"; {count} failures, listed below" if count else "; nothing failed"
    return f"{rows} explainers and budgets, {samples} samples explained{trouble}."


def as_markdown(run: Path, collected: Sequence[Collected], made: Sequence[Board], calls: list[dict[str, Any]]) -> str:
    failed = failures(collected)
    parts = [f"# Report of {markdown.escape(run.resolve().name)}", headline(collected, failed), markdown.READING]
    parts += [markdown.section(board, 2) for board in made]
    parts.append("## Failures")
    rows = [[*(markdown.escape(f[key]) for key in ("where", "who", "what", "why")), str(f["count"])] for f in failed]
    header = ["task · model", "explainer", "doing", "error", "samples"]
    parts.append(markdown.table(header, rows, [4]) if rows else "None.")
    if left := skips(calls):
        parts.append("## Skipped")
        parts.append("\n".join(f"- {markdown.escape(what)}: {markdown.escape(why)}" for what, why in left))
    parts.append("## Provenance")
    parts.append("\n".join(f"- {markdown.escape(name)}: {markdown.escape(value)}" for name, value in provenance(calls)))
    return "\n\n".join(parts) + "\n"


def as_html(
    run: Path, collected: Sequence[Collected], made: Sequence[Board], calls: list[dict[str, Any]], shown: int
) -> str:
    budgets = budget_plots(made)
    failed = failures(collected)
    sources = [source for call in calls for source in call["sources"]]
    shows = [
        {
            "title": f"{part.submission.task.name} · {part.submission.model.name}",
            "examples": examples(run, part, shown, sources),
        }
        for part in collected
    ]
    metrics = {(info.name, info.version): column(label, info) for b in made for label, info in b.metrics.items()}
    return render(
        "report.html",
        title=f"Report of {run.resolve().name}",
        heading=f"Report of {run.resolve().name}",
        lead=headline(collected, failed),
        boards=[
            {"view": board_view(board, budgets.get(board.key, ())), "strips": distribution_plots(board)}
            for board in made
        ],
        shows=[show for show in shows if show["examples"]] if shown else [],
        wanted=shown,
        failures=failed,
        skips=skips(calls),
        provenance=provenance(calls),
        metrics=[metrics[key] for key in sorted(metrics)],
    )
