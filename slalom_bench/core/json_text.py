"""JSON from outside: whatever cannot be read of it is one kind of error."""

from __future__ import annotations

import json
from typing import Any


class TooDeep(ValueError):
    """Objects in objects without end."""


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """The data of a JSON text; anything else, and what is nested without end, is a ValueError.

    Hooks are those of `json.loads`: what to make of whole numbers, of NaN.

    >>> parse_json('{"a": 1}')
    {'a': 1}
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise TooDeep("nested too deeply") from None
