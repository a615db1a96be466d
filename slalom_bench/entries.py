"""What is registered of each kind of thing: its class, and what it declares of itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar

from slalom_bench.core.parameters import checked
from slalom_bench.core.references import Ref
from slalom_bench.errors import InvalidInput
from slalom_bench.interfaces import Explainer, MaskLaw, Metric, Model, Removal, Surrogate, Task

T = TypeVar("T")
Tier = Literal["full", "small-pretrained", "embedded", "exact"]
"""Of a model: of the size that a task calls for; pretrained and fine-tuned on a CPU; shipped with the package."""


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[T]):
    """A registered thing and what a listing says of it."""

    kind: ClassVar[str] = ""
    name: str
    factory: Callable[..., T]
    version: int
    origin: str
    """`module:class`, by which two registrations of one name are told apart."""
    summary: str = ""
    needs: frozenset[str] = frozenset()
    argument: str | None = None
    """The parameter that the argument of `name:argument` stands for, where the thing takes one."""

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """What the constructor takes."""
        return inspect.signature(self.factory).parameters

    def build(self, params: Mapping[str, Any] | None = None, argument: str | None = None) -> T:
        """Make an instance.

        Args:
            params: constructor parameters by name; unknown ones, and values that are not of the annotated type, are
                refused.
            argument: what stood after the colon.

        Returns:
            The instance.
        """
        given = dict(params or {})
        if argument is not None:
            if self.argument is None:
                takes = ", ".join(f"{name}=..." for name in self.parameters) or "no parameters"
                raise InvalidInput(
                    f"{self.kind} {self.name} takes no argument {argument!r} after the colon, but {takes}"
                )
            if self.argument in given:
                raise InvalidInput(f"{self.kind} {self.name}: {self.argument} is given twice")
            given[self.argument] = argument
        for key in given:
            if key not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise InvalidInput(f"{self.kind} {self.name} has no parameter {key!r}; it takes: {known}")
        return self.factory(**checked(f"{self.kind} {self.name}", self.factory, given))

    def given(self, ref: Ref) -> dict[str, Any]:
        """The parameters of a reference, sorted, its argument under the name of the parameter it stands for."""
        argument = {} if ref.argument is None or self.argument is None else {self.argument: ref.argument}
        return dict(sorted({**argument, **ref.params}.items()))

    def describe(self) -> dict[str, Any]:
        """Everything but the class itself, for `slalom-bench list --json`."""
        own = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "factory"}
        return {"kind": self.kind, **own, "needs": sorted(self.needs)}


@dataclass(frozen=True, kw_only=True)
class TaskEntry(Entry[Task]):
    """A registered task: where its texts come from and under which terms."""

    kind = "task"
    source: str
    licence: str
    citation: str
    class_names: tuple[str, ...] = ()
    """Empty where they depend on the data."""
    revision: str = ""
    training: Mapping[str, int] = field(default_factory=dict)
    """What the papers train with on this task where it is not their usual: `layers`, `epochs`."""
    trained_on: str = ""
    """The task whose models are used for it; empty where models are trained on its own texts."""
    generated: bool = False
    """Whether its texts are drawn from a known law, so that any number of fresh ones can be had."""


@dataclass(frozen=True, kw_only=True)
class ModelEntry(Entry[Model]):
    """A registered model."""

    kind = "model"
    family: str = "other"
    tier: Tier = "full"
    """Results of different tiers have tables of their own."""
    stand_in: str | None = None
    """The embedded model that takes its place where it cannot be had."""


@dataclass(frozen=True, kw_only=True)
class ExplainerEntry(Entry[Explainer]):
    """A registered explainer; `needs` are out of queries, gradients, attentions, lrp, values, deeplift."""

    kind = "explainer"
    stochastic: bool
    family: str
    extra: str = ""
    """The extra of this package that it needs, if any; a plan skips it where that is not installed."""


@dataclass(frozen=True, kw_only=True)
class MetricEntry(Entry[Metric]):
    """A registered metric; `needs` are out of queries, surrogate, and what a task may give (`GIVEN` in
    `slalom_bench.running.plan`: marks, annotators, pairs, train, truth)."""

    kind = "metric"
    direction: Literal["higher", "lower"]
    unit: str
    headline: str
    """The value that tables rank; `@primary` is the value of an explanation's primary score."""
    level: Literal["explainer", "model"] = "explainer"
    """Whether it says something of the explainer, or of the model whatever the explainer."""
    order: int = 100
    """Where its column stands: low numbers first, then by name."""
    curve: str = ""
    """What its values k1, k2, ... are drawn against (`number of deletions`); empty where it has no such values."""
    default: bool = True
    """Whether a run that names no metrics computes it; an expensive one is computed only where it is asked for."""
    scale: Literal["linear", "log"] = "linear"
    """The scale on which methods are compared; `log` for skewed errors, of which none is negative."""
    relevant: float | None = None
    """The smallest difference that matters: in its unit, on the log scale as a share; None where nobody said."""
    bounds: tuple[float | None, float | None] = (None, None)
    """The lowest and the highest headline value that there can be; None where there is no such end."""


@dataclass(frozen=True, kw_only=True)
class SuiteEntry(Entry[Any]):
    """A registered suite; `factory()` gives the text of its TOML file."""

    kind = "suite"
    tasks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    samples: int | None = None
    budgets: tuple[int, ...] = ()
    scales: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SurrogateEntry(Entry[Surrogate]):
    """A registered surrogate, by its `kind` in stored explanations."""

    kind = "surrogate"

    def from_dict(self, data: Mapping[str, Any]) -> Surrogate:
        """The surrogate that was stored as this."""
        cls: type[Surrogate] = self.factory  # type: ignore[assignment]
        return cls.from_dict(data)


@dataclass(frozen=True, kw_only=True)
class RemovalEntry(Entry[Removal]):
    """A registered removal rule; `needs` are out of what a model gives."""

    kind = "removal"


@dataclass(frozen=True, kw_only=True)
class LawEntry(Entry[MaskLaw]):
    """A registered mask law."""

    kind = "law"
