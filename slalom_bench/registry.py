"""One typed registry for each kind of thing that can be plugged in.

In-repository files register with a decorator and are found by walking their folder; other packages register through
the entry-point groups `slalom_bench.<kind>s`. Nothing is imported until a kind is asked for, another package only when
its name is, and registered modules keep heavy imports inside functions, so listing loads neither torch nor
transformers. A class that does not fit its Protocol (see `slalom_bench.interfaces`) is refused when it registers, with
the missing part named. A plug-in that cannot be imported is said once and left out; who asks for it is told why.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Literal, TypeVar

from slalom_bench.core.options import print_line
from slalom_bench.core.references import Ref
from slalom_bench.core.safe_text import line
from slalom_bench.entries import (
    Entry,
    ExplainerEntry,
    LawEntry,
    MetricEntry,
    ModelEntry,
    RemovalEntry,
    SuiteEntry,
    SurrogateEntry,
    TaskEntry,
    Tier,
)
from slalom_bench.errors import InvalidInput, NameCollision, SlalomBenchError, UnknownName
from slalom_bench.interfaces import Explainer, MaskLaw, Metric, Model, Removal, Surrogate, Task, misfit

NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


E = TypeVar("E", bound=Entry[Any])


class Registry(Generic[E]):
    """The things of one kind, by name.

    >>> explainers.get("lime").family
    'additive'
    """

    def __init__(self, entry: type[E], interface: type | None = None) -> None:
        self.entry = entry
        self.interface = interface
        self._entries: dict[str, E] = {}
        self._points: dict[str, list[EntryPoint]] = {}
        self._left_out: set[str] = set()
        self._loaded = False
        self._lock = threading.RLock()

    @property
    def kind(self) -> str:
        """The kind in one word: `task`, `explainer`, ..."""
        return self.entry.kind

    def add(self, entry: E) -> None:
        """Register one entry; a bad name, a class that does not fit or a name that is taken is refused."""
        if not NAME.fullmatch(entry.name):
            raise InvalidInput(f"{self.kind} name {entry.name!r}: lower-case letters, digits, dots and dashes only")
        if self.interface is not None and (missing := misfit(entry.factory, self.interface)):
            raise InvalidInput(f"{self.kind} {entry.name} ({entry.origin}) does not fit: {missing}")
        with self._lock:
            present = self._entries.get(entry.name)
            if present is not None and present.origin != entry.origin:
                raise NameCollision(
                    f"{self.kind} {entry.name!r} is registered twice: by {present.origin} and by {entry.origin}; "
                    "rename one of them or uninstall its package"
                )
            self._entries[entry.name] = entry

    def register(self, name: str, *, summary: str = "", needs: Iterable[str] = (), **declared: Any) -> Callable[[C], C]:
        """A class decorator that registers under a name what the class is and what is declared of it."""

        def decorate(cls: C) -> C:
            said = summary or (inspect.getdoc(cls) or "").split("\n")[0]
            self.add(
                self.entry(
                    name=name,
                    factory=cls,
                    origin=f"{cls.__module__}:{cls.__qualname__}",
                    summary=said,
                    needs=frozenset(needs),
                    **declared,
                )
            )
            return cls

        return decorate

    def names(self) -> list[str]:
        """Every registered name, sorted; those of other packages without importing them."""
        self._load()
        return sorted({*self._entries, *self._points})

    def get(self, name: str) -> E:
        """The entry of that name, or an error with the nearest names."""
        self._load()
        self._take(name)
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownName(self.kind, name, self.names()) from None

    def find(self, name: str) -> E | None:
        """The entry of that name, or None where nothing of that name can be had here."""
        self._load()
        try:
            self._take(name)
        except InvalidInput as error:
            self._leave_out(name, error)
        return self._entries.get(name)

    def of(self, factory: Any) -> E | None:
        """The entry of a class, or None where it is not registered."""
        return next((entry for entry in self._entries.values() if entry.factory is factory), None)

    def build(self, ref: Ref | str) -> Any:
        """The instance that a reference (`lime:tie=token`, `hf:DIR`) describes."""
        ref = Ref.parse(ref) if isinstance(ref, str) else ref
        return self.get(ref.name).build(ref.params, ref.argument)

    def entries(self) -> list[E]:
        """Every entry that can be had, sorted by name."""
        return [entry for name in self.names() if (entry := self.find(name)) is not None]

    @contextmanager
    def scratch(self) -> Any:
        """Registrations made inside the block vanish with it."""
        before = {entry.name: entry for entry in self.entries()}
        try:
            yield self
        finally:
            self._entries = before

    def _load(self) -> None:
        """Import the kind's folder and note the entry points, once."""
        with self._lock:
            if self._loaded:
                return
            self._loaded = True
            try:
                package = importlib.import_module(f"slalom_bench.{self.kind}s")
                for module in pkgutil.iter_modules(package.__path__):
                    self._import(f"{package.__name__}.{module.name}")
                for point in entry_points(group=f"slalom_bench.{self.kind}s"):
                    self._points.setdefault(point.name, []).append(point)
            except BaseException:
                self._loaded = False
                raise

    def _import(self, module: str) -> None:
        """Import a file of the folder; one that raises takes none of the others with it."""
        try:
            importlib.import_module(module)
        except NameCollision:
            raise
        except (Exception, SystemExit) as error:
            self._leave_out(module, error)

    def _take(self, name: str) -> None:
        """Import the package that says it has this name, where one does."""
        with self._lock:
            for point in self._points.get(name, ()):
                self._add_outside(point)

    def _leave_out(self, what: str, error: BaseException) -> None:
        if what not in self._left_out:
            self._left_out.add(what)
            said = str(error) if isinstance(error, SlalomBenchError) else f"{type(error).__name__}: {error}"
            print_line(line(f"left out {self.kind} {what}: {said}"))

    def _add_outside(self, point: EntryPoint) -> None:
        """An entry point names a class whose decorator has registered it, under the same name, by being imported."""
        try:
            found = point.load()
        except SlalomBenchError:
            raise
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}"
            raise InvalidInput(
                f"{self.kind} {point.name!r} cannot be had from {point.value}: {why}; repair or uninstall its package"
            ) from error
        entry = next((entry for entry in self._entries.values() if entry.factory is found), None)
        if entry is None:
            present = self._entries.get(point.name)
            if present is not None:
                raise NameCollision(
                    f"{self.kind} {point.name!r} is registered twice: by {present.origin} and by {point.value}; "
                    "rename one of them or uninstall its package"
                )
            raise InvalidInput(
                f"the entry point {point.name} = {point.value} leads to nothing that declares itself: decorate it with "
                f"@slalom_bench.{self.kind}({point.name!r}, ...)"
            )
        if entry.name != point.name:
            raise InvalidInput(f"the entry point {point.name} = {point.value} leads to {self.kind} {entry.name!r}")


tasks = Registry(TaskEntry, Task)
models = Registry(ModelEntry, Model)
explainers = Registry(ExplainerEntry, Explainer)
metrics = Registry(MetricEntry, Metric)
suites = Registry(SuiteEntry)
surrogates = Registry(SurrogateEntry, Surrogate)
removals = Registry(RemovalEntry, Removal)
laws = Registry(LawEntry, MaskLaw)
KINDS: dict[str, Registry[Any]] = {
    registry.kind: registry for registry in (tasks, models, explainers, metrics, suites, surrogates, removals, laws)
}


def task(
    name: str,
    *,
    version: int,
    source: str,
    licence: str,
    citation: str,
    class_names: Iterable[str] = (),
    argument: str | None = None,
    revision: str = "",
    training: Mapping[str, int] | None = None,
    trained_on: str = "",
    generated: bool = False,
) -> Callable[[C], C]:
    """Register a task (see `slalom_bench.interfaces.Task`).

    Args:
        name: lower-case letters, digits, dots and dashes.
        version: goes up with every fix of the data.
        source: where the texts come from, in words.
        licence: the terms of the texts.
        citation: what to cite.
        class_names: the classes, where they are known without the data.
        argument: the parameter that `name:argument` fills, if the task takes one.
        revision: pinned revisions of the sources.
        training: what the papers train with on it where it is not their usual (`layers`, `epochs`).
        trained_on: the task whose models are used for it, where they are not trained on its own texts.
        generated: whether the texts are drawn from a known law.
    """
    return tasks.register(
        name,
        version=version,
        source=source,
        licence=licence,
        citation=citation,
        class_names=tuple(class_names),
        argument=argument,
        revision=revision,
        training=dict(training or {}),
        trained_on=trained_on,
        generated=generated,
    )


def model(
    name: str,
    *,
    version: int,
    family: str = "other",
    tier: Tier = "full",
    stand_in: str | None = None,
    argument: str | None = None,
) -> Callable[[C], C]:
    """Register a model (see `slalom_bench.interfaces.Model`).

    Args:
        name: lower-case letters, digits, dots and dashes.
        version: goes up when the same name would answer otherwise.
        family: a word for filtering (transformer, perceptron, black box, ...).
        tier: `embedded` for models that ship with the package, `small-pretrained` for what a CPU fine-tunes, `exact`
            for a task's own law.
        stand_in: the embedded model that takes its place where it cannot be had.
        argument: the parameter that `name:argument` fills, if the model takes one.
    """
    return models.register(name, version=version, family=family, tier=tier, stand_in=stand_in, argument=argument)


def explainer(
    name: str,
    *,
    version: int,
    needs: Iterable[str],
    stochastic: bool,
    family: str,
    argument: str | None = None,
    extra: str = "",
) -> Callable[[C], C]:
    """Register an explainer (see `slalom_bench.interfaces.Explainer`).

    Args:
        name: lower-case letters, digits, dots and dashes.
        version: goes up with every change that can change a number.
        needs: out of queries, gradients, attentions, lrp, values, deeplift; a plan skips models that give less.
        stochastic: whether another seed gives another result.
        family: a word for filtering (slalom, additive, gradient, lrp, attention, baseline, ...); boards do not rank
            `search`.
        argument: the parameter that `name:argument` fills, if the explainer takes one.
        extra: the extra of this package whose packages it imports (`slalom_bench.core.extras`).
    """
    return explainers.register(
        name, version=version, needs=needs, stochastic=stochastic, family=family, argument=argument, extra=extra
    )


def metric(
    name: str,
    *,
    version: int,
    needs: Iterable[str],
    direction: Literal["higher", "lower"],
    unit: str,
    headline: str,
    level: Literal["explainer", "model"] = "explainer",
    order: int = 100,
    curve: str = "",
    scale: Literal["linear", "log"] = "linear",
    relevant: float | None = None,
    bounds: tuple[float | None, float | None] = (None, None),
    argument: str | None = None,
    default: bool = True,
) -> Callable[[C], C]:
    """Register a metric (see `slalom_bench.interfaces.Metric`). It applies to every task that gives what it needs.

    Args:
        name: lower-case letters, digits, dots and dashes.
        version: goes up with every change that can change a number.
        needs: out of queries, surrogate, and what a task may give: marks, annotators, pairs, train, truth.
        direction: whether higher or lower is better.
        unit: of its values, in words.
        headline: the value that tables rank; `@primary` for that of an explanation's primary score.
        level: `model` where it says something of the model, whatever the explainer.
        order: where its column stands in tables, low numbers first.
        curve: what its values named k1, k2, ... are drawn against, if it has such values.
        scale: `log` where methods are compared by geometric means, as for skewed errors; none may be negative then.
        relevant: the smallest difference that matters, in its unit; on the log scale as a share (0.05: 5 %).
        bounds: the lowest and the highest headline value that there can be, None for no end: a submission with a value
            beyond them is refused. On the log scale none is below zero.
        argument: the parameter that `name:argument` fills, if the metric takes one.
        default: whether a run that names no metrics computes it.
    """
    if direction not in ("higher", "lower"):
        raise InvalidInput(f"metric {name}: direction must be higher or lower, not {direction!r}")
    if scale not in ("linear", "log"):
        raise InvalidInput(f"metric {name}: scale must be linear or log, not {scale!r}")
    if relevant is not None and not relevant > 0:
        raise InvalidInput(f"metric {name}: a relevant difference is above zero, not {relevant!r}")
    return metrics.register(
        name,
        version=version,
        needs=needs,
        direction=direction,
        unit=unit,
        headline=headline,
        level=level,
        order=order,
        curve=curve,
        scale=scale,
        relevant=relevant,
        bounds=(0.0, bounds[1]) if scale == "log" and bounds[0] is None else bounds,
        argument=argument,
        default=default,
    )


def surrogate(kind: str, *, version: int) -> Callable[[C], C]:
    """Register a surrogate (see `slalom_bench.interfaces.Surrogate`) under the `kind` of its stored form."""
    return surrogates.register(kind, version=version)


def removal(name: str, *, version: int, needs: Iterable[str] = (), argument: str | None = None) -> Callable[[C], C]:
    """Register a removal rule (see `slalom_bench.interfaces.Removal`).

    Args:
        name: what `--removal` calls it.
        version: goes up when the same masks would leave other sequences.
        needs: what only some models give and the rule cannot do without (positions); a plan skips the others.
        argument: the parameter that `name:argument` fills, if the rule takes one.
    """
    return removals.register(name, version=version, needs=needs, argument=argument)


def law(name: str, *, version: int, argument: str | None = None) -> Callable[[C], C]:
    """Register a mask law (see `slalom_bench.interfaces.MaskLaw`).

    Args:
        name: what `law=...` of a regression calls it.
        version: goes up when the same seed would draw other masks; so does then that of what draws from it.
        argument: the parameter that `name:argument` fills, if the law takes one.
    """
    return laws.register(name, version=version, argument=argument)
