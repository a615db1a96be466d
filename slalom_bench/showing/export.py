"""A run as a table for other programs: every score as CSV or parquet, the summary as LaTeX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench.errors import InvalidInput
from slalom_bench.results.boards import ARROWS, Board, Cell, boards
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import read_run
from slalom_bench.run.store import write_text
from slalom_bench.showing.figures import number

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("csv", "parquet", "latex")
NAMES = {"csv": "scores.csv", "parquet": "scores.parquet", "latex": "tables.tex"}


def scores(run: Path) -> pd.DataFrame:
    """One line for each value of each metric on each sample; an undefined one has its reason instead of a number."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for cell in read_run(run):
        said = cell.identity
        shared = {
            "task": said["task"]["name"],
            "content": said["task"]["content"],
            "model": said["model"]["name"],
            "weights": said["model"]["identity"],
            "protocol": said["protocol"],
            "removal": said["removal"],
            "max_tokens": said["max_tokens"],
            "budget": said["budget"],
            "seed": said["seed"],
            "explainer": cell.explainer,
            "explainer_version": said["explainer"]["version"],
        }
        for label, metric in cell.metrics.items():
            for sample, row in metric.rows.items():
                common = {**shared, "sample": sample, "metric": label}
                rows += [{**common, "name": n, "value": v, "reason": None} for n, v in row["values"].items()]
                rows += [{**common, "name": n, "value": None, "reason": r} for n, r in row["undefined"].items()]
                if error := row.get("error"):
                    reason = f"failed: {error['type']}: {error['message']}"
                    rows.append({**common, "name": None, "value": None, "reason": reason})
    if not rows:
        raise InvalidInput(f"{run} holds no scores yet")
    frame = pd.DataFrame(rows)
    return frame.astype({"value": "float64", "max_tokens": "Int64"})


def latex(run: Path) -> str:
    """A booktabs table for each comparable group: means with intervals, the best and its ties bold."""
    parts = ["% needs \\usepackage{booktabs}"]
    parts += [_table(board) for board in boards([c.submission for c in collect(run, unfinished=True)])]
    return "\n\n".join(parts) + "\n"


def _table(board: Board) -> str:
    import pandas as pd

    arrows = {"↑": r"$\uparrow$", "↓": r"$\downarrow$"}
    columns = [f"{escape(info.name)} {arrows[ARROWS[info.direction]]}" for info in board.metrics.values()]
    body = [[_cell(row.cells.get(label)) for label in board.metrics] for row in board.rows]
    frame = pd.DataFrame(body, columns=columns, index=[escape(row.name) for row in board.rows])
    facts = "; ".join(f"{name} {value}" for name, value in board.facts)
    caption = escape(f"{board.title}. Mean [95 % interval]; bold: best or not separable from it. {facts}.")
    return str(frame.to_latex(escape=False, caption=caption, label=f"tab:{board.key}", position="htbp"))


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "missing"
    if cell.result.mean is None:
        return "undefined"
    mean = escape(number(cell.result.mean))
    text = rf"\textbf{{{mean}}}" if cell.best else mean
    if cell.result.low is not None and cell.result.high is not None:
        text += rf" {{\small [{escape(number(cell.result.low))}, {escape(number(cell.result.high))}]}}"
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


def export(run: Path, kind: str, out: Path | None = None) -> Path:
    """Write one format; into the run directory unless told otherwise."""
    if kind not in FORMATS:
        raise InvalidInput(f"unknown format {kind!r}; one of {', '.join(FORMATS)}")
    path = out or run / NAMES[kind]
    try:
        if kind == "latex":
            write_text(path, latex(run))
        elif kind == "csv":
            write_text(path, scores(run).to_csv(index=False, lineterminator="\n"))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            scores(run).to_parquet(path, index=False)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from error
    return path
