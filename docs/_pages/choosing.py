"""Which method should I use: from the published results, by question, model, budget and access to the model."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cards import plain

from slalom_bench import registry
from slalom_bench.results import headline as headlines
from slalom_bench.results.boards import SEARCH, Board, BoardRow, boards
from slalom_bench.results.ranking import Ranked, rank
from slalom_bench.results.submission import MetricInfo
from slalom_bench.showing import front
from slalom_bench.showing.leaderboard import read_results

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent.parent / "leaderboards" / "results"
QUESTIONS = (
    (
        "srg",
        "Which tokens drive the prediction?",
        "A ranking: delete the first and the log-odds fall, delete the last and they do not.",
    ),
    (
        "fidelity-few",
        "What happens if a few words go?",
        "The change that the surrogate predicts when 2 to 10 random tokens are removed.",
    ),
    ("fidelity-many", "What happens if much of the text goes?", "The same with 10 to 50 % of the tokens."),
    ("fidelity-spans", "What happens if a passage goes?", "The same with runs of neighbouring tokens."),
    ("human-attention-auroc", "Does it mark what people mark?", "Of tasks with human marks."),
)
ACCESS = (
    ("answers only", frozenset({"queries"}), "a black box: an endpoint, any function"),
    ("and gradients", frozenset({"queries", "gradients"}), "a differentiable model"),
    ("and its inside", None, "attention maps, relevance rules, value vectors"),
)
LEFT_OUT = ("baseline", SEARCH)


def page() -> str:
    """The hand-written words with the tables in their place."""
    text = (HERE / "choose.md").read_text(encoding="utf-8")
    return text.replace("<!-- tables -->", tables()).replace("<!-- costs -->", costs())


@cache
def published() -> list[Board]:
    """The boards of the committed results."""
    return boards(read_results(RESULTS, []))


def headline() -> str:
    """The answers across tasks, as the README has them."""
    tasks = sorted({board.task for board in published()})
    found = [headlines.headline(task, [b for b in published() if b.task == task]) for task in tasks]
    return front.across(found, lambda task: f"leaderboards/index.html#{front.stem(task)}", upright=True)


def tables() -> str:
    """For each question that is answered by a published metric: a row a board, a column an access."""
    parts = []
    for name, question, about in QUESTIONS:
        rows = [f"| {title(board)} | {' | '.join(found)} |" for board in published() if (found := cells(board, name))]
        if rows:
            heads = "".join(f" {words}<br><small>{meant}</small> |" for words, _, meant in ACCESS)
            link = f"[{name}](cards/metrics.md#{name})"
            head = f"| task, model, budget |{heads}\n|---|{'---|' * len(ACCESS)}"
            parts.append(f"### {question}\n\n{about} Metric: {link}.\n\n{head}\n" + "\n".join(rows))
    return "\n\n".join(parts) or "No results are published yet."


def title(board: Board) -> str:
    """A board in a cell."""
    said = board.identity
    where = f"{plain(said.task.name)}, {plain(said.model.name)}, {said.budget:,}"
    return f"{where}<br><small>{len(board.samples)} texts</small>"


def cells(board: Board, metric: str) -> list[str]:
    """The best methods of each access on a board; nothing where the board has not the metric."""
    info = next((info for info in board.metrics.values() if info.name == metric), None)
    return [] if info is None else [best(board, info, needs) for _, needs, _ in ACCESS]


def best(board: Board, info: MetricInfo, needs: frozenset[str] | None) -> str:
    """The best method among those that need no more, and those it cannot be told apart from."""
    rows = [row for row in board.rows if info.label in row.cells and row.family not in LEFT_OUT and allowed(row, needs)]
    table = {row.name: row.submission.scores(row.submitted, info.label) for row in rows}
    if not table:
        return "none published"
    ranked = rank(table, info.direction, scale=info.scale or "linear", relevant=info.relevant).rows
    tied = [one for one in ranked if one.tied_with_best]
    if not tied:
        return "undefined"
    others = ", ".join(name(one) for one in tied[1:6]) + (f" and {len(tied) - 6} more" if len(tied) > 6 else "")
    first = next(row for row in rows if row.name == tied[0].name).cells[info.label].result.mean
    return f"**{name(tied[0])}** {number(tied[0], first)}" + (
        f"<br><small>not told apart: {others}</small>" if others else ""
    )


def allowed(row: BoardRow, needs: frozenset[str] | None) -> bool:
    """Whether a row's method needs no more than this; what is not registered here needs who knows what."""
    entry = registry.explainers.find(row.submitted.explainer.name)
    return needs is None or (entry is not None and entry.needs <= needs)


def name(one: Ranked) -> str:
    """A method as a link to its card."""
    first = one.name.split(":")[0].split(" ")[0]
    return f"[{plain(one.name)}](cards/explainers.md#{first})" if registry.explainers.find(first) else plain(one.name)


def number(one: Ranked, mean: float | None) -> str:
    """Its mean, geometric on the log scale."""
    value = mean if one.geometric is None else one.geometric.value
    return "" if value is None else f"{value:.3g}"


def costs() -> str:
    """Queries and seconds of a text, by method, over the published boards of one machine."""
    found: dict[str, list[BoardRow]] = {}
    for board in published():
        for row in board.rows:
            if row.cost is not None and row.family not in LEFT_OUT:
                found.setdefault(row.name, []).append(row)
    lines = []
    for method, rows in sorted(found.items(), key=lambda item: seconds(item[1])):
        costs = [row.cost for row in rows if row.cost is not None]
        queries = sorted({round(cost.queries) for cost in costs})
        spread = f"{queries[0]:,}" if len(queries) == 1 else f"{queries[0]:,} to {queries[-1]:,}"
        entry = registry.explainers.find(rows[0].submitted.explainer.name)
        needs = ", ".join(sorted(entry.needs)) if entry else "?"
        lines.append(f"| {plain(method)} | {needs} | {spread} | {seconds(rows):.2g} |")
    if not lines:
        return ""
    return "| method | needs | queries | seconds |\n|---|---|---:|---:|\n" + "\n".join(lines)


def seconds(rows: list[BoardRow]) -> float:
    """The mean over boards of the median seconds of a text."""
    told = [row.cost.median_seconds for row in rows if row.cost is not None]
    return sum(told) / len(told)
