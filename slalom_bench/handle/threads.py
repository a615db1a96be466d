"""One thread for numpy's algebra: while a model is queried its pool and torch's would fight for the cores, and where
products are small it spins longer than it computes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_inside: list[Any] = []
"""One entry for each block that is running; the first holds what the last one out restores."""


@contextmanager
def one_algebra_thread() -> Iterator[None]:
    """Keeps the BLAS libraries of numpy and scipy to one thread inside a block; torch's wheels bring their own.

    Fits are many small factorisations. On several threads they are slower by themselves, and their idle workers go on
    spinning while the model runs. Blocks may overlap in any order, in any thread.
    """
    with _lock:
        _inside.append(_inside[0] if _inside else _pools().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limiter = _inside.pop()
            if not _inside:
                limiter.restore_original_limits()


@cache
def _pools() -> Any:
    import scipy.linalg  # noqa: F401  (loaded libraries only are found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
