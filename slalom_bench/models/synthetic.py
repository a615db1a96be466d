"""Models that are a generated task's own law: no training, the answers are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_bench.core.options import Availability, ModelOptions
from slalom_bench.errors import Unsupported
from slalom_bench.registry import model

if TYPE_CHECKING:
    from slalom_bench.core.types import TaskData
    from slalom_bench.handle.backend import Backend


class Law:
    """The true log-odds of a generated task, as a classifier."""

    name = ""
    kind = ""
    task = ""

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        if task_name in (None, self.task):
            return Availability("built-in", f"the law of {self.task}")
        return Availability("unavailable", f"only for {self.task}")

    def require(self, task: TaskData) -> None:
        if task.truth.get("kind") != self.kind:
            raise Unsupported(f"model {self.name} is the law of {self.task}, which {task.task} does not follow")


@model("bag-of-words", version=1, family="closed form")
class BagOfWords(Law):
    """The sum of the word weights of synthetic-linear: what no transformer represents (proposition 4.1)."""

    name, kind, task = "bag-of-words", "linear", "synthetic-linear"

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        from slalom_bench.backends.closed_forms import bag_of_words

        self.require(task)
        return bag_of_words(task.truth["weight"])


@model("slalom-transformer", version=1, family="closed form")
class SlalomTransformer(Law):
    """The transformer that is a SLALOM with synthetic-slalom's values and importances (proposition 5.1)."""

    name, kind, task = "slalom-transformer", "slalom", "synthetic-slalom"

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        from slalom_bench.backends.closed_forms import slalom_transformer

        self.require(task)
        return slalom_transformer(task.truth["value"], task.truth["importance"])
