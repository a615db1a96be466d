"""A finished run in Python and notebooks: what `slalom_bench.run` returns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from slalom_bench.results.boards import Board, BoardRow
from slalom_bench.results.reading import Run, read_run
from slalom_bench.running.runner import RunResult
from slalom_bench.showing.export import scores
from slalom_bench.showing.terminal import call_boards

if TYPE_CHECKING:
    import pandas as pd


@dataclass(repr=False)
class Finished(RunResult):
    """What a call of `run` did, with its results as frames."""

    @classmethod
    def of(cls, result: RunResult) -> Self:
        """The same result, with the frames."""
        return cls(**{field.name: getattr(result, field.name) for field in fields(RunResult)})

    def __repr__(self) -> str:
        done = f"{self.explained} samples explained, {self.scored} scores computed, {self.reused} reused"
        return f"<run of {self.suite.name} in {self.path}: {done}, {self.failed} failed, {len(self.skips)} skipped>"

    def _run(self) -> Run:
        return read_run(self.path).only(self.identities.values())

    def boards(self) -> list[Board]:
        """The boards of what this call computed or found."""
        return call_boards(self, read_run(self.path))

    def scores(self) -> pd.DataFrame:
        """Every value of every metric on every sample, a row each; an undefined one has its reason instead."""
        return scores(self._run())

    def board(self) -> pd.DataFrame:
        """A row for each task, model, budget and explainer; a column for each metric's headline, then costs.

        Means over the samples, geometric where a metric is compared on the log scale; NaN where a metric is undefined.
        """
        import pandas as pd

        rows = {
            (said.task.name, said.model.name, said.budget, row.name): _row(board, row)
            for board in self.boards()
            for said in (board.identity,)
            for row in board.rows
        }
        frame = pd.DataFrame.from_dict(rows, orient="index")
        frame.index = pd.MultiIndex.from_tuples(list(rows), names=["task", "model", "budget", "explainer"])
        return frame

    def _repr_html_(self) -> str:
        """The board as a notebook shows it."""
        from html import escape

        return f"<p>{escape(repr(self))}</p>{self.board().to_html(float_format='{:.3g}'.format)}"


def _row(board: Board, row: BoardRow) -> dict[str, Any]:
    """Headlines and costs of one row."""
    found: dict[str, Any] = {}
    for label, info in board.metrics.items():
        cell = row.cells.get(label)
        shown = None if cell is None else cell.result.mean
        found[info.name] = shown if cell is None or cell.ranked.geometric is None else cell.ranked.geometric.value
    cost = row.cost
    spent = {"queries": None, "seconds": None} if cost is None else {"queries": cost.queries, "seconds": cost.seconds}
    return {**found, **spent, "failed": row.failed}
