"""What a run is asked to do: references to registered things, and the suite that names them all."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from slalom_bench import registry
from slalom_bench.core.references import WITH_ARGUMENT, Ref
from slalom_bench.core.removal import REMOVALS
from slalom_bench.errors import InvalidInput


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
    samples: int = Field(default=10, ge=1)
    seeds: tuple[int, ...] = (0,)
    protocol: Literal["bench", "paper"] = "bench"
    removal: str = "delete"
    max_tokens: int | None = Field(default=None, ge=1)

    @field_validator("tasks", "models", "explainers", "metrics", "budgets", "seeds")
    @classmethod
    def _once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(values))

    @field_validator("budgets")
    @classmethod
    def _positive(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if not values or min(values) < 1:
            raise ValueError("budgets must be at least one positive number")
        return values

    @field_validator("seeds")
    @classmethod
    def _seeds(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if not values or min(values) < 0:
            raise ValueError("seeds must be at least one number, none negative")
        return values

    @field_validator("removal")
    @classmethod
    def _removal(cls, value: str) -> str:
        if value not in REMOVALS:
            raise ValueError(f"unknown removal rule {value!r}; one of {', '.join(REMOVALS)}")
        return value

    def check_names(self) -> None:
        """Every name is registered and takes its parameters, before anything is computed."""
        for kind in ("task", "explainer", "metric"):
            for text in getattr(self, f"{kind}s"):
                ref = Ref.parse(text)
                entry = registry.get(kind, ref.name)
                if kind != "task":
                    entry.build(ref.params)
        for text in self.models:
            ref = Ref.parse(text)
            if ref.name not in WITH_ARGUMENT:
                registry.models.get(ref.name)


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
