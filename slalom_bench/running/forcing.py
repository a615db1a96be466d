"""Forcing files to the disk beside the work: one takes milliseconds of waiting, many at once hardly more."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

THREADS = 8
BACKLOG = 64
"""Pieces of work that may wait; then whoever brings another one waits too."""


class Forcing:
    """Does work that waits for the disk: at once, or inside `beside()` in threads, for who has others to serve.

    >>> forcing, found = Forcing(), []
    >>> with forcing.beside():
    ...     forcing.do(lambda: found.append("done"))
    >>> found
    ['done']
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._begun: deque[Future[None]] = deque()

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Threads for the work of a block; when it ends all of it is done, and the first error raised."""
        self._pool = ThreadPoolExecutor(THREADS)
        try:
            yield
        finally:
            self._pool.shutdown()
            self._pool = None
        while self._begun:
            self._begun.popleft().result()

    def do(self, work: Callable[[], None]) -> None:
        """Have it done; an error of work that was begun before is raised here."""
        if self._pool is None:
            work()
            return
        self._begun.append(self._pool.submit(work))
        while self._begun and (self._begun[0].done() or len(self._begun) > BACKLOG):
            self._begun.popleft().result()
