"""The removal rule `delete`, which the handle itself falls back on."""

from __future__ import annotations

from slalom_bench.core.removal import Delete
from slalom_bench.registry import removal

removal("delete", version=1)(Delete)
