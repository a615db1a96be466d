"""Progress of a training: a bar on a terminal, a line at times elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slalom_bench.core.options import Say, silent

_LINE_EVERY = 20.0
"""Seconds between progress lines where there is no terminal."""
_ESTIMATE_AFTER = 20, 10.0
"""Batches or seconds, whichever is first, after which the whole time is estimated."""


@contextmanager
def progress(title: str, total: int, begun: int, say: Say) -> Iterator[Callable[[float], None]]:
    """A function to call with the loss after each batch: moves a bar on a terminal, elsewhere says a line at times.

    Args:
        title: before the counts.
        total: batches.
        begun: of these done before.
        say: takes the lines.
    """
    if say is silent or not sys.stderr.isatty():
        done, last = begun, time.perf_counter()

        def line(loss: float) -> None:
            """Say a line where the last one is a while ago."""
            nonlocal done, last
            done += 1
            if time.perf_counter() - last > _LINE_EVERY:
                last = time.perf_counter()
                say(f"{title}: batch {done}/{total}, loss {loss:.4f}")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(title, total=total, completed=begun)
        yield lambda loss: bars.update(bar, advance=1, description=f"{title}, loss {loss:.4f}")


def estimate_of(steps: int, say: Say) -> Callable[[int], None]:
    """A function to call with the number of batches done, which soon says once how long the training will take."""
    start, said = time.perf_counter(), False

    def look(done: int) -> None:
        """Say it when enough is done, and not at all where little is left."""
        nonlocal said
        seconds = time.perf_counter() - start
        if not said and (done >= _ESTIMATE_AFTER[0] or seconds > _ESTIMATE_AFTER[1]):
            said = True
            if steps > 2 * done:
                say(f"about {seconds / done * steps / 60:.1f} minutes in all, going by the first {done} batches")

    return look
