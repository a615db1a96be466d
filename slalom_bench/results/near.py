"""When two values of one score count as the same: after recomputing, and in two submissions of one row."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

TOLERANCE = 0.01
"""How far a score may be off, as a share of its size or of the median size of those that are trusted.

On one machine nothing differs; another number of threads changes last bits, which a fit or a ranking can enlarge."""
SMALLEST = 1e-9
"""A difference below this is none."""
Values = Sequence[float | None]


def near(trusted: Values, others: Values, tolerance: float = TOLERANCE) -> list[bool]:
    """Whether each of the others is as near to the trusted value as rounding explains; nothing in them widens that.

    >>> near([1.0, 1.0, None], [1.001, 1.2, None])
    [True, False, True]
    """
    usual = median([abs(value) for value in trusted if value is not None] or [0.0])
    return [
        one is other is None
        if one is None or other is None
        else abs(one - other) <= max(SMALLEST, tolerance * max(abs(one), usual))
        for one, other in zip(trusted, others, strict=True)
    ]
