"""The shape of every record in a run directory, checked where it is read and before it is written.

A run directory may be damaged, or somebody else's, whatever its checksums say: what reads it may rely on these shapes.
Records stay the plain data that they are; a shape says only whether they fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from slalom_bench.core.json_text import parse_json
from slalom_bench.core.types import Cost
from slalom_bench.running.identity import LABEL
from slalom_bench.running.suite import Suite

T = TypeVar("T")
Shape = Callable[[Any], object]
"""Raises a ValueError where a record has another shape."""

HUGE = 1e50
"""No value of a metric is beyond this: sums of squares of such numbers would overflow."""
HALVES = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half a character, as JSON may spell it and as we never do."""

Number = Annotated[float, Field(ge=-HUGE, le=HUGE)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Amount = Annotated[float, Field(ge=0, le=HUGE)]


class Stored(BaseModel):
    """Base of all shapes: nothing is converted, nothing is infinite, and what is not named may be anything."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


# ---- rows ----


class Row(Stored):
    """What every row has."""

    id: str


class Fault(Stored):
    """An error of one sample."""

    type: str
    message: str
    passing: bool = False


class StoredExplanation(Stored):
    """What `Explanation.to_dict` writes."""

    scores: Annotated[dict[str, list[float]], Field(min_length=1)]
    primary: str
    target: Count = 1
    unsigned: list[str] = []
    surrogate: dict[str, Any] | None = None
    diagnostics: dict[str, Any] = {}

    @model_validator(mode="after")
    def _agree(self) -> StoredExplanation:
        if len({len(scores) for scores in self.scores.values()}) > 1:
            raise ValueError("scores of several lengths")
        if not {self.primary, *self.unsigned} <= self.scores.keys():
            raise ValueError("a score is named that is not there")
        return self


class Explained(Row):
    """A row of an explanation."""

    n: Count
    truncated: Count
    explanation: StoredExplanation
    asked: str | None = None


class NotExplained(Row):
    """A row of an explanation that failed."""

    error: Fault


def explanation_row(row: Any) -> object:
    """A row of explanations: one, or its error."""
    failed = isinstance(row, dict) and "error" in row
    return (NotExplained if failed else Explained).model_validate(row)


class ScoreRow(Row):
    """A row of scores: one metric on one sample."""

    values: dict[str, Number]
    undefined: dict[str, str]
    error: Fault | None = None


CostRow = create_model(  # type: ignore[call-overload]  # the names are those of the counts
    "CostRow", __base__=Row, **{field.name: Amount for field in fields(Cost)}
)
"""A row of costs: every count by name."""


class SampleRow(Row):
    """A row of samples: a text in a model's tokens."""

    text: str | None
    label: Count | None
    truncated: Count
    tokens: list[str]
    offsets: list[Annotated[list[Count], Field(min_length=2, max_length=2)]] | None
    marks: list[bool] | None
    marks_cut: Count = 0

    @model_validator(mode="after")
    def _agree(self) -> SampleRow:
        if any(part is not None and len(part) != len(self.tokens) for part in (self.offsets, self.marks)):
            raise ValueError("not as many offsets or marks as tokens")
        if self.text is not None and any(not start <= end <= len(self.text) for start, end in self.offsets or ()):
            raise ValueError("offsets that are not in the text")
        return self


# ---- files ----


class Done(Stored):
    """`done.json`: what a finished cell holds, with size and sha256 of each table."""

    samples: list[str]
    metrics: list[Annotated[str, Field(pattern=LABEL)]]
    tables: dict[str, Annotated[tuple[int, str], Field(strict=False)]] = {}


class Skip(Stored):
    """What a call left out."""

    what: str
    reason: str


class Revision(Stored):
    """The state of the code."""

    revision: str | None
    dirty: bool | None


class Machine(Stored):
    """What the models ran on."""

    model: str
    count: int | None
    device: str
    threads: int


class Texts(Stored):
    """Where texts came from."""

    kind: str
    name: str
    content_hash: str


class Source(Stored):
    """Texts and weights of one task and model."""

    task: str
    model: str
    source: Texts
    weights: str
    dtype: str
    device: str
    note: str = ""
    class_names: list[str] = []


class Call(Stored):
    """The record of one call: what was asked, where it ran, what came of it."""

    suite: Suite
    shard: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=2, max_length=2)] = [1, 1]
    slalom_bench: str
    git: Revision
    python: str
    platform: str
    packages: dict[str, str | None]
    machine: Machine
    command: list[str]
    started: str
    ended: str = ""
    skips: list[Skip] = []
    sources: list[Source]
    explained: Count = 0


class Calls(Stored):
    """`run.json`."""

    calls: list[Call]


class Quartiles(Stored):
    """A time over several texts."""

    median: Amount
    low: Amount
    high: Amount


class Memory(Stored):
    """The most that was held."""

    peak: Amount
    kind: str


class Profile(Stored):
    """`profile.json` of a cell: what it took, measured alone."""

    settings: dict[str, Any]
    seconds: Quartiles
    model_seconds: Quartiles
    outside_seconds: Quartiles
    queries: Amount
    forwards: Amount
    backwards: Amount
    tokens: Amount
    padding_share: Amount
    memory: Memory


def parse_stored(data: bytes) -> Any:
    """The data of a JSON text that we may have written; a ValueError where we cannot have."""
    found = parse_json(data.decode(), _DECODER.decode)
    if HALVES.search(data):
        json.dumps(found, ensure_ascii=False).encode()
    return found


def why(error: ValueError) -> str:
    """What is wrong with a record, in a few words."""
    if not isinstance(error, ValidationError):
        return str(error)[:200]
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}"[:300] if where else str(first["msg"])


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse)
"""Made once: `json.loads` would make one for every row."""
