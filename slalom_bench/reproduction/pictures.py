"""Figures of single texts: value against importance of every token, and tokens coloured by each explainer."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from markupsafe import Markup

from slalom_bench.core.types import Sample
from slalom_bench.reproduction.entry import Entry
from slalom_bench.results.collect import require_results
from slalom_bench.results.reading import Run
from slalom_bench.showing.examples import examples
from slalom_bench.showing.units import read

TEXTS = 1
"""Texts that a map shows of each task and model."""


def maps(entry: Entry, run: Run) -> list[dict[str, Any]]:
    """The texts of a map entry under every explainer."""
    if entry.layout.kind != "map":
        return []
    return [
        {"title": f"{part.submission.task.name} · {part.submission.model.name}", "examples": examples(run, part, TEXTS)}
        for part in require_results(run)
    ]


def scatters(entry: Entry, run: Run) -> list[tuple[str, Markup]]:
    """Value against importance of the first text of every cell whose explanation has both."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from slalom_bench.showing.plots import SETTINGS, name_points, scatter

    made = []
    for cell in run.cells:
        texts = run.texts(cell.identity)
        found = next(((s, e) for s, e in cell.explained().items() if "importance" in e.scores and s in texts), None)
        if found is None:
            continue
        row, explanation = texts[found[0]], found[1]
        sample = Sample(row["id"], np.arange(len(row["tokens"])), row["text"], row["offsets"])
        reading = read(sample, row["tokens"])
        title = f"{cell.identity.model.name} · {cell.identity.explainer.title}"
        with mpl.rc_context(SETTINGS):
            drawn = Figure(figsize=(8, 5), layout="constrained")
            FigureCanvasAgg(drawn)
            axes = drawn.add_subplot()
            scatter(axes, explanation, reading, "", "class 1")  # the page has the title
            drawn.draw_without_rendering()
            name_points(axes, explanation, reading)
            text = io.StringIO()
            drawn.savefig(text, format="svg", metadata={"Date": None})
        svg = text.getvalue()[text.getvalue().index("<svg") :].replace("<svg", '<svg class="plot"', 1)
        made.append((title, Markup(svg)))  # our own drawing, text escaped
    return made
