"""An explained text as a figure: value against importance for SLALOM (Fig. 5, 12), bars for every explainer."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core.writing import replacing
from slalom_bench.errors import InvalidInput
from slalom_bench.showing.labels import Box, place, shorten
from slalom_bench.showing.shades import contribution, strongest
from slalom_bench.showing.units import Reading

if TYPE_CHECKING:
    from slalom_bench.core.types import Explanation, Floats
    from slalom_bench.showing.explained import ExplainedText, Result

FORMATS = (".svg", ".png", ".pdf")
TOWARDS, AGAINST, MUCH = "#2a78d0", "#d9661f", "#7a46b8"
INK, FAINT = "#26262b", "#c9c9cf"
BARS = 15
FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Devanagari", "Noto Emoji")
"""In this order, each for the characters that those before it lack, as far as they are installed."""
SETTINGS = {
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "slalom-bench",
    "axes.edgecolor": FAINT,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def save_plot(explained: ExplainedText, path: Path) -> None:
    """Every explanation in one figure; the format is the file's ending. Text in an SVG stays text."""
    import matplotlib as mpl
    from matplotlib import font_manager

    check_path(path)
    installed = set(font_manager.get_font_names())
    fonts = {"font.family": [name for name in FONTS if name in installed]}
    with mpl.rc_context(SETTINGS | fonts), warnings.catch_warnings():
        # a script that no installed font has is drawn as boxes in PNG and PDF; an SVG leaves it to the viewer
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing")
        warnings.filterwarnings("ignore", message=r"(?s).*does not support .* natively")
        drawn = figure(explained)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        try:
            with replacing(path) as draft:
                drawn.savefig(draft, format=path.suffix.lower()[1:], dpi=160, metadata=metadata)
        except OSError as error:
            raise InvalidInput(f"--plot {path}: {error.strerror or error}") from error


def check_path(path: Path) -> None:
    """Refuse a bad file name before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidInput(f"--plot {path}: the file must end in {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise InvalidInput(f"--plot {path}: there is no folder {path.parent}")


def figure(explained: ExplainedText) -> Any:
    """SLALOM explainers first, each a scatter plot beside its bars; then the others' bars, two in a row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    reading = explained.reading()
    slalom = [pair for pair in explained.done if pair[0].is_slalom]
    others = [pair for pair in explained.done if not pair[0].is_slalom]
    wide = bool(slalom) or len(others) > 1
    low = 0.8 + 0.24 * min(BARS, len(reading.units))
    heights = [4.4] * len(slalom) + [low] * -(-len(others) // (2 if wide else 1))
    drawn = Figure(figsize=(11 if wide else 6, sum(heights) + 0.7), layout="constrained")
    FigureCanvasAgg(drawn)
    drawn.suptitle(
        f"{explained.model}: log-odds of {explained.target_name} {explained.log_odds:+.2f}",
        x=0.01,
        ha="left",
        fontsize=11,
        fontweight="bold",
        parse_math=False,
    )
    columns = 6 if wide else 3
    grid = drawn.add_gridspec(len(heights), columns, height_ratios=heights)
    scatters = []
    for row, (result, explanation) in enumerate(slalom):
        scatters.append((drawn.add_subplot(grid[row, :4]), explanation))
        scatter(scatters[-1][0], explanation, reading, result.explainer, explained.target_name)
        bars(drawn.add_subplot(grid[row, 4:]), result, explanation, reading, "")
    for i, (result, explanation) in enumerate(others):
        row, first = len(slalom) + 3 * i // columns, 3 * i % columns
        bars(drawn.add_subplot(grid[row, first : first + 3]), result, explanation, reading, result.explainer)
    drawn.draw_without_rendering()
    for axes, explanation in scatters:
        name_points(axes, explanation, reading)
    return drawn


def sign_colours(scores: Floats, unsigned: bool) -> list[str]:
    """A colour for each score, by its sign."""
    return [MUCH if unsigned else TOWARDS if score > 0 else AGAINST for score in scores]


def scatter(axes: Any, explanation: Explanation, reading: Reading, title: str, target: str) -> None:
    """Value on the x axis, importance on the y axis, one point a unit."""
    value, importance = (reading.sums(explanation.scores[name]) for name in ("value", "importance"))
    axes.axvline(0.0, color=FAINT, linewidth=1, zorder=0)
    axes.scatter(value, importance, s=22, c=sign_colours(value, False), alpha=0.75, linewidths=0)
    axes.margins(0.12)
    axes.set_xlabel(f"value (below 0 against {target}, above 0 towards it)", parse_math=False)
    axes.set_ylabel("importance")
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", parse_math=False)


def name_points(axes: Any, explanation: Explanation, reading: Reading) -> None:
    """Names beside as many points as there is room for, the strongest first, each token once."""
    value, importance = (reading.sums(explanation.scores[name]) for name in ("value", "importance"))
    places: dict[tuple[str, float, float], int] = {}
    for i in strongest(explanation, reading, len(reading.units)):
        places.setdefault((reading.units[i].label, round(value[i], 9), round(importance[i], 9)), i)
    chosen = list(places.values())
    points = axes.transData.transform(np.column_stack([value, importance])[chosen])
    renderer = axes.figure.canvas.get_renderer()
    made = [axes.text(0, 0, shorten(reading.units[i].label), parse_math=False, fontsize=8) for i in chosen]
    sizes = [(box.width + 2, box.height) for box in (text.get_window_extent(renderer) for text in made)]
    area = axes.get_window_extent(renderer)
    boxes = place([tuple(point) for point in points], sizes, Box(area.x0, area.y0, area.x1, area.y1))
    for text, box in zip(made, boxes, strict=True):
        if box is None:
            text.remove()
            continue
        x, y = axes.transData.inverted().transform(((box.left + box.right) / 2, (box.bottom + box.top) / 2))
        text.set(position=(x, y), ha="center", va="center")


def bars(axes: Any, result: Result, explanation: Explanation, reading: Reading, title: str) -> None:
    """The units that contribute most, the strongest on top; lines are where 95 % of other seeds' scores fall."""
    chosen, name = strongest(explanation, reading, BARS), contribution(explanation)
    scores = reading.sums(explanation.scores[name])[chosen]
    colours = sign_colours(scores, name in explanation.unsigned)
    axes.barh(np.arange(len(chosen)), scores, color=colours, height=0.72)
    if name in result.intervals:
        low, high = (reading.sums(side)[chosen] for side in result.intervals[name].T)
        axes.hlines(np.arange(len(chosen)), low, high, color=INK, linewidth=1, gid="seeds")
    axes.axvline(0.0, color=FAINT, linewidth=1, zorder=0)
    axes.set_yticks(np.arange(len(chosen)), [shorten(reading.units[i].label) for i in chosen], parse_math=False)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(f"{name} (log-odds)" if name == "removal" else name)
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", parse_math=False)
