"""Marks, differences from the best and the quality of metrics, in words: the same wherever boards are shown."""

from __future__ import annotations

from collections.abc import Sequence

from slalom_bench.results.across_tiers import GOAL
from slalom_bench.results.boards import Board, BoardCell
from slalom_bench.results.carry_over import CarryOver
from slalom_bench.results.ranking import Effect
from slalom_bench.results.removal_agreement import RuleAgreement
from slalom_bench.running.identity import MetricLabel
from slalom_bench.showing.wording import heading, number

TIMES = "\N{MULTIPLICATION SIGN}"
MARKS = (
    "no other does better on significantly more texts, by what could matter (sign tests of all pairs at once on the "
    "common texts, family-wise 5 %)"
)
RANKS = "The rank is a set; the sets of all rows hold the true ranks at once in 95 % of cases"
LOG_SCALE = "compared on the log scale, where the geometric mean leads and the arithmetic one follows"
INTERVALS = (
    "95 % interval: bootstrap for a mean, Student's on the logarithms for the geometric mean that leads the cells of "
    "metrics compared on the log scale (there the arithmetic mean follows)"
)
EFFECTS = (
    f"Median over texts of row minus best ({TIMES}: row over best, on the log scale) with its interval, simultaneous "
    "over all pairs. The best: the first, by its mean, of those that no other beats on significantly more texts. =: "
    "not separable; ≈: no worse by what matters."
)
QUALITY = (
    "Over methods without the baselines (random, zero). "
    "Pairs told apart: share of all pairs of which one does better on significantly more texts, by what could matter. "
    "Tied with the best: methods that no other beats so, the best included. "
    "Reliability: split-half over texts, Spearman-Brown. Masks: rank stability over masks, the Spearman "
    "correlation over methods between their means from either half of the masks, for metrics that draw some. "
    "Texts for the top two: to separate them with 80 % power at the level of this table, if their difference is "
    "as found. Agreement: Spearman correlation over methods with another metric, +1 for the same order from best "
    "to worst."
)
QUALITY_COLUMNS = (
    "metric",
    "pairs told apart",
    "tied with the best",
    "reliability",
    "masks",
    "texts for the top two",
    "agreement",
    "smallest that matters",
)
RULES = (
    "Across removal rules: rank correlations, over methods, between their means under this removal rule and under "
    "another, with the same model, budget and metric, on the samples that a method has scores for under both; and the "
    "best method under each."
)
RULES_COLUMNS = ("metric", "rules", "methods", "Spearman", "Kendall", "best under the first", "best under the second")
LOW = "(low)"
CARRIED = (
    "Carry-over: the Spearman correlation, over methods, between their means on the one model and on the other, "
    f"with the same task, budget, protocol, removal rule and cut [95 % over texts]. {LOW}: below {GOAL}, there the "
    "order on the one does not stand for that on the other."
)
NOT_CARRIED = (
    "Carry-over to a pretrained model is not known: there are no results of one with the same task, budget, protocol, "
    "removal rule and cut."
)
SIGNS = {"not separable": "=", "no practical difference": "≈"}


def lead(cell: BoardCell) -> float | None:
    """The number that stands first in a cell, and that rows are compared by: the geometric mean on the log scale."""
    return cell.result.mean if cell.ranked.geometric is None else cell.ranked.geometric.value


def interval(cell: BoardCell) -> tuple[float, float] | None:
    """Low and high of the number that leads a cell."""
    shown = cell.result if cell.ranked.geometric is None else cell.ranked.geometric
    return None if shown.low is None or shown.high is None else (shown.low, shown.high)


def arithmetic(cell: BoardCell) -> str:
    """What follows a geometric mean: `, mean 0.123`; nothing where the mean leads."""
    if cell.ranked.geometric is None or cell.result.mean is None:
        return ""
    return f", mean {number(cell.result.mean)}"


def effect(cell: BoardCell | None) -> str:
    """`32 [21, 49]` times the best, `+0.015 [0.004, 0.026] =`, or `best`; nothing where the row is not ranked."""
    if cell is None or cell.ranked.rank is None:
        return ""
    found = cell.ranked.to_best
    if found is None:
        return "best"
    text = spell_effect(found)
    return f"{text} {SIGNS[cell.ranked.verdict]}" if cell.ranked.verdict in SIGNS else text


def spell_effect(found: Effect) -> str:
    """`+0.015 [0.004, 0.026]`; a ratio with a multiplication sign."""
    sign = TIMES if found.ratio else "+" if found.value > 0 else ""
    text = f"{sign}{number(found.value)}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{number(found.low)}, {number(found.high)}]"


def effect_rows(board: Board) -> list[list[str]]:
    """Differences from the best, one line an explainer."""
    return [[row.name, *(effect(row.cells.get(label)) for label in board.metrics)] for row in board.rows]


def quality_rows(board: Board) -> list[list[str]]:
    """The table of QUALITY_COLUMNS, one line a metric."""
    return [[heading(board.metrics[label]), *_quality(board, label)] for label in board.quality]


def _quality(board: Board, label: MetricLabel) -> list[str]:
    found, info = board.quality[label], board.metrics[label]
    apart = "too few" if found.told_apart is None else f"{found.told_apart:.0%}"
    stable = "too few" if found.reliability is None else f"{found.reliability:.2f}"
    return [
        apart,
        f"{found.tied} of {found.methods}",
        stable,
        "-" if found.mask_stability is None else f"{found.mask_stability:.2f}",
        _needed(board, label),
        _agreement(board, label),
        _matters(info.relevant, info.scale == "log"),
    ]


def _needed(board: Board, label: MetricLabel) -> str:
    found = board.quality[label]
    if found.top is None or board.too_few:
        return "too few"
    best, second = found.top
    texts = "no number" if found.texts_needed is None else f"{found.texts_needed:,}"
    return f"{texts} ({best}, {second}{'' if found.top_matters else '; less than matters'})"


def _agreement(board: Board, label: MetricLabel) -> str:
    """The most and the least alike metric, with their correlations."""
    found = {}
    for (one, other), value in board.agreement.items():
        if label in (one, other):
            # ranks tie often: the last bits, which differ between machines, must not choose between equals
            found[board.metrics[other if one == label else one].name] = round(value, 9)
    if not found:
        return "too few"
    order = sorted(found, key=lambda name: (-found[name], name))
    ends = order if len(order) < 3 else [order[0], order[-1]]
    return ", ".join(f"{name} {round(found[name], 2) + 0.0:+.2f}" for name in ends)


def _matters(relevant: float | None, log: bool) -> str:
    """What is the smallest difference that matters."""
    if relevant is None:
        return "not stated" + (" (log scale)" if log else "")
    return f"{relevant:.0%} (log scale)" if log else f"{relevant:g}"


def agreement_rows(board: Board) -> list[list[str]]:
    """Rank correlations between all metrics, one line a metric; nothing where there is none."""
    if not board.agreement:
        return []
    labels = list(board.metrics)
    return [[board.metrics[one].name, *(_correlation(board, one, other) for other in labels)] for one in labels]


def _correlation(board: Board, one: MetricLabel, other: MetricLabel) -> str:
    value = 1.0 if one == other else board.agreement.get((one, other), board.agreement.get((other, one)))
    return "" if value is None else f"{round(value, 2) + 0.0:.2f}"


def rules_rows(agreements: Sequence[RuleAgreement]) -> list[list[str]]:
    """The table of RULES_COLUMNS, one line for each metric and pair of removal rules."""
    rows = []
    for found in agreements:
        correlations = [found.reason or "-", ""]
        if found.spearman is not None and found.kendall is not None:
            correlations = [f"{round(value, 2) + 0.0:.2f}" for value in (found.spearman, found.kendall)]
        best = found.best if found.means else ("-", "-")
        rows.append([heading(found.metric), " / ".join(found.rules), str(len(found.means)), *correlations, *best])
    return rows


def carried_table(found: Sequence[CarryOver]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: a line for each table and pair of models, a column for each metric."""
    metrics = list(dict.fromkeys(heading(one.metric) for one in found))
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for one in found:
        cells.setdefault((one.table, " to ".join(one.models)), {})[heading(one.metric)] = _carried(one)
    rows = [[*key, *(row.get(metric, "-") for metric in metrics)] for key, row in cells.items()]
    return ["table", "models", *metrics], rows


def _carried(found: CarryOver) -> str:
    if found.spearman is None:
        return found.reason
    ends = "" if found.interval is None else f" [{found.interval.low:.2f}, {found.interval.high:.2f}]"
    return f"{found.spearman:.2f}{ends}" + (f" {LOW}" if found.spearman < GOAL else "")


def blind(board: Board) -> list[str]:
    """Names of metrics that cannot tell the methods apart: nothing is marked there."""
    return [
        board.metrics[label].name
        for label, quality in board.quality.items()
        if not quality.separates and quality.methods > 1
    ]


def blind_note(board: Board) -> str:
    """What to say of such metrics."""
    names = blind(board)
    if not names or board.too_few:
        return ""
    return f"Cannot tell these methods apart on these texts, so nothing is marked: {', '.join(names)}."


def scale_note(board: Board) -> str:
    """Which metrics are compared on the log scale."""
    names = [info.name for info in board.metrics.values() if info.scale == "log"]
    return f"{', '.join(names)}: {LOG_SCALE}." if names else ""


def conflict_notes(board: Board) -> list[str]:
    """Where files contradict each other, with what each of them says; only the removal of a file decides."""
    found = []
    for one in board.conflicts:
        said = ", ".join(f"{'undefined' if mean is None else number(mean)} in {file}" for file, mean in one.means)
        found.append(f"Conflict: {one.row} has {one.what} {said}. All are shown until a reviewer removes a file.")
    for label, opinions in board.left_out.items():
        found.append(f"Conflict: {label} is left out, being {', but '.join(opinions)}.")
    return found


def notes(board: Board) -> Sequence[str]:
    """What a reader of the marks must know beside them."""
    return [note for note in (*conflict_notes(board), scale_note(board), blind_note(board)) if note]


def quality_line(board: Board) -> str:
    """The quality of all metrics in one line, for the terminal."""
    parts = []
    for label, found in board.quality.items():
        if found.told_apart is not None:
            stable = "" if found.reliability is None else f", reliability {found.reliability:.2f}"
            parts.append(f"{board.metrics[label].name} {found.told_apart:.0%}{stable}")
    return f"pairs told apart: {'; '.join(parts)}" if parts else ""
