"""Small inline SVG plots: no script, no outside file, colours from the page's own variables (light and dark)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from markupsafe import Markup

from slalom_bench.showing.labels import shorten
from slalom_bench.showing.wording import number

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 480.0, 58.0, 14.0, 16.0, 40.0
LETTER = 6.9
"""About the width of a letter of a label."""
FAMILIES = ("slalom", "additive", "gradient", "lrp", "attention", "baseline")


@dataclass(frozen=True)
class Point:
    """A named mark; `row` ties it to a table row, so that filters hide both."""

    name: str
    family: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    row: str = ""


@dataclass(frozen=True)
class Series:
    """A named line; `row` as in a point."""

    name: str
    family: str
    points: Sequence[tuple[float, float]]
    row: str = ""


@dataclass(frozen=True)
class Axis:
    """From data to pixels, linear or logarithmic, with ticks at round numbers."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, *, log: bool = False, pad: float = 0.06) -> Axis:
        """An axis with room for all values between two places."""
        log = log and min(values) > 0
        ends = [math.log10(v) for v in (min(values), max(values))] if log else [min(values), max(values)]
        gap = (ends[1] - ends[0]) or (0.3 if log else max(abs(ends[0]), 1.0) * 0.2)
        return cls(ends[0] - pad * gap, ends[1] + pad * gap, start, end, log)

    def at(self, value: float) -> float:
        """The place of a value."""
        scaled = math.log10(value) if self.log else value
        width = self.high - self.low
        share = (scaled - self.low) / width if width else 0.5  # a column of equal numbers stands in the middle
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers inside the axis, seven at most."""
        if self.log:
            factors = (1,) if self.high - self.low > 2 else (1, 2, 5)
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            made = [f * 10.0**p for p in powers for f in factors]
            inside = [v for v in made if self.low <= math.log10(v) <= self.high]
            if len(inside) > 1:
                return inside[:: math.ceil(len(inside) / 7)]
            return [10.0**self.low, 10.0**self.high]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough)
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.high / step) + 1)]


def _p(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}".removesuffix(".0")


def family_class(family: str) -> str:
    """The class of the page's styles that gives a family its colour."""
    return f"f-{family}" if family in FAMILIES else "f-other"


def _svg(height: float, label: str, parts: Sequence[Markup]) -> Markup:
    body = Markup("").join(parts)
    return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _p(WIDTH), _p(height), label, body
    )


def _text(x: float, y: float, words: str, anchor: str = "start", style: str = "tick") -> Markup:
    made = Markup('<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>')
    return made.format(_p(x), _p(y), anchor, style, words)


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(_p(x1), _p(y1), _p(x2), _p(y2), style)


def _frame(
    x: Axis, y: Axis, height: float, x_label: str, y_label: str, at: Sequence[float] | None = None
) -> list[Markup]:
    """Grid lines, tick labels and the names of the axes, the vertical one on top where it can be read."""
    bottom = height - BOTTOM
    parts = [_text(0, TOP - 4, shorten(y_label, 48), style="axis")]
    for tick in y.ticks():
        parts += [_line(LEFT, y.at(tick), x.end, y.at(tick), "grid")]
        parts += [_text(LEFT - 6, y.at(tick) + 4, number(tick), "end")]
    for tick in x.ticks() if at is None else at:
        parts += [_line(x.at(tick), bottom, x.at(tick), bottom + 4, "grid")]
        parts += [_text(x.at(tick), bottom + 17, number(tick), "middle")]
    parts.append(_text((LEFT + x.end) / 2, height - 6, shorten(x_label, 40), "middle", "axis"))
    return parts


def lines(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    log_y: bool = True,
    height: float = 300,
) -> Markup:
    """One line a series with its name at its end (fidelity against deletions, quality against budget)."""
    series = [s for s in series if s.points]
    xs = sorted({x for s in series for x, _ in s.points})
    if not xs:
        return Markup("")
    series, log_y = _raised(series) if log_y else (series, False)
    ys = [y for s in series for _, y in s.points]
    room = min(165.0, LETTER * max(len(s.name) for s in series) + 12)
    x = Axis.over(xs, LEFT, WIDTH - room, log=log_x, pad=0.02)
    y = Axis.over(ys, height - BOTTOM, TOP + 8, log=log_y)
    parts = _frame(x, y, height, x_label, y_label, xs if len(xs) <= 10 else None)
    ends = _spread([y.at(s.points[-1][1]) for s in series], 14.0, TOP, height - BOTTOM + 6)
    for s, end in zip(series, ends, strict=True):
        path = " ".join(f"{_p(x.at(a))},{_p(y.at(b))}" for a, b in s.points)
        marks = Markup("").join(
            Markup('<circle cx="{}" cy="{}" r="2.4"/>').format(_p(x.at(a)), _p(y.at(b))) for a, b in s.points
        )
        last = s.points[-1]
        leader = _line(x.at(last[0]) + 4, y.at(last[1]), WIDTH - room + 8, end, "leader")
        name = _text(WIDTH - room + 10, end + 4, shorten(s.name, 23), style="name")
        group = Markup('<g class="mark {}" data-row="{}"><title>{}</title>{}<polyline points="{}"/>{}{}</g>')
        parts.append(group.format(family_class(s.family), s.row, s.name, leader, path, marks, name))
    return _svg(height, f"{y_label} against {x_label}, one line for each explainer", parts)


def _raised(series: Sequence[Series]) -> tuple[list[Series], bool]:
    """Series for a logarithmic axis: exact zeros, and what is far below nearly all the rest, stand at its foot."""
    ys = sorted(y for s in series for _, y in s.points)
    positive = [y for y in ys if y > 0]
    if ys[0] < 0 or not positive:
        return list(series), False
    foot = positive[len(positive) // 10] / 100
    if ys[0] >= foot:
        return list(series), True
    return [Series(s.name, s.family, [(x, max(y, foot)) for x, y in s.points], s.row) for s in series], True


def scatter(
    points: Sequence[Point], best: AbstractSet[str], x_label: str, y_label: str, *, height: float = 300
) -> Markup:
    """Quality against cost; the Pareto front (rows named in `best`) is joined and filled, the rest hollow."""
    if not points:
        return Markup("")
    front = sorted((i for i, p in enumerate(points) if p.row in best), key=lambda i: (points[i].x, points[i].y))
    means = [p.y for p in points]
    log_y = min(means) > 0 and max(means) / min(means) > 20
    foot = min(means) / 10 if log_y else -math.inf
    ends = [(max(p.y if p.low is None else p.low, foot), p.y if p.high is None else p.high) for p in points]
    x = Axis.over([p.x for p in points], LEFT, WIDTH - RIGHT, log=True, pad=0.12)
    y = Axis.over([*means, *(end for pair in ends for end in pair)], height - BOTTOM, TOP + 8, log=log_y)
    parts = _frame(x, y, height, x_label, y_label)
    if len(front) > 1:
        path = " ".join(f"{_p(x.at(points[i].x))},{_p(y.at(points[i].y))}" for i in front)
        parts.append(Markup('<polyline class="front" points="{}"/>').format(path))
    boxes = [(x.at(p.x) - 6, y.at(p.y) - 6, x.at(p.x) + 6, y.at(p.y) + 6) for p in points]
    order = sorted(range(len(points)), key=lambda i: (i not in front, i))
    for i in order:
        p, px, py = points[i], x.at(points[i].x), y.at(points[i].y)
        bar = _line(px, y.at(ends[i][0]), px, y.at(ends[i][1]), "whisker")
        dot = Markup('<circle cx="{}" cy="{}" r="4.5" class="{}"/>').format(
            _p(px), _p(py), "on" if i in front else "off"
        )
        label = _label(p.name, px, py, boxes)
        said = f"{p.name}: {number(p.y)} at {number(p.x)}" + (" (Pareto front)" if i in front else "")
        parts.append(
            Markup('<g class="mark {}" data-row="{}"><title>{}</title>{}{}{}</g>').format(
                family_class(p.family), p.row, said, bar, dot, label
            )
        )
    return _svg(height, f"{y_label} against {x_label}; filled points are on the Pareto front", parts)


def _label(name: str, px: float, py: float, boxes: list[tuple[float, float, float, float]]) -> Markup:
    """A name beside its point where there is room; none where it would cover another (the hover text has it)."""
    shown = shorten(name, 22)
    width = LETTER * len(shown)
    places = [(px + 8, py + 4, "start"), (px - 8, py + 4, "end"), (px, py - 9, "middle"), (px, py + 18, "middle")]
    places += [(px + x, py + y, side) for y in (-9, 17, -22, 30) for x, side in ((7, "start"), (-7, "end"))]
    for tx, ty, anchor in places:
        left = tx - {"start": 0.0, "end": width, "middle": width / 2}[anchor]
        box = (left, ty - 10, left + width, ty + 3)
        inside = box[0] >= LEFT and box[2] <= WIDTH and box[1] >= TOP
        if inside and not any(_overlap(box, other) for other in boxes):
            boxes.append(box)
            return _text(tx, ty, shown, anchor, "name")
    return Markup("")


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    # a point does not collide with the label that stands beside it
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def strips(
    rows: Sequence[tuple[str, str, Sequence[float], float | None, float | None, float | None]], x_label: str
) -> Markup:
    """Every sample's score as a dot, one line an explainer, with mean and interval: the distributions."""
    rows = [row for row in rows if row[2]]
    values = [v for row in rows for v in row[2]]
    if not values:
        return Markup("")
    step, top = 22.0, 10.0
    height = top + step * len(rows) + BOTTOM
    room = min(180.0, LETTER * max(len(row[0]) for row in rows) + 14)
    log = min(values) > 0 and max(values) / min(values) > 100
    x = Axis.over(values, room, WIDTH - RIGHT, log=log, pad=0.03)
    bottom = height - BOTTOM
    parts = [_text((room + WIDTH) / 2, height - 6, shorten(x_label, 40), "middle", "axis")]
    for tick in x.ticks():
        parts += [_line(x.at(tick), top - 4, x.at(tick), bottom, "grid")]
        parts += [_text(x.at(tick), bottom + 15, number(tick), "middle")]
    for i, (name, family, scores, mean, low, high) in enumerate(rows):
        cy = top + step * (i + 0.5)
        dots = Markup("").join(
            Markup('<circle cx="{}" cy="{}" r="2.6" class="dot"/>').format(_p(x.at(v)), _p(cy)) for v in scores
        )
        bar = Markup("") if low is None or high is None else _bar(x, low, high, cy, log)
        centre = (
            Markup("") if mean is None or (log and mean <= 0) else _line(x.at(mean), cy - 6, x.at(mean), cy + 6, "mean")
        )
        parts.append(
            Markup('<g class="mark {}"><title>{}</title>{}{}{}{}</g>').format(
                family_class(family), name, _text(room - 8, cy + 4, shorten(name, 26), "end", "name"), dots, bar, centre
            )
        )
    return _svg(height, f"{x_label} of every sample, one line for each explainer", parts)


def _bar(x: Axis, low: float, high: float, cy: float, log: bool) -> Markup:
    if log and low <= 0:
        return Markup("")
    ends = (min(max(x.at(value), x.start), x.end) for value in (low, high))  # few texts have intervals beyond any axis
    return _line(next(ends), cy, next(ends), cy, "whisker")


def whisker(low: float, mean: float, high: float, ends: tuple[float, float]) -> Markup:
    """A mean and its interval on the scale of its column, for a table cell."""
    scale = Axis.over(ends, 3, 81, log=ends[0] > 0 and ends[1] > 100 * ends[0], pad=0)
    a, m, b = (scale.at(v) for v in (low, mean, high))
    return Markup(
        '<svg class="whisk" viewBox="0 0 84 10" aria-hidden="true"><line x1="0" y1="5" x2="84" y2="5" class="grid"/>'
        '<line x1="{}" y1="5" x2="{}" y2="5" class="whisker"/><circle cx="{}" cy="5" r="3"/></svg>'
    ).format(_p(a), _p(max(b, a + 0.5)), _p(m))


def _spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near as possible to the wanted ones and at least `gap` apart, in the same order."""
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    gap = min(gap, (high - low) / max(1, len(wanted) - 1)) if len(wanted) > 1 else gap
    placed: list[float] = []
    for i in order:
        placed.append(max(wanted[i], placed[-1] + gap if placed else low))
    over = placed[-1] - high if placed else 0.0
    if over > 0:
        placed[-1] = high
        for k in range(len(placed) - 2, -1, -1):
            placed[k] = min(placed[k], placed[k + 1] - gap)
    made = [0.0] * len(wanted)
    for i, place in zip(order, placed, strict=True):
        made[i] = place
    return made
