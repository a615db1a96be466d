"""What leads: the answers and headline tables of tasks as Markdown, for their pages, the folder and the README."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slalom_bench.core.hashing import short_hash
from slalom_bench.core.safe_text import file_name
from slalom_bench.core.safe_text import markdown as escape
from slalom_bench.results.across_tiers import across_tiers
from slalom_bench.results.boards import Board
from slalom_bench.results.headline import Headline
from slalom_bench.showing import answers, markdown, wording
from slalom_bench.showing.answers import Said, Table

NEEDS = (
    "needs: what a method asks of the model: answers to texts, gradients, or its inside (attention maps, relevance "
    "rules). queries: sequences asked, a text. seconds: of the median text, as if alone."
)
DASH = (
    f"{answers.NONE}: no value on every model (no surrogate or no signs, not run on all of them, or failed on texts on "
    "which others did not: a mean of the rest would be of other texts)."
)
RESERVED = ("readme", "index", "results")
"""Names in the folder of the leaderboards that are no task's."""
ROWS = 60
"""Methods that a headline table has room for."""


def lead(found: Headline) -> str:
    """Answers, how sure they are, and the headline table of a task."""
    parts, known = [], set()
    for answer in answers.answers(found):
        by = "" if answer.by in known else f" ({escape(answer.by)})"
        known.add(answer.by)
        parts.append(f"- {escape(answer.title)}{by}:\n" + "\n".join(f"  - {_said(one)}" for one in answer.sentences))
    if not parts:
        return "There is nothing to compare here."
    sure = "\n".join(f"- {escape(answers.sure(group))}" for group in found.groups)
    shown = answers.headline_table(found)
    notes = [f"**Bold**: best or tied with it. {NEEDS} {DASH}", *map(escape, left(found, len(shown.rows)))]
    return "\n\n".join(["\n".join(parts), methods(shown), " ".join(notes), f"How sure this is. {answers.TIED}", sure])


def left(found: Headline, count: int) -> list[str]:
    """What is not in the headline table, and why."""
    names = sorted({name for group in found.groups for name in group.left_out})
    notes = [f"These are the first {ROWS} of {count:,} methods."] if count > ROWS else []
    if names:
        more = f" and {len(names) - ROWS:,} more" if len(names) > ROWS else ""
        notes.append(f"On some of the models only, and so not here: {', '.join(names[:ROWS])}{more}.")
    return notes


def _said(sentence: Sequence[Said]) -> str:
    """A sentence; a space at the end of a piece stays one."""
    texts = [f"**{escape(part.text)}**" if part.strong else escape(part.text) for part in sentence]
    return "".join(text + " " * part.text.endswith(" ") for text, part in zip(texts, sentence, strict=True)).strip()


def methods(shown: Table) -> str:
    """A table of methods; what is best or tied is bold."""
    rows = [
        [escape(name), *(f"**{cell.text}**" if cell.marked else cell.text for cell in cells)]
        for name, _, cells in shown.rows[:ROWS]
    ]
    header = ["explainer", *(escape(head) for head in shown.heads)]
    return markdown.table(header, rows, [i for i, head in enumerate(header) if head not in ("explainer", "needs")])


def task_page(found: Headline, made: Sequence[Board], links: Sequence[str], page: str) -> str:
    """The page of one task.

    Args:
        found: what leads.
        made: its boards.
        links: of each board the file with all that is known of it; empty where there is none.
        page: the HTML page of the same.
    """
    parts = [f"# {escape(found.task)}", lead(found)]
    budgets, rules = answers.budget_tables(found), answers.rule_tables(found)
    parts += [markdown.folded(one.title, methods(one)) for one in (*budgets, *rules)]
    if len({board.tier for board in made}) > 1:
        labels = {label for group in found.groups for column in group.columns for label in column.labels}
        carried = [one for one in across_tiers(made) if one.metric.label in labels]
        parts.append(
            markdown.folded("Does the order on one model stand for that on another", markdown.carried(carried))
        )
    rows = [_board(board, link) for board, link in zip(made, links, strict=True)]
    header = ["table", "models", "budget", "removal", "protocol", "texts", "tokens", "trained with", "rows"]
    every = markdown.table(header, rows, (2, 5, 8))
    parts += [
        "## Every table",
        f"With intervals, rank sets, differences, costs; the same to sort and filter: [page]({page}).",
        every,
    ]
    return "\n\n".join(parts)


def _board(board: Board, link: str) -> list[str]:
    said = board.identity
    name = escape(said.model.name)
    return [
        f"[{name}]({link})" if link else name,
        answers.TIERS[board.tier][0],
        f"{said.budget:,}",
        escape(str(said.removal)),
        said.protocol,
        str(len(board.samples)),
        escape(wording.cut(board)),
        escape(wording.training(board)),
        f"{len(board.rows):,}",
    ]


def across(found: Sequence[Headline], link: Callable[[str], str], upright: bool = False) -> str:
    """The answers across tasks: a row a task and tier, a column a purpose; `link` leads to a task's page.

    `upright` turns rows into columns, for pages that are narrower than all purposes side by side.
    """
    if not found:
        return "No results yet."
    header, rows = answers.overview_table(found)
    lines = [[f"[{escape(task)}]({link(task)})", *map(_cell, cells)] for task, cells in rows]
    note = (
        "The best method for each purpose, by which measure, and how many others are tied with it. "
        f"**Bold**: significantly better than every other. {answers.TIED} What removals do is foretold by a surrogate: "
        "its error over that of predicting no change, for few tokens, many, spans, sentences and the most influential."
    )
    grid = [[escape(head) for head in header], *lines]
    first, *rest = zip(*grid, strict=True) if upright else grid
    return f"{markdown.table(first, rest)}\n\n{note}"


def _cell(cell: Said | str) -> str:
    return escape(cell) if isinstance(cell, str) else _said([cell])


def stem(task: str) -> str:
    """A file name for a task; a name that had to be changed for it gets a hash, so that no two share one."""
    name = file_name(task)
    return name if name == task and name not in RESERVED else f"{name}-{short_hash(task, 8)}"
