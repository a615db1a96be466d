"""The context of a metric: what it may know beside the explanation it scores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from slalom_bench.core.seeds import generator
from slalom_bench.core.types import Cost, Example, Explanation, Sample, TaskData

T = TypeVar("T")


class Counting(Protocol):
    """A handle that counts what work costs."""

    def work(self) -> AbstractContextManager[Cost]:
        """Count the work of a block by itself, in a scope of its own."""
        ...

    def charge(self, cost: Cost) -> None:
        """Count work that was done before as if it were done again now."""
        ...


@dataclass
class Context:
    """The task, protocol and seed of a cell, and a memo for what a metric derives from them once.

    Args:
        task: the loaded task.
        protocol: `bench` or `paper`.
        seed: the seed of the cell.
        memo: results of `once`, shared by the cells of a run.
        explain: explains a sample again, `explain(classifier, sample)`: the same explainer, budget and seed on another
            handle, whose target is explained. None where explanations were computed elsewhere.
        max_tokens: where the cell cuts its texts, if it does.
    """

    task: TaskData
    protocol: str = "bench"
    seed: int = 0
    memo: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    explain: Callable[[Any, Sample], Explanation] | None = None
    max_tokens: int | None = None

    def rng(self, *names: str) -> np.random.Generator:
        """A generator that is the same for every explainer: masks and grids are shared."""
        return generator(self.seed, "metric", *names)

    def example(self, sample: Sample) -> Example:
        """The task's example that a sample was made of: what no tokenizer has touched (its pair, its annotators)."""
        examples = self.once(("examples",), lambda: {example.id: example for example in self.task.evaluation})
        return examples[sample.id]

    def once(self, key: tuple[Any, ...], make: Callable[[], T], asking: Counting | None = None) -> T:
        """The result of `make()`, computed the first time; name everything it depends on in the key.

        Args:
            key: names the result, and everything that it depends on.
            make: computes it.
            asking: the handle, where `make` asks the model or takes long. It does so in a scope of its own, and each
                later call is charged what the first one cost: a score's cost does not depend on which came first.
        """
        if asking is None:
            if key not in self.memo:
                self.memo[key] = make()
            return self.memo[key]
        if key in self.memo:
            asking.charge(self.memo[key][1])
        else:
            with asking.work() as cost:
                made = make()
            self.memo[key] = made, cost
        return self.memo[key][0]
