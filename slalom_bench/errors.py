"""The errors a user can cause; the command line prints them without a traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SlalomBenchError(Exception):
    """Base of every error that names a bad value and its remedy."""


class UnknownName(SlalomBenchError):
    """A name that no registry knows, answered with the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known) or 'none'}"
        super().__init__(f"unknown {kind} {name!r}: {hint}")


class NameCollision(SlalomBenchError):
    """Two origins claim one name."""


class InvalidInput(SlalomBenchError):
    """Data, parameters or a file that cannot be used as given."""


class BudgetExceeded(SlalomBenchError):
    """An explainer asked for more model queries than its budget."""


class Unsupported(SlalomBenchError):
    """The model cannot do what was asked (gradients of a black box, say)."""


class StoreError(SlalomBenchError):
    """A run directory that cannot be read, written or shared."""


class RunStopped(SlalomBenchError):
    """Nothing more can be answered now (a request cap, a dead endpoint): no fault of the sample, so a run stops."""
