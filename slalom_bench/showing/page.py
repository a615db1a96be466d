"""Pages as one file each: styles, script and plots inside, nothing fetched, every name escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from slalom_bench.core.safe_text import html
from slalom_bench.entries import Tier
from slalom_bench.results.boards import Board
from slalom_bench.showing import wording
from slalom_bench.showing.views import board_view, budget_plots, column

TEMPLATES = Path(__file__).parent / "templates"
GROUPS: tuple[tuple[Tier, str, str], ...] = (
    ("full", "Full models", "Models of the size that the task calls for."),
    (
        "small-pretrained",
        "Small pretrained models",
        "MiniLM, 6 layers, 384 wide, trained on as a sentence encoder, or its first layers, fine-tuned on the task: "
        "pretrained, without a hub and on a CPU.",
    ),
    (
        "embedded",
        "Embedded default",
        "The small models that ship with the package: a demonstration that runs anywhere, "
        "never mixed with full models.",
    ),
)


@cache
def environment() -> Environment:
    """Autoescape is on for every template: whatever a submission says is text."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **values: Any) -> str:
    """A page that allows its own script by hash and nothing else to run or load."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return (
        environment()
        .get_template(template)
        .render(script=Markup(script), style=Markup(style), script_hash=f"sha256-{digest}", **values)
    )


def index(boards: Sequence[Board]) -> str:
    """The leaderboard page."""
    budgets = budget_plots(boards)
    groups = []
    for tier, title, note in GROUPS:
        views = [board_view(b, budgets.get(b.key, ()), public=True) for b in boards if b.tier == tier]
        if views:
            groups.append({"title": title, "note": note, "boards": views})
    metrics = {(info.name, info.version): column(label, info) for b in boards for label, info in b.metrics.items()}
    rows = [row for board in boards for row in board.rows]
    choices = [
        ("task", sorted({board.identity.task.name for board in boards})),
        ("model", sorted({board.identity.model.name for board in boards})),
        ("family", sorted({row.family for row in rows})),
        ("protocol", sorted({board.identity.protocol for board in boards})),
    ]
    return render(
        "index.html",
        title="slalom-bench leaderboard",
        heading="Which token attribution explains a model best?",
        lead="Faithfulness, ranking quality and cost of token attributions for text classifiers, with intervals and "
        f"honest ties. Each row names the command that computes it. {wording.recomputed(rows)}",
        groups=groups,
        choices=choices,
        metrics=[metrics[key] for key in sorted(metrics)],
    )
