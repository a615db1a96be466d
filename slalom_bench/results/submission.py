"""The submission: a run's results as a small JSON file that can be reviewed, checked and ranked.

One file holds one task, model and protocol: every explainer and budget, with the headline score of every sample, so
that means, intervals and ties can be computed again by whoever reads it. No text of a sample is in it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from slalom_bench import registry
from slalom_bench.core.hashing import short_hash
from slalom_bench.core.references import Ref
from slalom_bench.errors import InvalidInput
from slalom_bench.run.store import readable_name

SCHEMA_VERSION = 1
LARGEST_FILE = 20_000_000
EMBEDDED = "mini-"
"""Models that ship with the package begin so: their results are a demonstration and have tables of their own."""
OUTSIDE = "outside"
"""Family of methods that are not registered: their explanations came from a file (`slalom-bench score`)."""
STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
SIX_DIGITS = 6


def _plain(text: str) -> str:
    if STEERING.search(text):
        raise ValueError("control characters and direction marks are not allowed")
    return text


Text = Annotated[str, Field(max_length=400), AfterValidator(_plain)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_plain)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
Params = dict[Name, bool | int | float | Text | list[Any] | None]


class Part(BaseModel):
    """Base: nothing unknown, nothing infinite, nothing changed after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TaskInfo(Part):
    name: Name
    version: Count
    params: Params
    content: Name
    source: Text


class ModelInfo(Part):
    name: Name
    identity: Name
    dtype: Name

    @property
    def embedded(self) -> bool:
        return self.name.startswith(EMBEDDED)


class MetricInfo(Part):
    name: Name
    version: Count
    params: Params
    direction: Literal["higher", "lower"]
    unit: Text
    headline: Name
    level: Literal["explainer", "model"]
    """Whether it says something of the explainer, or of the model whatever the explainer."""
    summary: Text


class Result(Part):
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
    """Means of the metric's other values: k1..k10 of strict fidelity, the other scores of a ranking metric."""


class CostInfo(Part):
    """Means per sample of explaining alone: seconds include `saved_seconds`, what the model took for those queries that
    another explainer had already asked."""

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


class ExplainerInfo(Part):
    name: Name
    version: Count
    params: Params
    family: Name


class Entry(Part):
    """One explainer at one budget."""

    explainer: ExplainerInfo
    budget: Annotated[int, Field(ge=1)]
    seeds: Annotated[list[Count], Field(min_length=1)]
    failed: Count
    """Samples with an error in the explanation or in a metric; `failures` counts the errors by their type."""
    failures: dict[Name, Count]
    results: dict[Name, Result]
    cost: CostInfo | None
    scores_sha256: Sha256

    @property
    def title(self) -> str:
        return str(Ref(self.explainer.name, None, self.explainer.params))


class Machine(Part):
    device: Name
    model: Name
    count: Count | None
    threads: Count | None

    @property
    def fingerprint(self) -> str:
        return short_hash(self.model_dump(), 8)

    def __str__(self) -> str:
        threads = "" if self.threads is None else f", {self.threads} threads"
        return f"{self.count or 1} x {self.model} ({self.device}{threads})"


class Origin(Part):
    """Which code and machine; no paths, no command line of the submitter. No machine: calls ran on several."""

    slalom_bench: Name
    revision: Text | None
    dirty: bool | None
    python: Name
    platform: Text
    packages: dict[Name, Text | None]
    machine: Machine | None
    started: Name


class Submission(Part):
    kind: Literal["slalom-bench submission"] = "slalom-bench submission"
    schema_version: Literal[1] = 1
    suite: Name
    task: TaskInfo
    model: ModelInfo
    protocol: Literal["bench", "paper"]
    removal: Literal["delete", "mask", "pad"]
    max_tokens: Annotated[int, Field(ge=1)] | None
    samples: Annotated[list[Name], Field(min_length=1)]
    metrics: dict[Name, MetricInfo]
    entries: Annotated[list[Entry], Field(min_length=1)]
    origin: Origin

    @property
    def file_name(self) -> str:
        """Readable and unable to leave its folder; the hash is that of everything the file says of its scores."""
        said = self.model_dump(mode="json", exclude={"origin", "suite"})
        for entry in said["entries"]:
            del entry["cost"]
        return f"{readable_name(self.task.name, self.model.name)}-{short_hash(said, 16)}.json"

    def command(self, entry: Entry) -> str:
        """The command that computes a row again; names are quoted, so that none can be more than a word."""
        outside = entry.explainer.family == OUTSIDE
        words = ["slalom-bench", "run"]
        if outside:
            words = ["slalom-bench", "score", "EXPLANATIONS.jsonl", "--name", entry.explainer.name]
        words += ["--task", reference(self.task.name, self.task.source, self.task.params), "--model", self.model.name]
        words += [] if outside else ["--explainer", entry.title]
        for label in entry.results:
            metric = self.metrics[label]
            words += ["--metric", reference(metric.name, "", metric.params)]
        words += [] if outside else ["--budget", str(entry.budget)]
        words += ["--samples", str(len(self.samples)), "--seed", ",".join(map(str, entry.seeds))]
        words += [] if outside else ["--protocol", self.protocol, "--removal", self.removal]
        if self.max_tokens is not None:
            words += ["--max-tokens", str(self.max_tokens)]
        return shlex.join(words)


def reference(name: str, source: str, params: Mapping[str, Any]) -> str:
    """A task or metric as on the command line; a file of the user's own goes by its name without its folder."""
    entry = registry.tasks.find(name)
    return str(Ref(name, source if entry is not None and entry.argument else None, params))


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
    return spell(submission.model_dump(mode="json")) + "\n"


def read_submission(path: Path) -> Submission:
    """A file as a submission, or an error that says what in it is wrong and where."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidInput(f"{path}: more than {LARGEST_FILE:,} bytes is no submission")
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse, object_pairs_hook=_once)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}; give a file that `slalom-bench submit` wrote") from error
    except RecursionError as error:
        raise InvalidInput(f"{path}: nested too deeply to be a submission") from error
    except ValueError as error:
        raise InvalidInput(f"{path}: not JSON in UTF-8: {error}") from error
    found = data.get("schema_version") if isinstance(data, dict) else None
    if found != SCHEMA_VERSION:
        raise InvalidInput(f"{path}: schema_version is {found!r}, this version reads {SCHEMA_VERSION}; submit it again")
    try:
        return Submission.model_validate(data)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors()[:8]]
        more = f"\n  and {error.error_count() - 8} more" if error.error_count() > 8 else ""
        raise InvalidInput(f"{path}: not a submission:\n" + "\n".join(lines) + more) from error


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: a second `mean` could hide the first from a reviewer."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError(f"a key is given twice in {sorted(key for key, _ in pairs)}")
    return made
