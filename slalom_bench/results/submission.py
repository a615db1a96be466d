"""The submission: a run's results as a small JSON file that can be reviewed, checked and ranked.

One file holds one task, model and protocol: every explainer and budget, with the headline score of every sample, so
that means, intervals and ties can be computed again by whoever reads it. No text of a sample is in it.
"""

from __future__ import annotations

import json
import shlex
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from slalom_bench import registry
from slalom_bench.core.hashing import short_hash
from slalom_bench.core.references import Ref
from slalom_bench.core.safe_text import file_name
from slalom_bench.errors import InvalidInput
from slalom_bench.results.strict_json import read_record
from slalom_bench.running.facts import OUTSIDE
from slalom_bench.running.identity import (
    CellIdentity,
    Count,
    ExplainerIdentity,
    MetricLabel,
    ModelIdentity,
    Name,
    Params,
    Record,
    RemovalIdentity,
    TaskIdentity,
    Text,
)
from slalom_bench.running.records import FAILED, NOT_EXPLAINED

SIX_DIGITS = 6


def _label(value: Any) -> MetricLabel:
    if isinstance(value, MetricLabel):
        return value
    try:
        return MetricLabel.parse(str(value))
    except InvalidInput as error:
        raise ValueError(str(error)) from error


def _time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time needs its zone, as in 2026-01-31T12:00:00+00:00")
    return text


Label = Annotated[MetricLabel, PlainValidator(_label), PlainSerializer(str)]
"""A metric's label, spelled in JSON."""
Time = Annotated[Name, AfterValidator(_time)]
"""An ISO time with its zone."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Amount = Annotated[float, Field(ge=0)]


class MetricInfo(Record):
    """What a metric declared when its scores were computed, so that a reader needs no plug-in to rank them."""

    name: Name
    version: Count
    params: Params
    direction: Literal["higher", "lower"]
    unit: Text
    headline: Name
    level: Literal["explainer", "model"]
    """Whether it says something of the explainer, or of the model whatever the explainer."""
    summary: Text
    order: int
    """Where its column stands."""
    curve: Text
    """What its values k1, k2, ... are drawn against; empty where it has none."""
    scale: Literal["linear", "log"] | None = None
    """The scale on which rows are compared. None: the file is older than the question; see `boards`."""
    relevant: Annotated[float, Field(gt=0)] | None = None
    """The smallest difference that matters: in its unit, on the log scale as a share."""

    @model_serializer(mode="wrap")
    def _as_stated(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """An older file stays as it is, and so does the hash in its name."""
        said: dict[str, Any] = handler(self)
        return said if self.scale is not None else {k: v for k, v in said.items() if k not in ("scale", "relevant")}

    @property
    def label(self) -> MetricLabel:
        """The label that its name, version and parameters make."""
        return MetricLabel.of(self.name, self.version, self.params)

    @property
    def reference(self) -> str:
        """The metric as on the command line."""
        return str(Ref(self.name, None, self.params))


class MetricSummary(Record):
    """One metric on one row: the headline value of every sample (null: undefined), and what follows from them."""

    n: Count
    undefined: Count
    mean: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    spread: float | None
    """Standard deviation of the mean from seed to seed."""
    reasons: dict[Name, Count]
    values: list[float | None]
    parts: dict[Name, float]
    """Means of the metric's other values: the points of its curve, the other scores of a ranking metric."""
    halves: list[list[float | None]] = Field(default_factory=list)
    """Of a metric that draws masks: the headline value of every sample on either half of them (`core.halves`)."""

    @model_serializer(mode="wrap")
    def _as_stated(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A result without halves does not speak of them, as in files from before there were any."""
        said: dict[str, Any] = handler(self)
        return said if self.halves else {name: value for name, value in said.items() if name != "halves"}


class CostInfo(Record):
    """Means per sample of explaining as if alone, the `shared` forwards and `saved_seconds` included.

    Those are of answers that another explainer had already asked for: see `slalom_bench.core.types.Cost`.
    """

    queries: Amount
    forwards: Amount
    backwards: Amount
    hits: Amount
    tokens: Amount
    padding: Amount
    model_seconds: Amount
    seconds: Amount
    median_seconds: Amount
    saved_seconds: Amount
    batches: Amount = 0.0
    shared: Amount = 0.0


class SubmittedRow(Record):
    """One explainer at one budget, over its seeds."""

    explainer: ExplainerIdentity
    budget: Annotated[int, Field(ge=1)]
    seeds: Annotated[list[Count], Field(min_length=1)]
    failed: Count
    """Samples with an error in the explanation or in a metric, counted in each seed."""
    failures: dict[Name, Count]
    """The errors by their type; one sample may have several."""
    results: dict[Label, MetricSummary]
    cost: CostInfo | None
    scores_sha256: Sha256
    diagnostics: dict[Name, float] = Field(default_factory=dict)
    """Means over texts and seeds of what the method says of its own computation: see `results.diagnostics`."""
    law: Text = ""
    """The mask law that the method's surrogate was fitted to, where it says so. Describes, does not identify."""

    def unexplained(self, label: MetricLabel) -> int:
        """Texts without a value of a metric because the method failed on them."""
        return self.results[label].reasons.get(FAILED + NOT_EXPLAINED, 0) if label in self.results else 0

    @model_serializer(mode="wrap")
    def _as_stated(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A row without a law does not speak of it, as in older files."""
        said: dict[str, Any] = handler(self)
        return said if self.law else {name: value for name, value in said.items() if name != "law"}

    @property
    def title(self) -> str:
        """The explainer with its parameters, and the budget."""
        return f"{self.explainer.title}, budget {self.budget}"

    @property
    def key(self) -> str:
        """A hash by which the rows of one submission are told apart."""
        return short_hash([self.explainer.model_dump(), self.budget, self.seeds])


class Machine(Record):
    """What a run was timed on."""

    device: Name
    model: Name
    count: Count | None
    threads: Count | None

    @property
    def fingerprint(self) -> str:
        """A hash by which machines are told apart: seconds are compared inside one only."""
        return short_hash(self.model_dump(), 8)

    def __str__(self) -> str:
        threads = "" if self.threads is None else f", {self.threads} threads"
        return f"{self.count or 1} x {self.model} ({self.device}{threads})"


class Origin(Record):
    """Which code and machine; no paths, no command line of the submitter. No machine: calls ran on several."""

    slalom_bench: Name
    revision: Text | None
    dirty: bool | None
    python: Name
    platform: Text
    packages: dict[Name, Text | None]
    machine: Machine | None
    started: Time
    plugins: dict[Name, Text] = Field(default_factory=dict)
    """Of `explainer NAME`, `metric NAME` and so on that another package brought, that package and its version."""

    @model_serializer(mode="wrap")
    def _as_stated(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """An older file, and one without plug-ins, does not speak of them."""
        said: dict[str, Any] = handler(self)
        return said if self.plugins else {name: value for name, value in said.items() if name != "plugins"}

    def brought(self, kind: str, name: str) -> str:
        """What to install for a name that is not registered here, in words to end a sentence with."""
        package = self.plugins.get(f"{kind} {name}")
        return f": install {package}" if package else ", and the file names no package that brings it"


class Submission(Record):
    """The results of every explainer and budget on one task, model, protocol, removal rule, cut and set of samples."""

    kind: Literal["slalom-bench submission"] = "slalom-bench submission"
    schema_version: Literal[2] = 2
    suite: Name
    task: TaskIdentity
    model: ModelIdentity
    protocol: Literal["bench", "paper"]
    removal: RemovalIdentity
    max_tokens: Annotated[int, Field(ge=1)] | None
    target: Count | None = None
    """The class that is explained; None: class 1 of two, the predicted one of more."""
    cut: Count | None = None
    """Samples whose text was cut, to `max_tokens` or to what the model reads. None: the file is older than the
    question. Describes, does not identify."""
    samples: Annotated[list[Name], Field(min_length=1)]
    metrics: dict[Label, MetricInfo]
    rows: Annotated[list[SubmittedRow], Field(min_length=1)]
    origin: Origin

    @model_serializer(mode="wrap")
    def _as_stated(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """An older file stays as it is."""
        said: dict[str, Any] = handler(self)
        return {name: value for name, value in said.items() if name not in ("cut", "target") or value is not None}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything the file says of its scores."""
        said = self.model_dump(mode="json", exclude={"origin", "suite", "cut"})
        del said["model"]["training"]
        for row in said["rows"]:
            del row["cost"], row["diagnostics"]
            row.pop("law", None)
        return short_hash(said, 16)

    @cached_property
    def file_name(self) -> str:
        """Readable and unable to leave its folder."""
        return f"{file_name(self.task.name, self.model.name)}-{self.fingerprint}.json"

    def identity(self, row: SubmittedRow) -> CellIdentity:
        """The cell of a row's first seed."""
        return CellIdentity(
            task=self.task,
            model=self.model,
            explainer=row.explainer,
            budget=row.budget,
            seed=row.seeds[0],
            protocol=self.protocol,
            removal=self.removal,
            max_tokens=self.max_tokens,
            target=self.target,
        )

    def scores(self, row: SubmittedRow, label: MetricLabel) -> dict[str, float | None]:
        """The headline value of every sample."""
        return dict(zip(self.samples, row.results[label].values, strict=True))

    def half(self, row: SubmittedRow, label: MetricLabel, index: int) -> dict[str, float | None]:
        """The headline value of every sample on the first (0) or second (1) half of the metric's masks."""
        return dict(zip(self.samples, row.results[label].halves[index], strict=True))

    def command(self, row: SubmittedRow) -> str:
        """The command that computes a row again; names are quoted, so that none can be more than a word."""
        outside = row.explainer.family == OUTSIDE
        words = ["slalom-bench", "run"]
        if outside:
            words = ["slalom-bench", "score", "EXPLANATIONS.jsonl", "--name", row.explainer.name]
        words += ["--task", task_reference(self.task), "--model", self.model.name]
        words += [] if outside else ["--explainer", row.explainer.title]
        for label in row.results:
            words += ["--metric", self.metrics[label].reference]
        words += [] if outside else ["--budget", str(row.budget)]
        words += ["--samples", str(len(self.samples)), "--seed", ",".join(map(str, row.seeds))]
        words += [] if outside else ["--protocol", self.protocol, "--removal", str(self.removal)]
        if self.max_tokens is not None:
            words += ["--max-tokens", str(self.max_tokens)]
        if self.target is not None and not outside:
            words += ["--target", str(self.target)]
        return shlex.join(words)


def task_reference(task: TaskIdentity) -> str:
    """A task as on the command line; a file of the submitter's own goes by its name without its folder."""
    entry = registry.tasks.find(task.name)
    if entry is None or entry.argument is None:
        return str(Ref(task.name, None, task.params))
    params = dict(task.params)
    return str(Ref(task.name, str(params.pop(entry.argument, task.source)), params))


def rounded(value: float | None) -> float | None:
    """Six significant digits: what a submission keeps of a score."""
    return None if value is None else float(f"{value:.{SIX_DIGITS}g}")


def spell(data: Any, indent: int = 0) -> str:
    """JSON with one spelling: objects over lines, lists of plain values on one line, for reviews of the difference."""
    pad = " " * (indent + 1)
    if isinstance(data, dict) and data:
        items = [f"{pad}{json.dumps(key, ensure_ascii=False)}: {spell(data[key], indent + 1)}" for key in data]
        return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"
    if isinstance(data, list) and any(isinstance(item, dict | list) for item in data):
        return "[\n" + ",\n".join(pad + spell(item, indent + 1) for item in data) + "\n" + " " * indent + "]"
    return json.dumps(data, ensure_ascii=False, allow_nan=False)


def to_text(submission: Submission) -> str:
    """A submission as the text of its file."""
    return spell(submission.model_dump(mode="json")) + "\n"


def read_submission(path: Path) -> Submission:
    """A file as a submission, or an error that says what in it is wrong and where."""
    return read_record(path, Submission, "submit")
