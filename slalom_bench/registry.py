"""One registry for tasks, models, explainers, metrics, suites and surrogates.

In-repository files register with a decorator and are found by walking their folder; other packages register through
the entry-point groups `slalom_bench.<kind>s`. Nothing is imported until a kind is asked for, and registered modules
keep heavy imports inside functions, so listing loads neither torch nor transformers.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, TypeVar

from slalom_bench.errors import InvalidInput, NameCollision, UnknownName

KINDS = ("task", "model", "explainer", "metric", "suite", "surrogate")
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A registered thing and what a listing says of it."""

    kind: str
    name: str
    factory: Any
    """The class (or, for suites, the path of the file)."""
    version: int
    origin: str
    summary: str = ""
    needs: frozenset[str] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def build(self, params: Mapping[str, Any] | None = None) -> Any:
        """An instance with the given parameters; unknown ones are refused by name."""
        accepted = list(inspect.signature(self.factory).parameters)
        for key in params or {}:
            if key not in accepted:
                raise InvalidInput(
                    f"{self.kind} {self.name} has no parameter {key!r}; it takes: {', '.join(accepted) or 'none'}"
                )
        return self.factory(**(params or {}))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "version": self.version,
            "needs": sorted(self.needs),
            "summary": self.summary,
            "origin": self.origin,
            **self.metadata,
        }


_entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
_loaded: set[str] = set()
_lock = threading.RLock()


def add(entry: Entry) -> None:
    """Register one entry; a name already taken by another origin is refused, both named."""
    if entry.kind not in KINDS:
        raise InvalidInput(f"unknown kind {entry.kind!r}; one of {', '.join(KINDS)}")
    if not NAME.fullmatch(entry.name):
        raise InvalidInput(f"{entry.kind} name {entry.name!r}: lower-case letters, digits, dots and dashes only")
    with _lock:
        present = _entries[entry.kind].get(entry.name)
        if present is not None and present.origin != entry.origin:
            raise NameCollision(
                f"{entry.kind} {entry.name!r} is registered twice: by {present.origin} and by {entry.origin}; "
                "rename one of them or uninstall its package"
            )
        _entries[entry.kind][entry.name] = entry


def register(
    kind: str, name: str, *, version: int, needs: Iterable[str] = (), summary: str = "", **metadata: Any
) -> Callable[[type[T]], type[T]]:
    """Class decorator: `register("explainer", "lime", version=1, needs={"queries"})`."""

    def decorate(cls: type[T]) -> type[T]:
        first_line = (inspect.getdoc(cls) or "").split("\n")[0]
        origin = f"{cls.__module__}:{cls.__qualname__}"
        add(Entry(kind, name, cls, version, origin, summary or first_line, frozenset(needs), metadata))
        return cls

    return decorate


def task(
    name: str, *, version: int, metrics: Iterable[str], source: str, licence: str, citation: str,
    class_names: Iterable[str] = (), **more: Any,
) -> Callable[[type[T]], type[T]]:
    """Register a task: `cls(**params)` with `load(data_dir) -> TaskData`. `metrics`: what it supports."""
    return register(
        "task", name, version=version, metrics=tuple(metrics), source=source, licence=licence, citation=citation,
        class_names=tuple(class_names), **more,
    )


def model(name: str, *, version: int, **more: Any) -> Callable[[type[T]], type[T]]:
    """Register a model: see `slalom_bench.models`."""
    return register("model", name, version=version, **more)


def explainer(
    name: str, *, version: int, needs: Iterable[str], stochastic: bool, family: str, **more: Any
) -> Callable[[type[T]], type[T]]:
    """Register an explainer: `cls(**params)` with `explain(classifier, sample, budget, rng) -> Explanation`.

    `needs` out of queries, gradients, attentions; `family` is a word for filtering (slalom, additive, gradient, ...).
    """
    return register("explainer", name, version=version, needs=needs, stochastic=stochastic, family=family, **more)


def metric(
    name: str, *, version: int, needs: Iterable[str], direction: str, unit: str, headline: str, **more: Any
) -> Callable[[type[T]], type[T]]:
    """Register a metric: `cls(**params)` with `score(classifier, sample, explanation, context) -> Score`.

    `needs` out of queries, surrogate, marks, train, truth; `direction` is higher or lower; `headline` names the
    value that tables rank.
    """
    if direction not in ("higher", "lower"):
        raise InvalidInput(f"metric {name}: direction must be higher or lower, not {direction!r}")
    return register(
        "metric", name, version=version, needs=needs, direction=direction, unit=unit, headline=headline, **more
    )


def _load(kind: str) -> None:
    """Import the kind's folder and entry points, once."""
    if kind not in KINDS:
        raise InvalidInput(f"unknown kind {kind!r}; one of {', '.join(KINDS)}")
    with _lock:
        if kind in _loaded:
            return
        _loaded.add(kind)
        try:
            if kind == "suite":
                from slalom_bench.suites import built_in

                for entry in built_in():
                    add(entry)
            elif kind != "surrogate":
                package = importlib.import_module(f"slalom_bench.{kind}s")
                for module in pkgutil.iter_modules(package.__path__):
                    importlib.import_module(f"{package.__name__}.{module.name}")
            for point in entry_points(group=f"slalom_bench.{kind}s"):
                _add_outside(kind, point)
        except BaseException:
            _loaded.discard(kind)
            raise


def _add_outside(kind: str, point: Any) -> None:
    """An entry point names a class; a decorated class brings its metadata, a plain one gets version 1."""
    loaded = point.load()
    origin = f"{getattr(loaded, '__module__', point.value)}:{getattr(loaded, '__qualname__', '')}"
    present = _entries[kind].get(point.name)
    if present is not None and present.origin == origin:
        return
    needs = frozenset(getattr(loaded, "needs", ()))
    summary = (inspect.getdoc(loaded) or "").split("\n")[0]
    add(Entry(kind, point.name, loaded, int(getattr(loaded, "version", 1)), origin, summary, needs))


def names(kind: str) -> list[str]:
    """Every registered name of a kind, sorted."""
    _load(kind)
    return sorted(_entries[kind])


def get(kind: str, name: str) -> Entry:
    """The entry of that name, or an error with the nearest names."""
    _load(kind)
    try:
        return _entries[kind][name]
    except KeyError:
        raise UnknownName(kind, name, _entries[kind]) from None


def entries(kind: str) -> list[Entry]:
    """Every entry of a kind, sorted by name."""
    return [get(kind, name) for name in names(kind)]
