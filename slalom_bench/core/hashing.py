"""What a run is asked to do: references to registered things, and the suite that names them all."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(data: Any) -> str:
    """JSON with one spelling, for hashing."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(data: Any, length: int = 12) -> str:
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:length]
