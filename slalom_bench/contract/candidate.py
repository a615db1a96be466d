"""What is checked: an explainer's instance, its class, and what it declares."""

from __future__ import annotations

import inspect
import traceback
from dataclasses import dataclass
from typing import Any

from slalom_bench import registry
from slalom_bench.errors import InvalidInput


@dataclass(frozen=True)
class Candidate:
    """What is checked: an instance, its class, and what it declares (None where it does not)."""

    name: str
    factory: Any
    instance: Any
    is_default: bool
    """Whether the instance was built here, without arguments."""
    problem: str = ""
    """Why it could not be built."""
    needs: frozenset[str] | None = None
    stochastic: bool | None = None
    family: str | None = None
    version: int | None = None


def told(error: BaseException, factory: Any) -> str:
    """An error with the file and line that raised it: the last one in the explainer's own file, if it got there."""
    try:
        own = inspect.getsourcefile(factory)
    except TypeError:  # defined where there is no file
        own = None
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename == own]
    where = "".join(f" ({frame.filename}, line {frame.lineno})" for frame in (inside or list(frames))[-1:])
    return f"{type(error).__name__}: {error}{where}"


def candidate_of(explainer: Any) -> Candidate:
    """A registered name, an explainer class or an instance, with the registry's or the class's own declarations."""
    if isinstance(explainer, str):
        return _describe(registry.explainers.get(explainer).factory, None)
    if inspect.isclass(explainer):
        return _describe(explainer, None)
    if not callable(getattr(explainer, "explain", None)):
        raise InvalidInput(f"{explainer!r} has no `explain`: give a registered name, an explainer class or an instance")
    return _describe(type(explainer), explainer)


def _describe(factory: Any, instance: Any) -> Candidate:
    entry = registry.explainers.of(factory)
    problem = ""
    is_default = instance is None
    if instance is None:
        try:
            instance = factory()
        except (Exception, SystemExit) as error:
            problem = told(error, factory)
    if entry is not None:
        declared = entry.describe()
    else:
        keys = ("needs", "stochastic", "family", "version")
        declared = {key: getattr(factory, key) for key in keys if hasattr(factory, key)}
    needs = declared.get("needs")
    return Candidate(
        entry.name if entry else factory.__name__,
        factory,
        instance,
        is_default,
        problem,
        needs=None if needs is None else frozenset(needs),
        stochastic=declared.get("stochastic"),
        family=declared.get("family"),
        version=declared.get("version"),
    )
