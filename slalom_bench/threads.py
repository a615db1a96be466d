"""One thread for numpy's algebra while a model is queried: its thread pools and torch's would fight for the cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_algebra_thread() -> AbstractContextManager[Any]:
    """Keeps BLAS behind numpy and scipy to one thread inside a block; torch keeps all of its own.

    Fits are many small factorisations. On several threads they are slower by themselves, and their idle workers go on
    spinning while the model runs.
    """
    return _pools().limit(limits=1, user_api="blas")


@cache
def _pools() -> Any:
    import scipy.linalg  # noqa: F401  (loaded libraries only are found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
