"""What methods say of themselves: the diagnostics of explanations, averaged over texts and seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

SHARES = ("converged", "exact", "cancelled")
"""Diagnostics that are true or false of a text."""
QUALITY = (
    *("mse", "r2", "standard_error", "completeness_gap", "relative_gap", "conservation_gap"),
    *(*SHARES, "steps", "rank", "features"),
)
"""The names under which boards show how good a method's own computation was: errors of a fit, of what was drawn and of
a sum, whether it ended, and the size of what was solved."""


LAW = "law"
"""The diagnostic that names the mask law a surrogate was fitted to."""


def average(reports: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Means of every diagnostic of `QUALITY` over the texts that have it, to six digits.

    Booleans give the share that is true; gaps, which have a sign, the mean of their size; standard errors, one for each
    token, the mean over tokens.

    >>> average([{"completeness_gap": -1.0, "converged": True}, {"completeness_gap": 3.0, "converged": False}])
    {'completeness_gap': 2.0, 'converged': 0.5}
    """
    found: dict[str, list[float]] = {}
    for report in reports:
        for name, value in report.items():
            if name == "standard_error" and isinstance(value, list) and value:
                value = math.fsum(value) / len(value)
            if name in QUALITY and isinstance(value, bool | int | float) and math.isfinite(value):
                found.setdefault(name, []).append(abs(value) if name.endswith("gap") else float(value))
    return {name: float(f"{math.fsum(found[name]) / len(found[name]):.6g}") for name in QUALITY if name in found}


def fitting_law(reports: Iterable[Mapping[str, Any]]) -> str:
    """The mask law that surrogates were fitted to, as the method names it; several where texts differ.

    >>> fitting_law([{"law": "mixed"}, {"law": "mixed"}, {}])
    'mixed'
    """
    return "; ".join(dict.fromkeys(str(report[LAW]) for report in reports if report.get(LAW)))
