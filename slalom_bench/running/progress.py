"""Showing what happens: bars on a terminal, plain lines elsewhere, nothing when asked to be quiet."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slalom_bench.core.safe_text import line, visible

if TYPE_CHECKING:
    from slalom_bench.running.notebook_bar import NotebookBar

LINE_EVERY = 15.0
"""Seconds between plain progress lines inside one long cell."""


class Reporter:
    """Progress over cells and samples. `show=False` keeps silent (for `--json` and the Python API)."""

    def __init__(self, show: bool = True) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, quiet=not show, highlight=False)
        self._bars: Any = None
        self._notebook: NotebookBar | None = None
        self._cells: Any = None
        self._samples: Any = None
        self._title = ""
        self._begun = 0
        self._cell_count = 0
        self._total = 0
        self._done: Counter[str] = Counter()
        self._last_line = 0.0
        self._start = time.monotonic()

    def say(self, text: str, style: str | None = None) -> None:
        """Plain text; nothing in it is read as markup, or steers the terminal."""
        if not self.console.quiet:  # a quiet console lays the text out all the same
            self.console.print(visible(text), style=style, markup=False, soft_wrap=True)

    @contextmanager
    def running(self, cells: int, samples: int) -> Iterator[None]:
        """Bars (or lines) for a run of so many cells, and so many samples over all of them."""
        self._cell_count, self._begun, self._start = cells, 0, time.monotonic()
        self._total, self._done = samples, Counter()
        if self.console.is_jupyter and not self.console.quiet:
            from slalom_bench.running.notebook_bar import NotebookBar

            self._notebook = NotebookBar(samples)
            try:
                yield
            finally:
                self._notebook.close()
                self._notebook = None
            return
        if self.console.quiet or not self.console.is_terminal:
            yield
            return
        with self._progress() as self._bars:
            self._samples = self._bars.add_task("samples", total=samples, rate="")
            self._cells = self._bars.add_task("cells", total=cells, rate="")
            try:
                yield
            finally:
                self._bars = None

    def _progress(self) -> Any:
        """Bars whose numbers always stand in full: on a narrow terminal what is being done takes a second line."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        whole, folded = Column(no_wrap=True), Column(no_wrap=False, overflow="fold")
        return Progress(
            TextColumn("{task.description}", markup=False, table_column=folded),
            BarColumn(20, table_column=whole),
            MofNCompleteColumn(table_column=whole),
            TextColumn("{task.fields[rate]}", markup=False, table_column=whole),
            TimeRemainingColumn(table_column=whole),
            console=self.console,
            transient=True,
        )

    def cell(self, title: str, missing: int, total: int) -> None:
        """A cell begins, with so many of its samples still to do."""
        title = self._title = line(title)
        self._begun += 1
        self._total -= total - missing
        if self._notebook is not None:
            self._notebook.title, self._notebook.samples = title, self._total
            self._notebook.show()
        elif self._bars is not None:
            self._bars.update(self._cells, description=title)
            self._bars.advance(self._samples, total - missing)
        else:
            left = "nothing left to do" if not missing else f"{missing} of {total} samples to do"
            self.say(f"[{self._begun}/{self._cell_count}] {title}: {left}")

    def sample(self, done: int, missing: int, title: str = "", worker: str = "") -> None:
        """One sample of a cell, the current one unless another is named, is done."""
        self._done[worker] += 1
        if self._notebook is not None:
            self._notebook.done = self._done.total()
            self._notebook.show()
        elif self._bars is not None:
            self._bars.advance(self._samples)
            speed = self._bars.tasks[self._samples].speed
            self._bars.update(self._samples, rate=f"{speed:.2f}/s{self._by_worker()}" if speed else "")
        elif time.monotonic() - self._last_line > LINE_EVERY:
            self._last_line = time.monotonic()
            elapsed, all_done = self._last_line - self._start, self._done.total()
            left = elapsed / all_done * (self._total - all_done)
            more = f"; {all_done} of {self._total} in all, about {left:.0f} s left at this pace"
            self.say(
                f"    {title or self._title}: {done} of {missing} samples, {elapsed:.0f} s since the start"
                f"{more if all_done < self._total else ''}{self._by_worker()}"
            )

    def _by_worker(self) -> str:
        """How many samples each of several workers has done.

        >>> reporter = Reporter(show=False)
        >>> for worker in ("worker 2", "worker 1", "worker 2"):
        ...     reporter.sample(1, 3, worker=worker)
        >>> reporter._by_worker()
        '; worker 1: 1, worker 2: 2'
        """
        named = sorted((worker, count) for worker, count in self._done.items() if worker.startswith("worker"))
        return "; " + ", ".join(f"{worker}: {count}" for worker, count in named) if named else ""

    def cell_done(self) -> None:
        """The current cell is finished."""
        if self._bars is not None:
            self._bars.advance(self._cells)
