"""A run as a table for other programs: every score and cost as CSV or parquet, the summary as LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench.core.writing import replacing
from slalom_bench.errors import InvalidInput
from slalom_bench.results.boards import Board, BoardCell, boards
from slalom_bench.results.collect import COSTS, require_results
from slalom_bench.results.reading import CellResult, Run
from slalom_bench.running.files import write_text
from slalom_bench.showing.comparing import MARKS, arithmetic, interval, lead
from slalom_bench.showing.wording import facts, number

if TYPE_CHECKING:
    import pandas as pd

COST = "cost"
"""Stands for the metric in lines that say what explaining cost."""
FORMATS = ("csv", "parquet", "latex")
ARROWS = {"higher": r"$\uparrow$", "lower": r"$\downarrow$"}
NAMES = {"csv": "scores.csv", "parquet": "scores.parquet", "latex": "tables.tex"}


def scores(run: Run) -> pd.DataFrame:
    """One line for each value of each metric on each sample; an undefined one has its reason instead of a number."""
    import pandas as pd

    rows = [row for cell in run.cells for row in _rows(cell)]
    if not rows:
        raise InvalidInput(f"{run.path} holds no scores yet")
    return pd.DataFrame(rows).astype({"value": "float64", "max_tokens": "Int64"})


def costs(run: Run) -> pd.DataFrame:
    """What explaining each sample cost, in the columns of `scores`: the metric is `cost`, the name what is counted."""
    import pandas as pd

    rows = []
    for cell in run.cells:
        for sample in cell.explanations:
            row = cell.costs.get(f"explain:{sample}", {})
            shared = {**_shared(cell), "sample": sample, "metric": COST, "reason": None}
            rows += [{**shared, "name": name, "value": row[name]} for name in COSTS if name in row]
    return pd.DataFrame(rows).astype({"value": "float64", "max_tokens": "Int64"}) if rows else pd.DataFrame()


def _shared(cell: CellResult) -> dict[str, Any]:
    """The columns that are the same in every line of a cell."""
    said = cell.identity
    return {
        "task": said.task.name,
        "content": said.task.content,
        "model": said.model.name,
        "weights": said.model.identity,
        "protocol": said.protocol,
        "removal": str(said.removal),
        "max_tokens": said.max_tokens,
        "budget": said.budget,
        "seed": said.seed,
        "explainer": said.explainer.title,
        "explainer_version": said.explainer.version,
    }


def _rows(cell: CellResult) -> Iterator[dict[str, Any]]:
    shared = _shared(cell)
    for label, stored in cell.scores.items():
        for sample, row in stored.items():
            common = {**shared, "sample": sample, "metric": str(label)}
            for name, value in row["values"].items():
                yield {**common, "name": name, "value": value, "reason": None}
            for name, reason in row["undefined"].items():
                yield {**common, "name": name, "value": None, "reason": reason}
            if error := row.get("error"):
                reason = f"failed: {error['type']}: {error['message']}"
                yield {**common, "name": None, "value": None, "reason": reason}


def latex(run: Run) -> str:
    """A booktabs table for each board: means with intervals, the best and its ties bold."""
    parts = ["% needs \\usepackage{booktabs}"]
    parts += [_table(board) for board in boards([c.submission for c in require_results(run, unfinished=True)])]
    return "\n\n".join(parts) + "\n"


def _table(board: Board) -> str:
    import pandas as pd

    columns = [f"{escape(info.name)} {ARROWS[info.direction]}" for info in board.metrics.values()]
    body = [[_cell(row.cells.get(label)) for label in board.metrics] for row in board.rows]
    columns += ["queries", "seconds"]
    for cells, row in zip(body, board.rows, strict=True):
        cells += ["missing"] * 2 if row.cost is None else [number(row.cost.queries), number(row.cost.seconds)]
    frame = pd.DataFrame(body, columns=columns, index=[escape(row.name) for row in board.rows])
    shared = "; ".join(f"{name} {value}" for name, value in facts(board))
    shown = "Mean [95 % interval], on the log scale the geometric one, then the mean"
    caption = escape(f"{board.title}. {shown}; bold: {MARKS}. {shared}.")
    return str(frame.to_latex(escape=False, caption=caption, label=f"tab:{board.key}", position="htbp"))


def _cell(cell: BoardCell | None) -> str:
    if cell is None:
        return "missing"
    first = lead(cell)
    if first is None:
        return "undefined"
    text = rf"\textbf{{{escape(number(first))}}}" if cell.marked else escape(number(first))
    if (ends := interval(cell)) is not None:
        low, high = (escape(number(end)) for end in ends)
        text += rf" {{\small [{low}, {high}]{escape(arithmetic(cell))}}}"
    return text


def escape(text: str) -> str:
    """Text that LaTeX sets as it stands."""
    special = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "·": r"$\cdot$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        **{c: f"\\{c}" for c in "&%$#_{}"},
    }
    return "".join(special.get(letter, letter) for letter in text)


def _everything(run: Run) -> pd.DataFrame:
    """Scores, then costs."""
    import pandas as pd

    found = [frame for frame in (scores(run), costs(run)) if len(frame)]
    return pd.concat(found, ignore_index=True)


def export(run: Run, kind: str, out: Path | None = None) -> Path:
    """Write one format; into the run directory unless told otherwise."""
    if kind not in FORMATS:
        raise InvalidInput(f"unknown format {kind!r}; one of {', '.join(FORMATS)}")
    path = out or run.path / NAMES[kind]
    try:
        if kind == "latex":
            write_text(path, latex(run))
        elif kind == "csv":
            write_text(path, _everything(run).to_csv(index=False, lineterminator="\n"))
        else:
            with replacing(path) as place:
                _everything(run).to_parquet(place, index=False)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from error
    return path
