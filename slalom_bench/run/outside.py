"""Scoring explanations that were computed elsewhere, as if an explainer of this project had made them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.references import Ref
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.run.external import describe, match, read_explanations
from slalom_bench.run.plan import Cell, Plan, Skip, cell_identity, usable_metrics
from slalom_bench.run.progress import Reporter
from slalom_bench.run.runner import Runner, RunResult, load_subjects
from slalom_bench.run.store import RunStore
from slalom_bench.run.suite import Suite

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions


@dataclass(frozen=True)
class Lookup:
    """An explainer that looks its explanations up."""

    explanations: Mapping[str, Explanation]

    def explain(self, classifier: Any, sample: Sample, budget: int, rng: Any) -> Explanation:
        return self.explanations[sample.id]


@dataclass(frozen=True)
class OutsideCell(Cell):
    """A cell whose explanations come from a file."""

    explanations: Mapping[str, Explanation] = field(default_factory=dict)

    def make_explainer(self) -> Lookup:
        return Lookup(self.explanations)


def sample_rows(suite: Suite, options: ModelOptions, reporter: Reporter) -> list[dict[str, Any]]:
    """The samples that a method outside has to explain: ids, texts and the model's content tokens."""
    (subject, *_others), _skips = load_subjects(suite, options, reporter)
    samples = (subject.classifier.encode(example, suite.max_tokens) for example in subject.examples)
    return [describe(sample, subject.classifier.tokens) for sample in samples]


def score_file(
    file: Path,
    name: str,
    suite: Suite,
    out: Path,
    options: ModelOptions,
    reporter: Reporter | None = None,
    command: list[str] | None = None,
) -> RunResult:
    """Score a file of explanations on the suite's first task and model; the method is stored as `name`."""
    reporter = reporter or Reporter(show=False)
    if not registry.NAME.fullmatch(name):
        raise InvalidInput(f"--name {name!r}: lower-case letters, digits, dots and dashes only")
    if name in registry.explainers.names():
        raise InvalidInput(f"--name {name!r} is an explainer of this installation; choose another")
    explanations = read_explanations(file)
    with RunStore(out).locked() as store:
        subjects, skips = load_subjects(suite, options, reporter)
        if len(subjects) != 1:
            raise InvalidInput(f"explanations belong to one task and model, not {len(subjects)}")
        (subject,) = subjects
        samples = [subject.classifier.encode(example, suite.max_tokens) for example in subject.examples]
        matched = match(explanations, samples)
        if matched.unknown:
            raise InvalidInput(
                f"{file.name}: {len(matched.unknown)} ids are no samples of this run, {matched.unknown[0]!r} first; "
                "give the --samples and --max-tokens that the samples were written with"
            )
        identity = {"name": name, "version": 1, "params": {"file": hashlib.sha256(file.read_bytes()).hexdigest()[:16]}}
        chosen = tuple(example for example in subject.examples if example.id in explanations)
        part = type(subject)(**{**vars(subject), "examples": chosen})
        more: list[Skip] = []
        metrics = usable_metrics(suite, part, more)
        whole = cell_identity(suite, part, identity, suite.budgets[0], suite.seeds[0])
        ref = Ref(name)
        cell = OutsideCell(part, ref, suite.budgets[0], suite.seeds[0], metrics, whole, explanations)
        for missing in matched.missing:
            more.append(Skip(f"{name} · sample {missing}", "not in the file"))
        plan = Plan((cell,), (*skips, *more))
        return Runner(suite, plan, store, "resume", reporter).run(command)
