"""An explained text on a terminal: coloured tokens and a table of the strongest; plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from slalom_bench.core.safe_text import visible
from slalom_bench.showing.meaning import meanings, quality
from slalom_bench.showing.shades import AGAINST, MUCH, TOWARDS, Layer, columns, contribution, layers, strongest
from slalom_bench.showing.units import Reading

if TYPE_CHECKING:
    from slalom_bench.core.types import Explanation, Floats
    from slalom_bench.showing.explained import ExplainedText, Result

HUES = {TOWARDS: (20, 100, 215), AGAINST: (205, 80, 5), MUCH: (120, 55, 195)}
LETTERS = {TOWARDS: (80, 145, 235), AGAINST: (225, 120, 50), MUCH: (160, 110, 225)}
FAINT, WEAK = 0.06, 0.25
"""Below the first strength a token keeps the terminal's own colours, below the second its own background."""
BAR = 12


def show(explained: ExplainedText, console: Console, top: int = 10) -> None:
    """Print everything. Without colours the text stands once, and the scores are in the tables."""
    reading = explained.reading()
    console.print(heading(explained), soft_wrap=True)
    if explained.note:
        console.print(Text(visible(explained.note), "yellow"), soft_wrap=True)
    has_colour = console.color_system is not None
    if not has_colour:
        console.print(Text("".join([unit.gap + unit.text for unit in reading.units]) + reading.tail), soft_wrap=True)
    for result in explained.results:
        console.print()
        for part in section(explained, result, reading, top, has_colour):
            console.print(part, soft_wrap=not has_colour and isinstance(part, Text))


def heading(explained: ExplainedText) -> Text:
    """What was explained: class, probability, log-odds, model."""
    count = f"{len(explained.sample)} tokens"
    cut = f", {explained.sample.truncated} more not read" if explained.sample.truncated else ""
    return Text.assemble(
        (visible(explained.model), "bold"),
        f"  log-odds of {visible(explained.target_name)} {explained.log_odds:+.3f}"
        f"  (probability {explained.probability:.3f})  ",
        (count + cut, "dim"),
    )


def section(
    explained: ExplainedText, result: Result, reading: Reading, top: int, has_colour: bool
) -> list[RenderableType]:
    """One explainer: its name and cost, the coloured text for each score shown, the strongest tokens."""
    name = Text(visible(result.explainer), "bold")
    if result.explanation is None:
        return [name.append(f"  not run: {visible(result.reason)}", "not bold yellow")]
    parts: list[RenderableType] = [name.append(f"  {result.spent}", "not bold dim")]
    for shown in layers(result.explanation, reading) if has_colour else ():
        parts += [legend(shown, explained.target_name), Padding(coloured(shown, reading), (0, 0, 0, 2))]
    if top:
        parts.append(table(result, result.explanation, reading, top))
        parts += [Padding(Text(line, "dim"), (0, 0, 0, 2)) for line in said(result.explanation, explained.log_odds)]
    return parts


def style(hue: str, strength: float) -> Style:
    """Coloured letters, then white letters on a background from grey to the full hue: on dark and light terminals."""
    if strength < FAINT:
        return Style()
    if strength < WEAK:
        return Style(color=rgb(LETTERS[hue]))
    return Style(color="rgb(255,255,255)", bgcolor=rgb([round(120 + (part - 120) * strength) for part in HUES[hue]]))


def rgb(parts: Sequence[int]) -> str:
    """A colour as a terminal takes it."""
    return f"rgb({parts[0]},{parts[1]},{parts[2]})"


def legend(shown: Layer, target: str) -> Text:
    """The name of a score and its scale."""
    swatch = [0.3, 0.65, 1.0]
    out = Text.assemble((f"  {shown.name}  ", "italic"))
    if not shown.signed:
        out.append(f"{shown.low:+.3g} ")
        for strength in swatch:
            out.append("  ", style(MUCH, strength))
        return out.append(f" {shown.high:+.3g}")
    out.append(f"against {visible(target)} {shown.low:+.3g} ")
    for strength in reversed(swatch):
        out.append("  ", style(AGAINST, strength))
    for strength in swatch:
        out.append("  ", style(TOWARDS, strength))
    return out.append(f" {shown.high:+.3g} towards it")


def coloured(shown: Layer, reading: Reading) -> Text:
    """The text itself, every unit on the colour of its score; nothing in it is read as markup."""
    out = Text()
    for i, unit in enumerate(reading.units):
        out.append(unit.gap)
        out.append(unit.text, style(shown.hue(i), float(shown.strengths[i])))
    return out.append(reading.tail, "dim")


def table(result: Result, explanation: Explanation, reading: Reading, top: int) -> Table:
    """The units that contribute most with their scores, what other seeds say, and a bar."""
    chosen, main = strongest(explanation, reading, top), contribution(explanation)
    sums = {name: reading.sums(explanation.scores[name]) for name in columns(explanation)}
    primary = sums[main]
    largest = float(abs(primary).max()) or 1.0
    ends = None if main not in result.intervals else [reading.sums(side) for side in result.intervals[main].T]
    out = Table(box=None, padding=(0, 0, 0, 2))
    out.add_column("token", no_wrap=True, max_width=24)
    for name in sums:
        out.add_column(name, justify="right")
        if name == main and ends is not None:
            out.add_column("other seeds, 95 %", justify="right")
    out.add_column("", no_wrap=True)
    for i in chosen:
        hue = MUCH if main in explanation.unsigned else TOWARDS if primary[i] > 0 else AGAINST
        length = BAR * abs(primary[i]) / largest
        bar = Text("█" * int(length) + "▌" * int(length % 1 > 0.25), Style(color=rgb(LETTERS[hue])))
        cells = [number(values[i], values) for values in sums.values()]
        if ends is not None:
            cells.insert(1, f"{number(ends[0][i], primary)} to {number(ends[1][i], primary)}")
        out.add_row(Text(reading.units[i].label), *cells, bar)
    rest = len(reading.units) - len(chosen)
    if rest:
        out.caption, out.caption_justify = f"  and {rest} more", "left"
    return out


def said(explanation: Explanation, log_odds: float) -> list[str]:
    """What the columns mean, and how good the method's own computation was."""
    meant, good = meanings(explanation), quality(explanation, log_odds)
    lines = [f"{name}: {meant[name]}" for name in columns(explanation) if name in meant]
    return [*lines, *([f"how good it is: {good}"] if good else [])]


def number(value: float, column: Floats) -> str:
    """Four decimals, or powers of ten in a column of very small or very large scores."""
    largest = float(abs(column).max())
    return f"{value:+.4f}" if largest == 0 or 1e-3 <= largest < 1e5 else f"{value:+.2e}"
