"""The smallest budget with which an explainer can work."""

from __future__ import annotations

from slalom_bench.errors import InvalidInput


def require_budget(explainer: str, budget: int, minimum: int, why: str) -> None:
    """Refuse a budget of queries that is too small.

    Args:
        explainer: the name that the error gives.
        budget: the queries that are allowed.
        minimum: the queries that are needed.
        why: what they are needed for, in a few words.

    >>> require_budget("lime", 1, 2, "a slope and an intercept")
    Traceback (most recent call last):
    slalom_bench.errors.InvalidInput: lime needs a budget of at least 2 queries (a slope and an intercept), not 1
    """
    if budget < minimum:
        raise InvalidInput(f"{explainer} needs a budget of at least {minimum} queries ({why}), not {budget}")
