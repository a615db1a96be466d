"""Scoring explanations that were computed elsewhere, as if an explainer of this project had made them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from slalom_bench import registry
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.running.external import check_targets, describe, match, read_explanations
from slalom_bench.running.loading import Loader, Subject
from slalom_bench.running.plan import Plan, Planned, Skip, make_cell, usable_metrics
from slalom_bench.running.progress import Reporter
from slalom_bench.running.runner import Runner, RunResult
from slalom_bench.running.store import RunStore
from slalom_bench.running.suite import Suite


def sample_rows(suite: Suite, options: ModelOptions, reporter: Reporter) -> list[dict[str, Any]]:
    """The samples that a method outside has to explain: ids, texts and the model's content tokens."""
    loader = Loader(options, reporter)
    subject, _, samples = _samples(loader, suite, loader.plan(suite))
    classifier, target = subject.classifier, _target(subject, suite)
    return [
        describe(sample, classifier.tokens, classifier.default_target(sample) if target is None else target)
        for sample in samples
    ]


def _target(subject: Subject, suite: Suite) -> int | None:
    """The number of the class that is explained; None for the usual one."""
    return None if suite.target is None else subject.classifier.class_number(suite.target)


def _samples(loader: Loader, suite: Suite, plan: Plan) -> tuple[Subject, Planned, list[Sample]]:
    """The one model and task that explanations belong to, and the samples."""
    if len(plan.subjects) != 1:
        raise InvalidInput(f"explanations belong to one task and model, not {len(plan.subjects)}")
    (planned,) = plan.subjects
    subject = loader.model(planned.task, planned.model, suite.removal, suite.target)
    examples = subject.task.data.evaluation[: planned.samples]
    return subject, planned, [subject.sample(example, suite.max_tokens) for example in examples]


def score_file(
    file: Path,
    name: str,
    suite: Suite,
    out: Path,
    options: ModelOptions,
    reporter: Reporter | None = None,
    command: list[str] | None = None,
) -> RunResult:
    """Score a file of explanations on the suite's task and model.

    Args:
        file: JSON lines, as `slalom_bench.running.external` describes them.
        name: what the method is called; no registered explainer's name.
        suite: names the task, the model, the metrics and the samples.
        out: the run directory.
        options: how the model is loaded.
        reporter: shows progress.
        command: the command line, for the provenance.

    Returns:
        What was scored; samples that the file does not explain are skips.
    """
    if not registry.NAME.fullmatch(name):
        raise InvalidInput(f"--name {name!r}: lower-case letters, digits, dots and dashes only")
    if registry.explainers.find(name) is not None:
        raise InvalidInput(f"--name {name!r} is an explainer of this installation; choose another")
    explanations = read_explanations(file)
    loader = Loader(options, reporter)
    plan = loader.plan(suite)
    subject, planned, samples = _samples(loader, suite, plan)
    matched = match(explanations, samples)
    check_targets(matched.pairs, subject.classifier, _target(subject, suite))
    if matched.unknown:
        raise InvalidInput(
            f"{file.name}: {len(matched.unknown)} ids are no samples of this run, {matched.unknown[0]!r} first; "
            "give the --samples and --max-tokens that the samples were written with"
        )
    skips = [*plan.skips, *(Skip(f"{name} · sample {sample}", "not in the file") for sample in matched.missing)]
    content = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    metrics = usable_metrics(suite, planned, skips)
    cell = make_cell(suite, planned, f"{name}:file=sha256-{content}", suite.budgets[0], suite.seeds[0], metrics)
    cell = cell.model_copy(update={"explanations": str(file)})
    return Runner(suite, Plan((cell,), tuple(skips), plan.subjects), RunStore(out), loader).run(command)
