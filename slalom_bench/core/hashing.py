"""Hashes of plain data: the same for the same content, in every process and on every machine."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(data: Any) -> str:
    """JSON with one spelling, for hashing.

    >>> canonical({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(data: Any, length: int = 12) -> str:
    """The first `length` hexadecimal digits of the sha256 of `canonical(data)`.

    >>> short_hash({"a": 1, "b": 2}) == short_hash({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:length]
