"""Agreement of explainers as a file and as a picture: a square of correlations, with the stability on its diagonal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slalom_bench.core.safe_text import file_name
from slalom_bench.core.types import Floats
from slalom_bench.core.writing import replacing
from slalom_bench.results.agreement import TableAgreement
from slalom_bench.running.files import write_text
from slalom_bench.showing.labels import shorten

FILE = "agreement.json"


def write_agreement(found: Sequence[TableAgreement], folder: Path) -> list[Path]:
    """Write everything as JSON, and a picture of each table with two explainers or more, into a folder."""
    made = [folder / FILE]
    write_text(made[0], json.dumps([table.to_dict() for table in found], indent=1) + "\n")
    for table in found:
        if table.pairs:
            made.append(folder / f"agreement_{file_name(*table.title.split(' · '))}.svg")
            _draw(table, made[-1])
    return made


def square(found: TableAgreement) -> tuple[list[str], Floats]:
    """The explainers, and their mean Spearman correlations; on the diagonal each one's across seeds, else nothing."""
    names = list(dict.fromkeys(name for pair in found.pairs for name in pair))
    values = np.full((len(names), len(names)), np.nan)
    for (a, b), measures in found.pairs.items():
        mean = measures["spearman"].mean
        i, j = names.index(a), names.index(b)
        values[i, j] = values[j, i] = np.nan if mean is None else mean
    for name, summary in found.stability.items():
        if name in names and summary.mean is not None:
            values[names.index(name), names.index(name)] = summary.mean
    return names, values


def _draw(found: TableAgreement, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names, values = square(found)
    side = 2.5 + 0.45 * len(names)
    figure, axes = plt.subplots(figsize=(side + 1.2, side), layout="constrained")
    image = axes.imshow(values, cmap="RdBu", vmin=-1, vmax=1)
    labels = [shorten(name, 26) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=60, ha="right", fontsize=8, parse_math=False)
    axes.set_yticks(range(len(names)), labels, fontsize=8, parse_math=False)
    _numbers(axes, values)
    axes.set_title(found.title, fontsize=10, parse_math=False)
    figure.colorbar(image, label="mean Spearman correlation (diagonal: across seeds)", shrink=0.8)
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}), replacing(path) as place:
        figure.savefig(place, format="svg", metadata={"Date": None})
    plt.close(figure)


def _numbers(axes: Any, values: Floats) -> None:
    """The value of each cell, legible on its colour."""
    for (i, j), value in np.ndenumerate(values):
        if not np.isnan(value):
            colour = "white" if abs(value) > 0.7 else "black"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
