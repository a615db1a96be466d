"""The truth of a synthetic task as a surrogate over the positions of one text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slalom_bench.errors import InvalidInput
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

PARAMETERS = {"linear": ("weight",), "slalom": ("value", "importance")}
"""The parameters of each kind of truth."""


def truth_kind(truth: Mapping[str, Any]) -> str:
    """The kind of a truth; an unknown one is refused."""
    kind = truth.get("kind")
    if kind not in PARAMETERS:
        raise InvalidInput(f"the truth of a task is one of {', '.join(PARAMETERS)}, not {kind!r}")
    return str(kind)


def true_surrogate(truth: Mapping[str, Any], words: list[str], target: int) -> LinearSurrogate | SlalomSurrogate | None:
    """The true log-odds of one text as a surrogate over its positions; None where a token is no word of the task."""
    words = [word.strip() for word in words]
    kind = truth_kind(truth)
    tables = [truth[name] for name in PARAMETERS[kind]]
    if any(word not in table for table in tables for word in words):
        return None
    sign = 1.0 if target == 1 else -1.0
    effects = [sign * tables[0][word] for word in words]
    if kind == "linear":
        return LinearSurrogate(effects, 0.0)
    return SlalomSurrogate(effects, [tables[1][word] for word in words])
