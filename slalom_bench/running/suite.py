"""The suite: everything that a run is asked to compute, validated; built in, from a TOML file, or made in Python."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from slalom_bench import registry
from slalom_bench.core.hashing import short_hash
from slalom_bench.core.parameters import MOST
from slalom_bench.core.safe_text import file_name
from slalom_bench.data.tables import read_text
from slalom_bench.errors import InvalidInput, SlalomBenchError

SCALES = "scales"


class Suite(BaseModel):
    """A frozen list of everything a run computes. Built-in ones are TOML files in `slalom_bench/suites/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    tasks: tuple[str, ...] = Field(min_length=1)
    models: tuple[str, ...] = Field(min_length=1)
    explainers: tuple[str, ...] = Field(min_length=1)
    metrics: tuple[str, ...] = ()
    """Empty: every metric that a task supports."""
    budgets: tuple[int, ...] = (1000,)
    samples: int = Field(default=10, ge=1, le=2**31)
    seeds: tuple[int, ...] = (0,)
    protocol: Literal["bench", "paper"] = "bench"
    removal: str = "delete"
    max_tokens: int | None = Field(default=None, ge=1, le=2**31)
    target: Annotated[int, Field(le=2**31)] | str | None = None
    """The class that is explained, by number or name; None: class 1 of two, the predicted one of more."""

    @field_validator("*")
    @classmethod
    def _storable(cls, value: Any) -> Any:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half a character (a lone surrogate) is in no file") from None
        return value

    @field_validator("tasks", "models", "explainers", "metrics", "budgets", "seeds")
    @classmethod
    def _once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(values))

    @field_validator("budgets")
    @classmethod
    def _positive(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if not values or min(values) < 1 or max(values) > MOST:
            raise ValueError(f"budgets must be at least one number, each from 1 to {MOST:,}")
        return values

    @field_validator("seeds")
    @classmethod
    def _seeds(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if not values or min(values) < 0 or max(values) >= 2**63:
            raise ValueError("seeds must be at least one number, none negative, none of more than 63 bits")
        return values

    @property
    def directory(self) -> Path:
        """Where its runs go unless told otherwise: runs/NAME for a built-in suite as it is, else with a hash of all."""
        name = file_name(self.name)
        if registry.suites.find(self.name) is not None and load_suite(self.name) == self:
            return Path("runs") / name
        return Path("runs") / f"{name}-{short_hash(self.model_dump(mode='json'), 8)}"

    def check_names(self) -> None:
        """Every name is registered and takes its parameters, before anything is computed."""
        for kind in (registry.tasks, registry.models, registry.explainers, registry.metrics):
            for text in getattr(self, f"{kind.kind}s"):
                kind.build(text)
        registry.removals.build(self.removal)


def make_suite(**values: Any) -> Suite:
    """A validated suite, or an error that names the bad field and value."""
    try:
        return Suite(**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "suite"
        fields = ", ".join(Suite.model_fields)
        extra = f" (fields: {fields})" if first["type"] == "extra_forbidden" else ""
        given = "" if first["type"] == "missing" else f", not {first['input']!r}"
        raise InvalidInput(f"{where}: {first['msg']}{given}{extra}") from error


def load_suite(name: str, scale: str | None = None, **overrides: Any) -> Suite:
    """A built-in suite by name or a user's by path; `scale` picks a table under [scales], overrides win."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InvalidInput(f"suite file {name} does not exist; built-in: {', '.join(registry.suites.names())}")
        text, title = read_text(path), path.stem
    else:
        entry = registry.suites.get(name)
        text, title = entry.factory(), name
    return parse_suite(text, title, name, scale, overrides)


def parse_suite(text: str, title: str, origin: str, scale: str | None, overrides: dict[str, Any]) -> Suite:
    """The suite of a TOML text; an error names the line of the bad value."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise InvalidInput(f"{origin}: nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"{origin}: {error}") from error
    scales = data.pop(SCALES, {})
    if not isinstance(scales, dict) or not all(isinstance(table, dict) for table in scales.values()):
        raise InvalidInput(f"{origin}: scales must be tables, [scales.NAME], not {scales!r}")
    if scale is not None and scale != "default":
        if scale not in scales:
            raise InvalidInput(f"{origin} has no scale {scale!r}; it has: {', '.join(['default', *scales])}")
        data |= scales[scale]
    given = {key: value for key, value in overrides.items() if value is not None}
    try:
        suite = make_suite(**{"name": title, **data, **given})
        suite.check_names()
    except SlalomBenchError as error:
        raise InvalidInput(f"{_place(text, str(error), origin)}{error}") from error
    return suite


def _place(text: str, message: str, origin: str) -> str:
    """`file, line 4: ` for the first line that holds a quoted value or the field that the message names."""
    quoted = [part for part in message.split("'")[1::2] if part]
    field = message.split(":")[0].split(".")[0]
    for wanted in (*quoted, field):
        for number, line in enumerate(text.splitlines(), start=1):
            if wanted and wanted in line:
                return f"{origin}, line {number}: "
    return f"{origin}: "
