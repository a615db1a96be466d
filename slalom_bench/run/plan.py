"""From a suite to cells: what will be computed, what is skipped and why, and what it will cost at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.hashing import short_hash
from slalom_bench.core.references import Ref
from slalom_bench.core.types import Example, Sample, TaskData
from slalom_bench.run.explainers import build_explainer
from slalom_bench.run.store import SCHEMA
from slalom_bench.run.suite import Suite

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


@dataclass(frozen=True)
class Subject:
    """A loaded model on a loaded task: what explainers are run on."""

    task: Ref
    data: TaskData
    model: str
    """The model's name as resolved, e.g. mini-bert where bert cannot be had."""
    classifier: Classifier
    examples: tuple[Example, ...]
    note: str = ""
    _samples: dict[tuple[str, int | None], Sample] = field(default_factory=dict, repr=False, compare=False)

    def sample(self, example: Example, max_tokens: int | None) -> Sample:
        """An example in this model's tokens, encoded once."""
        key = (example.id, max_tokens)
        if key not in self._samples:
            self._samples[key] = self.classifier.encode(example, max_tokens)
        return self._samples[key]


@dataclass(frozen=True)
class MetricUse:
    """A metric with parameters, and the label under which its scores are stored."""

    ref: Ref
    entry: registry.Entry

    @property
    def label(self) -> str:
        suffix = f"-{short_hash(dict(self.ref.params), 8)}" if self.ref.params else ""
        return f"{self.entry.name}@{self.entry.version}{suffix}"


@dataclass(frozen=True)
class Cell:
    """task x model x explainer x budget x seed, with the metrics that apply."""

    subject: Subject
    explainer: Ref
    budget: int
    seed: int
    metrics: tuple[MetricUse, ...]
    identity: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"{self.subject.task} · {self.subject.model} · {self.explainer} · b={self.budget} · seed {self.seed}"

    def make_explainer(self) -> Any:
        """The explainer that this cell runs."""
        return build_explainer(self.explainer, self.identity["protocol"])


@dataclass(frozen=True)
class Skip:
    what: str
    reason: str


@dataclass(frozen=True)
class Plan:
    cells: tuple[Cell, ...]
    skips: tuple[Skip, ...] = field(default=())

    def subjects(self) -> list[Subject]:
        """The models on tasks that any cell runs on."""
        return list({id(cell.subject): cell.subject for cell in self.cells}.values())

    def estimate(self) -> dict[str, int]:
        """An upper bound of the explaining: every budget used up, on sequences as long as the samples."""
        queries = tokens = 0
        lengths: dict[int, list[int]] = {}
        for cell in self.cells:
            subject = cell.subject
            if id(subject) not in lengths:
                extra = len(subject.classifier.tokens.prefix) + len(subject.classifier.tokens.suffix)
                limit = cell.identity["max_tokens"] or subject.classifier.max_content or 10**9
                counts = [len(subject.classifier.tokens.encode(e.text)[0]) for e in subject.examples]
                lengths[id(subject)] = [min(count, limit) + extra for count in counts]
            queries += cell.budget * len(subject.examples)
            tokens += cell.budget * sum(lengths[id(subject)])
        return {"cells": len(self.cells), "queries": queries, "tokens": tokens}


def make_plan(suite: Suite, subjects: list[Subject], skips: list[Skip]) -> Plan:
    """Every combination of the suite on its subjects; what cannot be done is a skip with its reason."""
    cells: list[Cell] = []
    skips = list(skips)
    for subject in subjects:
        metrics = usable_metrics(suite, subject, skips)
        where = f"{subject.task} · {subject.model}"
        for text in suite.explainers:
            ref = Ref.parse(text)
            entry = registry.explainers.get(ref.name)
            if missing := sorted(entry.needs - subject.classifier.capabilities):
                skips.append(Skip(f"{where} · {ref}", f"needs {' and '.join(missing)}, which this model does not give"))
                continue
            seeds = suite.seeds
            if len(seeds) > 1 and not entry.stochastic:
                seeds = suite.seeds[:1]
                skips.append(Skip(f"{where} · {ref} · seeds {suite.seeds[1:]}", "not stochastic: one seed says it all"))
            explainer = {"name": entry.name, "version": entry.version, "params": dict(sorted(ref.params.items()))}
            for budget in suite.budgets:
                for seed in seeds:
                    identity = cell_identity(suite, subject, explainer, budget, seed)
                    cells.append(Cell(subject, ref, budget, seed, metrics, identity))
    return Plan(tuple(cells), tuple(skips))


def usable_metrics(suite: Suite, subject: Subject, skips: list[Skip]) -> tuple[MetricUse, ...]:
    """The metrics asked for (or all that the task supports) that this task's data allow."""
    everything = sorted(registry.metrics.entries(), key=lambda entry: (entry.order, entry.name))
    wanted = suite.metrics or tuple(entry.name for entry in everything)
    has = {
        "marks": any(example.word_marks is not None for example in subject.examples),
        "train": bool(subject.data.train),
        "truth": bool(subject.data.truth),
    }
    uses = []
    for text in wanted:
        ref = Ref.parse(text)
        entry = registry.metrics.get(ref.name)
        missing = sorted(need for need in entry.needs & has.keys() if not has[need])
        if missing and not suite.metrics:
            continue
        if missing:
            words = {"marks": "human marks", "train": "training texts", "truth": "a known truth"}
            reason = f"the task has no {' and no '.join(words[need] for need in missing)}"
            skips.append(Skip(f"{subject.task} · {subject.model} · metric {ref}", reason))
        else:
            uses.append(MetricUse(ref, entry))
    return tuple(uses)


def cell_identity(
    suite: Suite, subject: Subject, explainer: Mapping[str, Any], budget: int, seed: int
) -> dict[str, Any]:
    """Everything that can change a result: its hash is the cell's key."""
    task = registry.tasks.get(subject.task.name)
    params = dict(sorted(subject.task.params.items()))
    return {
        "schema": SCHEMA,
        "task": {
            "name": task.name,
            "version": task.version,
            "params": params,
            "content": subject.data.source.content_hash,
            "source": subject.data.source.name,
        },
        "model": {
            "name": subject.model,
            "identity": subject.classifier.identity(),
            "dtype": subject.classifier.backend.dtype,
        },
        "explainer": dict(explainer),
        "budget": budget,
        "seed": seed,
        "protocol": suite.protocol,
        "removal": suite.removal,
        "max_tokens": suite.max_tokens,
    }
