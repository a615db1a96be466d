"""Packages that only an extra of this one brings, and what is said where they are missing."""

from __future__ import annotations

from importlib.util import find_spec

from slalom_bench.errors import Unsupported

PACKAGES = {"shapiq": ("shapiq", "lightgbm")}
"""What each extra brings that explainers import."""


def missing_extra(extra: str) -> str:
    """Which packages of an extra are not installed, and the remedy; empty where none is missing or none is named.

    >>> missing_extra("")
    ''
    """
    missing = [name for name in PACKAGES.get(extra, ()) if find_spec(name) is None]
    return f'needs {" and ".join(missing)}: pip install "slalom-bench[{extra}]"' if missing else ""


def require_extra(extra: str) -> None:
    """Raise `Unsupported`, with the remedy, where packages of an extra are missing."""
    if reason := missing_extra(extra):
        raise Unsupported(reason)
