"""Seeds, and what a metric may know beside the explanation it scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from slalom_bench.types import TaskData

T = TypeVar("T")


def generator(seed: int, *names: str) -> np.random.Generator:
    """One generator per (seed, names); order, sharding, batch size and resume never change it."""
    words = np.frombuffer(hashlib.sha256("\0".join(names).encode()).digest(), np.uint32)
    return np.random.default_rng(np.random.SeedSequence([seed, *(int(word) for word in words)]))


@dataclass
class Context:
    """The task, protocol and seed of a cell, and a memo for what a metric derives from them once."""

    task: TaskData
    protocol: str = "bench"
    seed: int = 0
    memo: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def rng(self, *names: str) -> np.random.Generator:
        """A generator that is the same for every explainer: masks and grids are shared."""
        return generator(self.seed, "metric", *names)

    def once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """`make()` the first time; name everything it depends on in the key."""
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]
