"""JSON from outside: whatever cannot be read of it is one kind of error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class TooDeep(ValueError):
    """Objects in objects without end."""


def parse_json(text: str | bytes, decode: Callable[[Any], Any] = json.loads) -> Any:
    """The data of a JSON text; anything else, and what is nested without end, is a ValueError.

    Another `decode` is that of a `json.JSONDecoder`, which says what to make of whole numbers, of NaN.

    >>> parse_json('{"a": 1}')
    {'a': 1}
    """
    try:
        return decode(text)
    except RecursionError:
        raise TooDeep("nested too deeply") from None
