"""The report of a run: what was measured, how sure it is, what it cost, what failed, where it came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_bench.core import safe_text
from slalom_bench.core.safe_text import visible
from slalom_bench.results.boards import Board, boards
from slalom_bench.results.collect import Collected, missing_metrics, require_results
from slalom_bench.results.reading import Run
from slalom_bench.running.files import write_text
from slalom_bench.showing import markdown
from slalom_bench.showing.examples import examples
from slalom_bench.showing.page import render
from slalom_bench.showing.views import board_view, budget_plots, column, distribution_plots

NAMES = ("report.md", "report.html")


@dataclass(frozen=True)
class RunReport:
    """Everything that a report shows, before it is Markdown or a page."""

    run: Run
    collected: Sequence[Collected]
    boards: Sequence[Board]

    @classmethod
    def of(cls, run: Run) -> RunReport:
        """The report of a run as far as it is."""
        collected = require_results(run, unfinished=True)
        return cls(run, collected, boards([part.submission for part in collected]))

    @property
    def title(self) -> str:
        """The name of the run's folder."""
        return f"Report of {self.run.path.resolve().name}"

    @property
    def headline(self) -> str:
        """How much was done, and how much of it failed."""
        parts = [part.submission for part in self.collected]
        rows = [row for part in parts for row in part.rows]
        samples = sum(len(part.samples) * len(row.seeds) for part in parts for row in part.rows)
        failed = sum(row.failed for row in rows)
        trouble = f"{failed} of them failed, see below" if failed else "nothing failed"
        return f"{len(rows)} explainers and budgets, {samples} samples explained; {trouble}."

    def failures(self) -> list[dict[str, Any]]:
        """Every kind of failure once: where, which explainer, doing what, what it said, how many samples."""
        counts: Counter[tuple[str, str, str, str]] = Counter()
        for part in self.collected:
            where = f"{part.submission.task.name} · {part.submission.model.name}"
            for row, cells in part.rows():
                for failure in (failure for cell in cells for failure in cell.failures()):
                    why = visible(f"{failure.type}: {failure.message}")[:300]
                    counts[where, row.title, failure.doing, why] += 1
        keys = ("where", "who", "what", "why")
        return [dict(zip(keys, key, strict=True)) | {"count": count} for key, count in sorted(counts.items())]

    def skips(self) -> list[tuple[str, str]]:
        """What the last call left out, and metrics whose plug-in is not installed here."""
        left = [(skip["what"], skip["reason"]) for skip in self.run.calls[-1].get("skips", [])]
        left += [("scores", missing) for missing in missing_metrics(self.run)]
        return [(visible(what), visible(reason)) for what, reason in left]


def write_report(run: Run, shown: int = 2) -> tuple[Path, Path]:
    """Write `report.md` and `report.html` into the run directory.

    Args:
        run: the run, finished or not.
        shown: example texts for each task and model.

    Returns:
        The two files.
    """
    report = RunReport.of(run)
    write_text(run.path / NAMES[0], as_markdown(report))
    write_text(run.path / NAMES[1], as_html(report, shown))
    return run.path / NAMES[0], run.path / NAMES[1]


def provenance(calls: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
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


def as_markdown(report: RunReport) -> str:
    """The report as Markdown."""
    parts = [f"# {safe_text.markdown(report.title)}", report.headline, markdown.READING]
    parts += [markdown.section(board, 2) for board in report.boards]
    parts.append("## Failures")
    keys = ("where", "who", "what", "why")
    rows = [[*(safe_text.markdown(f[key]) for key in keys), str(f["count"])] for f in report.failures()]
    header = ["task · model", "explainer", "doing", "error", "samples"]
    parts.append(markdown.table(header, rows, [4]) if rows else "None.")
    if left := report.skips():
        parts.append("## Skipped")
        parts.append("\n".join(f"- {safe_text.markdown(what)}: {safe_text.markdown(why)}" for what, why in left))
    parts.append("## Provenance")
    said = provenance(report.run.calls)
    parts.append("\n".join(f"- {safe_text.markdown(name)}: {safe_text.markdown(value)}" for name, value in said))
    return "\n\n".join(parts) + "\n"


def as_html(report: RunReport, shown: int) -> str:
    """The report as one page, with so many example texts for each task and model."""
    made = report.boards
    budgets = budget_plots(made)
    shows = [
        {
            "title": f"{part.submission.task.name} · {part.submission.model.name}",
            "examples": examples(report.run, part, shown),
        }
        for part in (report.collected if shown else ())
    ]
    metrics = {(info.name, info.version): column(label, info) for b in made for label, info in b.metrics.items()}
    return render(
        "report.html",
        title=report.title,
        heading=report.title,
        lead=report.headline,
        boards=[
            {"view": board_view(board, budgets.get(board.key, ())), "strips": distribution_plots(board)}
            for board in made
        ],
        shows=[show for show in shows if show["examples"]],
        wanted=shown,
        failures=report.failures(),
        skips=report.skips(),
        provenance=provenance(report.run.calls),
        metrics=[metrics[key] for key in sorted(metrics)],
    )
