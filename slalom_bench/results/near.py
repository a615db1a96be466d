"""When two values of one score count as the same: after recomputing, and in two submissions of one row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from slalom_bench.handle.classifier import EPSILON

SMALLEST = 1e-9
"""A difference below this is none."""
WIDEST = 0.05
"""No dtype makes a larger share of a value a matter of rounding."""
Values = Sequence[float | None]


def share(dtype: str) -> float:
    """The share of its size that a score may be off by rounding: half of the digits that the model's dtype has.

    On one machine nothing differs; other threads or batches change the last bits, which a fit or a ranking enlarges.

    >>> f"{share('float32'):.1e}", share("bfloat16")
    ('3.5e-04', 0.05)
    """
    return min(WIDEST, math.sqrt(EPSILON.get(dtype, EPSILON["float32"])))


def distances(trusted: Values, others: Values) -> list[float]:
    """How far each of the others is from the trusted value, as a share of its size or of the usual size.

    The usual size is the median of those that are trusted: nothing in the others can widen it. Infinite where only one
    is defined.

    >>> distances([1.0, 1.0, None], [1.5, 1.0, None])
    [0.5, 0.0, 0.0]
    """
    usual = median([abs(value) for value in trusted if value is not None] or [0.0])
    return [_distance(one, other, usual) for one, other in zip(trusted, others, strict=True)]


def _distance(one: float | None, other: float | None, usual: float) -> float:
    if one is None or other is None:
        return 0.0 if one is other else math.inf
    apart, size = abs(one - other), max(abs(one), usual)
    return 0.0 if apart <= SMALLEST else apart / size if size else math.inf


def near(trusted: Values, others: Values, tolerance: float) -> list[bool]:
    """Whether each of the others is as near to the trusted value as rounding explains.

    >>> near([1.0, 1.0, None], [1.001, 1.2, None], 0.01)
    [True, False, True]
    """
    return [distance <= tolerance for distance in distances(trusted, others)]
