"""How boards are put into words and figures: the same in the terminal, in Markdown, in LaTeX and on pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slalom_bench.core.hashing import short_hash
from slalom_bench.results.boards import Board, BoardRow
from slalom_bench.results.diagnostics import SHARES
from slalom_bench.results.submission import MetricInfo
from slalom_bench.running.identity import MetricLabel

ARROWS = {"higher": "↑", "lower": "↓"}
MISSING = "missing"
REUSED = (
    "†: queries of it were known from another explainer that asks the same; what they cost then is counted as its own."
)
DIAGNOSTICS = (
    "Diagnostics are means over texts of what a method says of its own computation: the error of its fit to its own "
    "queries (mse, r2), what its draws leave open (standard error, mean over tokens), how far its scores are from "
    "adding up (gaps, in log-odds or relative to the change), the share of texts on which it ended as it should, and "
    "the size of what was solved."
)
TOO_FEW = "So few samples cannot make any difference significant: nothing is marked."


def number(value: float) -> str:
    """Three significant digits without an exponent where a person would write none.

    >>> number(1234567.0), number(12345.0), number(0.000123)
    ('1.23e+06', '12,345', '0.000123')
    """
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e6 else f"{value:.2e}"
    text = f"{value:.3g}"
    return text if "e" not in text or abs(value) < 1e-4 else f"{value:.5f}"


def duration(seconds: float) -> str:
    """A time in the unit that a person would take.

    >>> duration(40.2), duration(150), duration(9000)
    ('40 s', '2.5 min', '2.5 h')
    """
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def heading(info: MetricInfo) -> str:
    """A metric's name with an arrow to where it is better."""
    return f"{info.name} {ARROWS[info.direction]}"


def facts(board: Board) -> list[tuple[str, str]]:
    """What all rows share, and what must be the same for a number to be compared with them."""
    said = board.identity
    return [
        ("task", f"{said.task.name} v{said.task.version}{_spelled(said.task.params)}"),
        ("content", f"{said.task.content[:12]} ({said.task.source})"),
        ("model", f"{said.model.name}, {said.model.dtype}, weights {said.model.identity[:12]}"),
        ("training", training(board)),
        ("samples", f"{len(board.samples)} (set {short_hash(list(board.samples), 8)})"),
        ("tokens", cut(board)),
        ("budget", f"{said.budget:,} queries a sample"),
        ("protocol", said.protocol),
        ("removal", f"{said.removal} v{said.removal.version}"),
        ("explained", "class 1 of two, else the predicted one" if said.target is None else f"class {said.target}"),
    ]


def cut(board: Board) -> str:
    """How much of the texts was read: whole texts only where it is known that none was cut."""
    limit = board.identity.max_tokens
    read = "as far as the model reads" if limit is None else f"first {limit}"
    if board.cut is None:
        return read
    return f"{read}, {board.cut} of {len(board.samples)} texts cut" if board.cut else "whole texts"


def standing(row: BoardRow) -> str:
    """Whether a row was computed again, by whom and how much of it, and which other files say the same."""
    parts = []
    for made, own in row.attested:
        who = f"{made.by}, " if made.by else ""
        missing = sorted(label.name for label in row.cells if label not in own.metrics)
        but = f", but for {', '.join(missing)}" if missing else ""
        same = made.machine.fingerprint == getattr(row.machine, "fingerprint", "")
        where = f"{made.machine.fingerprint}{', the kind it was submitted from' if same else ''}"
        parts.append(f"recomputed, {made.samples} of {made.of} samples ({who}machine {where}{but})")
    if row.also:
        elsewhere = {claim.submission.origin.machine for claim in row.also} - {row.machine, None}
        where = "reproduced elsewhere" if elsewhere else "reproduced"
        parts.append(f"{where}, largest difference {row.largest:.1g} of a value ({count(len(row.also), 'other file')})")
    return "; ".join(parts) or "not recomputed"


def count(number: int, what: str) -> str:
    """So many of what takes an s.

    >>> count(1, "table"), count(1234, "other file")
    ('1 table', '1,234 other files')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def recomputed(rows: Sequence[BoardRow]) -> str:
    """Of how many rows it is known that they come out again."""
    again = sum(bool(row.attested) for row in rows)
    elsewhere = sum(bool(row.also) for row in rows)
    return (
        f"Of {len(rows):,} rows {again or 'none'} {'was' if again < 2 else 'were'} recomputed by a reviewer, and "
        f"{elsewhere or 'none'} {'is' if elsewhere < 2 else 'are'} in more than one file."
    )


def training(board: Board) -> str:
    """What the model was trained with: a model that saw texts with tokens dropped knows the deletions of explainers."""
    return board.identity.model.training or "unknown"


def _spelled(params: Mapping[str, object]) -> str:
    return "".join(f" {key}={value}" for key, value in params.items())


def diagnostics(means: Mapping[str, float]) -> str:
    """What a method says of its own computation, in one line.

    >>> diagnostics({"mse": 0.0123, "converged": 0.95})
    'mse 0.0123, converged 95 %'
    """
    return ", ".join(
        f"{name.replace('_', ' ')} {f'{100 * value:.0f} %' if name in SHARES else number(value)}"
        for name, value in means.items()
    )


def about_model(board: Board) -> list[tuple[str, str]]:
    """Metrics of the model itself: what it is called, every mean of it."""
    return [
        (heading(found.info), ", ".join(f"{name} {value:.3g}" for name, value in found.values.items()))
        for found in board.about_model.values()
    ]


def curve_points(board: Board, label: MetricLabel) -> list[str]:
    """The values k1, k2, ... of a metric that declares a curve, in order, as far as any row has them."""
    if not board.metrics[label].curve:
        return []
    names = {k for row in board.rows if label in row.cells for k in row.cells[label].result.parts}
    return sorted((k for k in names if re.fullmatch(r"k\d+", k)), key=lambda k: int(k[1:]))


def curve_title(info: MetricInfo) -> str:
    """What a curve shows."""
    return f"{info.name} against {info.curve}"
