"""The two protocols of an explainer: `bench` (one explained quantity for all) and `paper` (as it was published).

An explainer that was published otherwise takes a parameter `protocol`; a run in the paper protocol sets it.
"""

from __future__ import annotations

from slalom_bench.errors import InvalidInput

PROTOCOLS = ("bench", "paper")


def is_paper(protocol: str) -> bool:
    """Whether to work as published; a protocol that does not exist is refused.

    >>> is_paper("bench")
    False
    """
    if protocol not in PROTOCOLS:
        raise InvalidInput(f"unknown protocol {protocol!r}; one of {', '.join(PROTOCOLS)}")
    return protocol == "paper"
