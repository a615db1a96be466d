"""What a result is a result of: frozen, typed, the same from the plan to the store to a submission.

A cell's key is a hash of everything that can change its numbers. Fields that only describe (where the texts were found,
a model's tier, an explainer's family) are kept beside it and are not hashed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from slalom_bench.core.hashing import short_hash
from slalom_bench.core.references import Ref
from slalom_bench.core.safe_text import disguised, file_name, strange
from slalom_bench.entries import Tier
from slalom_bench.errors import InvalidInput

MOST = 2**63
"""Numbers that stand for themselves are smaller."""


@lru_cache(maxsize=10_000)
def _plain(text: str) -> str:
    if found := strange(text):
        raise ValueError(f"control characters, direction marks and invisible ones are not allowed: {found}")
    return text


@lru_cache(maxsize=10_000)
def _name(text: str) -> str:
    if word := disguised(_plain(text)):
        raise ValueError(f"{word!r} mixes letters that look like others: write it in plain letters of one alphabet")
    return text


Text = Annotated[str, Field(max_length=400), AfterValidator(_plain)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_name)]
Count = Annotated[int, Field(ge=0, lt=MOST)]
Scalar = bool | Annotated[int, Field(gt=-MOST, lt=MOST)] | float | Text | None
Params = Annotated[dict[Name, Scalar | Annotated[list[Scalar], Field(max_length=1000)]], Field(max_length=100)]


_GIVEN: dict[frozenset[str], set[str]] = {}


class Record(BaseModel):
    """Base of what is stored and published: nothing unknown, nothing infinite, nothing changed after it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def model_post_init(self, _: Any) -> None:
        """Which fields were given is kept once for all records that were given the same: it is larger than they are."""
        given = frozenset(self.model_fields_set)
        object.__setattr__(self, "__pydantic_fields_set__", _GIVEN.setdefault(given, self.model_fields_set))


class TaskIdentity(Record):
    """The texts: a task's version and parameters, and a hash of its content."""

    name: Name
    version: Count
    params: Params
    content: Name
    source: Text
    """Where they were found, without a machine's paths; describes, does not identify."""


class ModelIdentity(Record):
    """The model: a hash of its weights, configuration and tokenizer."""

    name: Name
    identity: Name
    dtype: Name
    tier: Tier = "full"
    """Models of different tiers have tables of their own; describes, does not identify."""
    training: Text = ""
    """What it was trained with, in words, as far as that bears on explanations; empty where it is not known. Describes,
    does not identify."""


class ExplainerIdentity(Record):
    """The method, with its version and parameters."""

    name: Name
    version: Count
    params: Params
    family: Name = "other"
    """A word for filtering; describes, does not identify."""

    @property
    def title(self) -> str:
        """Name and parameters as on the command line."""
        return str(Ref(self.name, None, self.params))


class RemovalIdentity(Record):
    """The removal rule, with its version and parameters."""

    name: Name
    version: Count
    params: Params

    def __str__(self) -> str:
        return str(Ref(self.name, None, self.params))


DESCRIPTIONS: dict[str, set[str]] = {"task": {"source"}, "model": {"tier", "training"}, "explainer": {"family"}}
"""Fields of an identity that are not hashed."""


class CellIdentity(Record):
    """task x model x explainer x budget x seed under one protocol, removal rule and cut of the texts."""

    task: TaskIdentity
    model: ModelIdentity
    explainer: ExplainerIdentity
    budget: Annotated[int, Field(ge=1)]
    seed: Count
    protocol: Literal["bench", "paper"]
    removal: RemovalIdentity
    max_tokens: Annotated[int, Field(ge=1)] | None
    target: Count | None = None
    """The class that is explained; None: class 1 of two, the predicted one of more."""

    @property
    def key(self) -> str:
        """A hash of everything that can change the cell's numbers."""
        return short_hash(self._said(), 16)

    @property
    def samples_key(self) -> str:
        """A hash of what decides how the texts become samples: task, model and cut."""
        said = self._said()
        return short_hash({name: said[name] for name in ("task", "model", "max_tokens")}, 16)

    @property
    def subject_key(self) -> str:
        """A hash of all but explainer, budget and seed: what one submission holds."""
        return self._without("explainer", "budget", "seed")

    @property
    def table_key(self) -> str:
        """A hash of all but explainer and seed: cells that share it may be compared."""
        return self._without("explainer", "seed")

    @property
    def rules_key(self) -> str:
        """A hash of all but explainer, seed and removal rule: rules may be compared on cells that share it."""
        return self._without("explainer", "seed", "removal")

    @property
    def subject_free_key(self) -> str:
        """A hash of all but model, explainer and seed: models may be compared on cells that share it."""
        return self._without("model", "explainer", "seed")

    @property
    def folder(self) -> str:
        """A folder name that a person can read and that no name in it can escape from."""
        readable = file_name(self.task.name, self.model.name, self.explainer.name)
        return f"{readable}_b{self.budget}_s{self.seed}-{self.key}"

    @property
    def title(self) -> str:
        """The cell in one line."""
        return f"{self.task.name} · {self.model.name} · {self.explainer.title} · b={self.budget} · seed {self.seed}"

    def _said(self) -> dict[str, Any]:
        said = self.model_dump(mode="json", exclude=None if self.target is not None else {"target"})
        for part, names in DESCRIPTIONS.items():
            for name in names:
                del said[part][name]
        return said

    def _without(self, *names: str) -> str:
        return short_hash({name: part for name, part in self._said().items() if name not in names}, 16)


LABEL = r"^([a-z0-9][a-z0-9.-]*)@([0-9]{1,9})(?:-([0-9a-f]{8}))?$"
"""How a metric's label is spelled."""


@dataclass(frozen=True, slots=True, order=True)
class MetricLabel:
    """A metric with its version and a hash of its parameters: what its scores are stored under.

    >>> str(MetricLabel.of("deletion", 1))
    'deletion@1'
    >>> MetricLabel.parse("strict-fidelity@1-0a1b2c3d").name
    'strict-fidelity'
    """

    name: str
    version: int
    params: str = ""
    """A hash of the parameters; empty for the defaults."""

    @classmethod
    def of(cls, name: str, version: int, params: Mapping[str, Any] | None = None) -> MetricLabel:
        """The label of a metric with these parameters."""
        return cls(name, version, short_hash(dict(params), 8) if params else "")

    @classmethod
    @lru_cache(maxsize=10_000)
    def parse(cls, text: str) -> MetricLabel:
        """The inverse of `str`."""
        found = re.fullmatch(LABEL, text)
        if found is None:
            raise InvalidInput(f"{text!r} is no metric label; expected NAME@VERSION[-HASH]")
        return cls(found[1], int(found[2]), found[3] or "")

    @property
    def unversioned(self) -> str:
        """Name and parameters, for comparing one metric across its versions."""
        return f"{self.name}@{self.params}" if self.params else self.name

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" + (f"-{self.params}" if self.params else "")
