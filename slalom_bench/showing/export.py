"""A run as a table for other programs: every score and cost as CSV or parquet, the summary as LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench.core.writing import force, replacing
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


TYPES = {
    **dict.fromkeys(("task", "content", "model", "weights", "protocol", "removal"), "string"),
    **dict.fromkeys(("max_tokens", "budget", "seed"), "Int64"),
    "explainer": "string",
    "explainer_version": "Int64",
    **dict.fromkeys(("sample", "metric", "name"), "string"),
    "value": "float64",
    "reason": "string",
}
"""The columns of the tables."""


def scores(run: Run) -> pd.DataFrame:
    """One line for each value of each metric on each sample; an undefined one has its reason instead of a number."""
    rows = [row for cell in run.cells for row in _scores(cell)]
    if not rows:
        raise InvalidInput(f"{run.path} holds no scores yet")
    return _frame(rows)


def costs(run: Run) -> pd.DataFrame:
    """What explaining each sample cost, in the columns of `scores`: the metric is `cost`, the name what is counted."""
    return _frame([row for cell in run.cells for row in _costs(cell)])


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)


def _frames(run: Run) -> Iterator[pd.DataFrame]:
    """Scores, then costs, cell by cell: the whole of a large run need not fit into memory."""
    empty = True
    for rows in (list(_scores(cell)) for cell in run.cells):
        if rows:
            empty = False
            yield _frame(rows)
    if empty:
        raise InvalidInput(f"{run.path} holds no scores yet")
    yield from (_frame(rows) for cell in run.cells if (rows := list(_costs(cell))))


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


def _costs(cell: CellResult) -> Iterator[dict[str, Any]]:
    shared = _shared(cell)
    for sample in cell.explanations:
        row = cell.costs.get(f"explain:{sample}", {})
        for name in (name for name in COSTS if name in row):
            yield {**shared, "sample": sample, "metric": COST, "name": name, "value": row[name], "reason": None}


def _scores(cell: CellResult) -> Iterator[dict[str, Any]]:
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


def _write_csv(run: Run, path: Path) -> None:
    with path.open("x", encoding="utf-8", newline="") as file:
        for number, frame in enumerate(_frames(run)):
            frame.to_csv(file, index=False, lineterminator="\n", header=not number)


def _write_parquet(run: Run, path: Path) -> None:
    """One group of rows a cell."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.Schema.from_pandas(_frame([]), preserve_index=False)
    with ParquetWriter(path, schema) as file:
        for frame in _frames(run):
            file.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))


def export(run: Run, kind: str, out: Path | None = None) -> Path:
    """Write one format; into the run directory unless told otherwise."""
    if kind not in FORMATS:
        raise InvalidInput(f"unknown format {kind!r}; one of {', '.join(FORMATS)}")
    path = out or run.path / NAMES[kind]
    try:
        if kind == "latex":
            write_text(path, latex(run))
        else:
            with replacing(path) as place:
                (_write_csv if kind == "csv" else _write_parquet)(run, place)
                force(place)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from error
    return path
