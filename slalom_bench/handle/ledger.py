"""Counting: what model queries cost, in total and for each piece of work, and the budgets they are held to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from slalom_bench.core.types import Asked, Cost
from slalom_bench.errors import BudgetExceeded


class Ledger:
    """The counters of one model, shared by all views of its handle.

    >>> ledger = Ledger()
    >>> with ledger.work(budget=3) as cost:
    ...     ledger.ask(2)
    >>> cost.queries, ledger.total.queries
    (2, 2)
    """

    def __init__(self) -> None:
        self.total = Cost()
        self._works: list[tuple[Cost, int | None]] = []
        self._records: list[list[Asked]] = []

    @contextmanager
    def work(self, budget: int | None = None) -> Iterator[Cost]:
        """Count one piece of work by itself; pieces may be nested, and each counts what those inside it do.

        Args:
            budget: how many sequences may be asked for, duplicates included; None for any number.

        Returns:
            The piece's cost, which grows while it runs; its `seconds` are set at the end, with those of answers that
            were known (`charge`).
        """
        entry = (Cost(), budget)
        self._works.append(entry)
        start = time.perf_counter()
        try:
            yield entry[0]
        finally:
            entry[0].seconds += time.perf_counter() - start + entry[0].saved_seconds
            self._works = [work for work in self._works if work is not entry]

    def count(self, **amounts: float) -> None:
        """Add to the named fields of `Cost`, in total and in every piece of work under way."""
        for cost in (self.total, *(cost for cost, _ in self._works)):
            counters = vars(cost)
            for name, amount in amounts.items():
                counters[name] += amount

    def charge(self, cost: Cost) -> None:
        """Count answers that other work computed at this cost as if they had been computed now."""
        self.count(
            forwards=cost.forwards,
            batches=cost.batches,
            tokens=cost.tokens,
            padding=cost.padding,
            model_seconds=cost.model_seconds,
            shared=cost.forwards,
            saved_seconds=cost.model_seconds,
        )

    def repeat(self, cost: Cost) -> None:
        """Count a whole piece of work that was done before as if it were done again now."""
        self.charge(cost)
        outside = cost.seconds - cost.model_seconds
        self.count(queries=cost.queries, hits=cost.hits, backwards=cost.backwards, seconds=outside)

    def ask(self, queries: int) -> None:
        """Count so many sequences as asked for, before they are computed; more than a budget is an error."""
        self.count(queries=queries)
        for cost, budget in self._works:
            if budget is not None and cost.queries > budget:
                raise BudgetExceeded(f"{cost.queries} model queries for a budget of {budget}")

    @contextmanager
    def recording(self) -> Iterator[Callable[[], Asked]]:
        """Record which content sequences are asked for; records may be nested.

        Returns:
            A function that gives the keys so far, sorted, each once.
        """
        record: list[Asked] = [np.empty(0, np.uint64)]
        self._records.append(record)
        try:
            yield lambda: np.unique(np.concatenate(record))
        finally:
            self._records = [other for other in self._records if other is not record]

    def record(self, keys: Asked) -> None:
        """Add the keys of sequences that are asked for to every record under way."""
        for record in self._records:
            record.append(keys)

    @contextmanager
    def model_time(self) -> Iterator[None]:
        """Count the seconds of a block as spent inside the model, also if it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.count(model_seconds=time.perf_counter() - start)
