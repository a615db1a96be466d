"""An explained text as one self-contained HTML page that puts several explainers side by side (Fig. 11)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core.safe_text import visible
from slalom_bench.core.writing import write_whole
from slalom_bench.errors import InvalidInput
from slalom_bench.showing.labels import Box, place, shorten, text_width
from slalom_bench.showing.meaning import meanings, quality
from slalom_bench.showing.shades import AGAINST, TOWARDS, Layer, columns, layers, strongest
from slalom_bench.showing.units import Reading

if TYPE_CHECKING:
    from slalom_bench.core.types import Explanation, Floats
    from slalom_bench.showing.explained import ExplainedText, Result

WIDTH, HEIGHT, LEFT, BOTTOM, EDGE, LETTER = 460.0, 360.0, 48.0, 42.0, 8.0, 12.0
"""The scatter plot in pixels."""
MINUS = "\N{MINUS SIGN}"


def page(explained: ExplainedText) -> str:
    """The whole page; every name and text in it is escaped by the template."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("slalom_bench.showing"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    reading = explained.reading()
    panels = [panel(result, reading, explained.log_odds) for result in explained.results]
    narrow = [shown for shown in panels if not shown["wide"]]
    if len(narrow) % 2:
        narrow[-1]["wide"] = True
    return environment.get_template("explain.html").render(
        model=visible(explained.model),
        target=visible(explained.target_name),
        log_odds=signed(explained.log_odds),
        probability=f"{explained.probability:.3f}",
        facts=facts(explained),
        note=visible(explained.note),
        panels=panels,
        units=units(explained, reading),
        heads=[{"explainer": visible(r.explainer), "scores": columns(e)} for r, e in explained.done],
        rows=rows(explained, reading),
        tail=reading.tail,
    )


def write_page(path: Path, content: str) -> None:
    """Write a page, or say why it cannot be written; a folder that is not there is a slip, and is not made."""
    if not path.parent.is_dir():
        raise InvalidInput(f"{path}: No such file or directory: {path.parent}")
    try:
        write_whole(path, content)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from error


def facts(explained: ExplainedText) -> list[str]:
    """What the page says of the model and the text."""
    found = [f"{len(explained.sample)} tokens", f"budget {explained.budget} queries", f"seed {explained.seed}"]
    if any(result.intervals for result in explained.results):
        found[-1] += "; in brackets, under All scores, where 95 % of other seeds' scores fall"
    if explained.sample.truncated:
        found.append(f"{explained.sample.truncated} more tokens not read")
    return found


def panel(result: Result, reading: Reading, log_odds: float) -> dict[str, Any]:
    """One explainer: the text once for each score that is shown, and for SLALOM the scatter plot."""
    shown: dict[str, Any] = {
        "explainer": visible(result.explainer),
        "reason": visible(result.reason),
        "layers": [],
        "wide": result.is_slalom,
    }
    if result.explanation is None:
        return shown
    shown["cost"] = result.spent
    shown["quality"] = quality(result.explanation, log_odds)
    meant = meanings(result.explanation)
    shown["layers"] = [
        {
            "name": part.name,
            "meaning": meant.get(part.name, ""),
            "signed": part.signed,
            "low": signed(part.low),
            "high": signed(part.high),
            "tokens": tokens(part, reading),
        }
        for part in layers(result.explanation, reading)
    ]
    shown["scatter"] = scatter(result.explanation, reading) if result.is_slalom else None
    return shown


def tokens(part: Layer, reading: Reading) -> list[dict[str, Any]]:
    """The text as coloured spans."""
    return [
        {"gap": unit.gap, "text": unit.text, "hue": part.hue(i), "strength": f"{part.strengths[i]:.3f}"}
        for i, unit in enumerate(reading.units)
    ]


def units(explained: ExplainedText, reading: Reading) -> list[dict[str, Any]]:
    """What the tooltip says of each unit: its tokens, and its scores under every explainer."""
    words = [[visible(explained.words[p]) for p in unit.positions] for unit in reading.units]
    found: list[dict[str, Any]] = [
        {"label": unit.label, "tokens": " ".join(pieces), "first": unit.positions[0] + 1, "scores": []}
        for unit, pieces in zip(reading.units, words, strict=True)
    ]
    for result, explanation in explained.done:
        for name in columns(explanation):
            values = reading.sums(explanation.scores[name])
            for unit, value in zip(found, values, strict=True):
                unit["scores"].append([visible(result.explainer), name, signed(value)])
    return found


def rows(explained: ExplainedText, reading: Reading) -> list[list[str]]:
    """Every unit with every score, for the table."""
    made = [_cells(result, e.scores[name], name, reading) for result, e in explained.done for name in columns(e)]
    return [[unit.label, *(cells[i] for cells in made)] for i, unit in enumerate(reading.units)]


def _cells(result: Result, scores: Floats, name: str, reading: Reading) -> list[str]:
    """A score of every unit, with the interval of other seeds where several were asked for."""
    cells = [signed(value) for value in reading.sums(scores)]
    if name not in result.intervals:
        return cells
    low, high = (reading.sums(side) for side in result.intervals[name].T)
    return [f"{cell} ({signed(a)} to {signed(b)})" for cell, a, b in zip(cells, low, high, strict=True)]


def signed(value: float) -> str:
    """Three digits and a sign; a real minus, so that columns line up."""
    text = f"{value:+.3f}" if 1e-3 <= abs(value) < 1e5 else f"{value:+.2e}" if value else "0"
    return text.replace("-", MINUS, 1)


def scatter(explanation: Explanation, reading: Reading) -> dict[str, Any]:
    """Value on the x axis, importance on the y axis; names beside the strongest points as far as there is room."""
    value, importance = (reading.sums(explanation.scores[name]) for name in ("value", "importance"))
    across, ups = Axis(np.append(value, 0.0), LEFT, WIDTH - EDGE), Axis(importance, HEIGHT - BOTTOM, EDGE)
    points = [(across(x), ups(y)) for x, y in zip(value, importance, strict=True)]
    once: dict[tuple[str, tuple[float, float]], int] = {}
    for i in strongest(explanation, reading, len(points)):
        once.setdefault((reading.units[i].label, points[i]), i)
    names = [shorten(reading.units[i].label) for i in once.values()]
    chosen = [points[i] for i in once.values()]
    boxes = place(chosen, [(text_width(n, LETTER), LETTER + 2) for n in names], Box(LEFT, EDGE, WIDTH, HEIGHT - BOTTOM))
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "zero": across(0.0),
        "left": LEFT,
        "right": WIDTH - EDGE,
        "top": EDGE,
        "bottom": HEIGHT - BOTTOM,
        "points": [
            {"x": x, "y": y, "hue": TOWARDS if v > 0 else AGAINST} for (x, y), v in zip(points, value, strict=True)
        ],
        "labels": [
            {"text": name, **beside(point[0], box), "y": (box.bottom + box.top) / 2}
            for name, point, box in zip(names, chosen, boxes, strict=True)
            if box is not None
        ],
        "x_ticks": [{"at": across(t), "text": tick_text(t)} for t in ticks(across.low, across.high)],
        "y_ticks": [{"at": ups(t), "text": tick_text(t)} for t in ticks(ups.low, ups.high)],
    }


def beside(x: float, box: Box) -> dict[str, Any]:
    """A label's anchor: the end that is near its point, so that a wide font grows away from it."""
    if box.left > x:
        return {"x": box.left, "anchor": "start"}
    return {"x": box.right, "anchor": "end"} if box.right < x else {"x": (box.left + box.right) / 2, "anchor": "middle"}


class Axis:
    """A linear scale from the range of some numbers, with a margin, to pixels."""

    def __init__(self, values: Floats, start: float, end: float) -> None:
        span = float(values.max() - values.min()) or 1.0
        self.low, self.high = float(values.min()) - 0.08 * span, float(values.max()) + 0.08 * span
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        """Where a value stands, in pixels."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)


def ticks(low: float, high: float, about: int = 5) -> Sequence[float]:
    """Round numbers (steps of 1, 2 or 5 times a power of ten) inside a range."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def tick_text(value: float) -> str:
    """A tick's number, short."""
    return f"{value:.6g}".replace("-", MINUS)
