"""Models that are a generated task's true log-odds in closed form: no training, the answers are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_bench.core.options import Availability, ModelOptions
from slalom_bench.errors import Unsupported
from slalom_bench.registry import model

if TYPE_CHECKING:
    from slalom_bench.core.types import TaskData
    from slalom_bench.handle.backend import Backend


class _TrueModel:
    """The true log-odds of a generated task, as a classifier."""

    name = ""
    kind = ""
    task = ""

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """Built in, for its own task."""
        if task_name in (None, self.task):
            return Availability("built-in", f"the true log-odds of {self.task}")
        return Availability("unavailable", f"only for {self.task}")

    def trained_with(self, task: TaskData, options: ModelOptions) -> str:
        """It was not."""
        return "none, a closed form"

    def require(self, task: TaskData) -> None:
        """Refuse a task with another truth."""
        if task.truth.get("kind") != self.kind:
            raise Unsupported(f"model {self.name} gives the true log-odds of {self.task}, not of {task.task}")


@model("bag-of-words", version=1, family="closed form", tier="exact")
class BagOfWords(_TrueModel):
    """The sum of the word weights of synthetic-linear: what no transformer represents (proposition 4.1).

    Choose it:
        On `synthetic-linear`, where every method should find the weights.

    Example:
        "best worst the": 1.0 - 1.5 + 0 = -0.5; without "worst" 1.0.

    Reference:
        Leemann et al. 2025, proposition 4.1 and appendix E.1.
    """

    name, kind, task = "bag-of-words", "linear", "synthetic-linear"

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """The model with the task's parameters."""
        from slalom_bench.backends.closed_forms import bag_of_words

        self.require(task)
        return bag_of_words(task.truth["weight"])


@model("slalom-transformer", version=1, family="closed form", tier="exact")
class SlalomTransformer(_TrueModel):
    """The transformer that is a SLALOM with synthetic-slalom's values and importances (proposition 5.1).

    Choose it:
        On `synthetic-slalom`, where SLALOM should find values and importances.

    Example:
        "great movie", values 0.89 and 0.10, weights 4.44 and 0.04: (4.44 x 0.89 + 0.04 x 0.10) / 4.48 = 0.89; without
        "great" 0.10.

    Reference:
        Leemann et al. 2025, proposition 5.1 (key and query exchanged) and appendix E.2.
    """

    name, kind, task = "slalom-transformer", "slalom", "synthetic-slalom"

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """The model with the task's parameters."""
        from slalom_bench.backends.closed_forms import slalom_transformer

        self.require(task)
        return slalom_transformer(task.truth["value"], task.truth["importance"])
