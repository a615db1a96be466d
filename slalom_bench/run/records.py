"""Stored explanations as objects again: the inverse of `Explanation.to_dict`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slalom_bench import registry
from slalom_bench.core.surrogate import Surrogate
from slalom_bench.core.types import Explanation
from slalom_bench.errors import InvalidInput


def surrogate_from_dict(data: Mapping[str, Any]) -> Surrogate:
    """The surrogate of a stored explanation, by the registered name in `kind`."""
    return registry.surrogates.get(str(data.get("kind"))).from_dict(data)


def explanation_from_dict(data: Mapping[str, Any]) -> Explanation:
    """The explanation that `Explanation.to_dict` wrote; anything else is refused with its fault."""
    try:
        surrogate = data.get("surrogate")
        return Explanation(
            scores={name: np.asarray(v, np.float64) for name, v in data["scores"].items()},
            primary=data["primary"],
            target=int(data.get("target", 1)),
            unsigned=frozenset(data.get("unsigned", ())),
            surrogate=None if surrogate is None else surrogate_from_dict(surrogate),
            diagnostics=data.get("diagnostics", {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"not an explanation: {type(error).__name__}: {error}") from error
