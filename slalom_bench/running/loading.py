"""Tasks and models brought up when a cell needs them, and let go when no further cell does."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from slalom_bench import registry
from slalom_bench.core.collecting import no_collections
from slalom_bench.core.options import ModelOptions, Outline
from slalom_bench.core.references import Ref
from slalom_bench.core.types import Example, Sample, TaskData
from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.classifier import Classifier
from slalom_bench.interfaces import OutlinedModel
from slalom_bench.models.loading import load_model, model_training, resolve_model
from slalom_bench.running.external import read_explanations
from slalom_bench.running.facts import Facts, refused, target, task_identity
from slalom_bench.running.identity import CellIdentity, ModelIdentity, TaskIdentity
from slalom_bench.running.plan import Cell, Plan, Planned, Skip, check_removal, make_plan
from slalom_bench.running.progress import Reporter
from slalom_bench.running.suite import Suite


@dataclass
class LoadedTask:
    """A task's data, and a memo for what metrics derive from them once."""

    ref: Ref
    data: TaskData
    memo: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    @cached_property
    def identity(self) -> TaskIdentity:
        """What identifies its texts."""
        return task_identity(self.ref, self.data.source)

    def bare(self) -> LoadedTask:
        """The same with an empty memo, and identified here: where its file is, that tells its content from its name."""
        task = LoadedTask(self.ref, self.data)
        task.__dict__["identity"] = self.identity
        return task

    def gives(self, samples: int) -> frozenset[str]:
        """What metrics may need and this task has."""
        chosen = self.data.evaluation[:samples]
        has = {
            "marks": any(example.word_marks is not None for example in chosen),
            "annotators": any(example.word_shares is not None for example in chosen),
            "pairs": any(example.counterpart is not None for example in chosen),
            "train": bool(self.data.train),
            "truth": bool(self.data.truth),
        }
        return frozenset(name for name, there in has.items() if there)


@dataclass
class Subject:
    """A loaded model on a loaded task: what explainers are run on."""

    task: LoadedTask
    model: str
    """The model's reference as resolved, e.g. mini-bert where bert cannot be had."""
    classifier: Classifier
    note: str = ""
    training: str = ""
    """What the model was trained with, in words; empty where that is not known."""
    _samples: dict[tuple[str, int | None], Sample] = field(default_factory=dict, repr=False)

    def sample(self, example: Example, max_tokens: int | None) -> Sample:
        """An example in this model's tokens, encoded once."""
        key = (example.id, max_tokens)
        if key not in self._samples:
            try:
                example.text.encode()  # half a character can be given to some tokenizers, and stored by none
                self._samples[key] = self.classifier.encode(example, max_tokens)
            except (TypeError, UnicodeError) as error:  # a lone surrogate, say
                raise InvalidInput(f"example {example.id}: the tokenizer does not take its text: {error}") from error
        return self._samples[key]

    def examples(self, cell: Cell) -> tuple[Example, ...]:
        """The texts of a cell; of explanations from a file those that it explains."""
        chosen = self.task.data.evaluation[: cell.samples]
        if cell.explanations is not None:
            explained = read_explanations(Path(cell.explanations))
            chosen = [example for example in chosen if example.id in explained]
        return tuple(chosen)

    def planned(self, samples: int) -> Planned:
        """What a plan needs to know of a subject that is loaded already."""
        count = min(samples, len(self.task.data.evaluation))
        return Planned(
            task=str(self.task.ref),
            model=self.model,
            samples=count,
            gives=self.task.gives(count),
            capabilities=self.classifier.capabilities,
        )

    def identify(self, cell: Cell) -> CellIdentity:
        """A cell of this subject with everything that can change its numbers."""
        return self.facts().identify(cell)

    def target(self, cell: Cell) -> int | None:
        """The class that a cell explains; None for the usual one, also where it was asked for by name or number."""
        return target(cell, self.classifier.class_names)

    def facts(self, estimate: Mapping[str, int] | None = None) -> Facts:
        """What it is, as plain data."""
        handle, entry = self.classifier, registry.models.find(Ref.parse(self.model).name)
        try:
            model = ModelIdentity(
                name=self.model,
                identity=handle.identity(),
                dtype=handle.backend.dtype,
                tier="full" if entry is None else entry.tier,
                training=self.training,
            )
        except ValidationError as error:
            raise refused(f"{self.task.ref} · {self.model}", error) from error
        return Facts(
            task=self.task.identity,
            model=model,
            backend=handle.name,
            class_names=tuple(handle.class_names),
            capabilities=handle.capabilities,
            ids=tuple(example.id for example in self.task.data.evaluation),
            source=self._source(),
            estimate=estimate or {},
        )

    def _source(self) -> dict[str, Any]:
        """Data and model for the provenance of a run."""
        handle = self.classifier
        return {
            "task": str(self.task.ref),
            "source": vars(self.task.data.source),
            "model": self.model,
            "weights": handle.identity(),
            "class_names": list(handle.class_names),
            "dtype": handle.backend.dtype,
            "device": handle.backend.device,
            "note": self.note,
            "token_budget": handle.token_budget,
        }


class Loader:
    """Loads each task and model once, when it is first needed, and holds them until they are released."""

    def __init__(
        self, options: ModelOptions, reporter: Reporter | None = None, token_budget: int | None = None
    ) -> None:
        self.options = options
        self.reporter = reporter or Reporter(show=False)
        self.token_budget = token_budget
        self._tasks: dict[str, LoadedTask] = {}
        self._subjects: dict[tuple[str, str, str], Subject] = {}
        self._notes: dict[tuple[str, str], str] = {}

    def task(self, text: str) -> LoadedTask:
        """The task of a reference."""
        if text not in self._tasks:
            ref = Ref.parse(text)
            with no_collections():
                data = load_task(ref.spec, ref.params, self.options.data_dir)
            self._tasks[text] = LoadedTask(ref, data)
        return self._tasks[text]

    def subject(self, cell: Cell) -> Subject:
        """The model of a cell on its task, loaded now if it is not yet."""
        return self.model(cell.task, cell.model, cell.removal, cell.target)

    def model(self, task: str, model: str, removal: str, target: int | str | None = None) -> Subject:
        """A model on a task under a removal rule, loaded now if it is not yet; what is said of it names the class."""
        key = (task, model, removal)
        if key not in self._subjects:
            loaded = self.task(task)
            classifier = Classifier(
                load_model(model, loaded.data, self.options),
                token_budget=self.token_budget,
                removal=registry.removals.build(removal),
            )
            note = self.note(task, model)
            self.reporter.say(
                f"model {model}: {classifier.backend.dtype} on {classifier.backend.device}, "
                f"weights {classifier.identity()[:12]}; explained: {classifier.says_target(target)}"
                + (f"; {note}" if note else "")
            )
            training = model_training(model, loaded.data, self.options)
            self._subjects[key] = Subject(loaded, model, classifier, note, training)
        return self._subjects[key]

    def put(self, subject: Subject, removal: str = "delete") -> None:
        """A subject that is loaded already."""
        self._tasks[str(subject.task.ref)] = subject.task
        self._subjects[str(subject.task.ref), subject.model, removal] = subject

    def give(self, task: LoadedTask, model: str, note: str) -> None:
        """A task that was loaded elsewhere, and what was said there of one of its models."""
        self._tasks.setdefault(str(task.ref), task)
        self._notes[str(task.ref), model] = note

    def note(self, task: str, model: str) -> str:
        """Why a model stands in for the one that was asked for."""
        return self._notes.get((task, model), "")

    def keep(self, cells: Iterable[Cell]) -> None:
        """Let go of every model and task that none of these cells needs."""
        cells = list(cells)
        models = {(cell.task, cell.model, cell.removal) for cell in cells}
        tasks = {cell.task for cell in cells}
        if dropped := self._subjects.keys() - models:
            for key in dropped:
                del self._subjects[key]
            for name in self._tasks.keys() - tasks:
                del self._tasks[name]
            gc.collect()

    def loaded(self) -> list[Subject]:
        """What is held now."""
        return list(self._subjects.values())

    # ---- planning: texts and tokenizers, no weights ----

    def plan(self, suite: Suite, *, lengths: bool = False) -> Plan:
        """The cells of a suite; `lengths` counts the texts' tokens too, for an estimate of the cost."""
        suite.check_names()
        subjects: dict[tuple[str, str], Planned] = {}
        skips: list[Skip] = []
        for text in suite.tasks:
            task = str(Ref.parse(text))
            self._say_task(suite, task)
            for requested in suite.models:
                try:
                    planned = self._planned(suite, task, requested, lengths)
                except Unsupported as error:
                    skips.append(Skip(f"{task} · {requested}", str(error)))
                    continue
                subjects.setdefault((task, planned.model), planned)
        if not subjects:
            reasons = "; ".join(f"{skip.what}: {skip.reason}" for skip in skips)
            raise InvalidInput(f"nothing to run: {reasons}")
        return make_plan(suite, list(subjects.values()), skips)

    def _planned(self, suite: Suite, task: str, requested: str, lengths: bool) -> Planned:
        data = self.task(task).data
        actual, reason = resolve_model(requested, data, self.options)
        self._notes[task, actual] = f"{requested} could not be had ({reason})" if actual != requested else reason
        outline = self._outline(suite, task, actual)
        check_removal(suite.removal, outline.capabilities)
        if outline.detail:
            self.reporter.say(f"model {actual}: {outline.detail}")
        samples = min(suite.samples, len(data.evaluation))
        return Planned(
            task=task,
            model=actual,
            samples=samples,
            gives=self.task(task).gives(samples),
            capabilities=outline.capabilities,
            lengths=_lengths(data.evaluation[:samples], outline, suite.max_tokens) if lengths else (),
        )

    def _outline(self, suite: Suite, task: str, model: str) -> Outline:
        built = registry.models.build(model)
        if isinstance(built, OutlinedModel):
            return built.outline(self.task(task).data, self.options)
        backend = self.model(task, model, suite.removal, suite.target).classifier.backend
        return Outline(backend.capabilities, backend.tokens, backend.max_length)

    def _say_task(self, suite: Suite, task: str) -> None:
        data = self.task(task).data
        count = min(suite.samples, len(data.evaluation))
        note = f" ({data.source.note})" if data.source.note else ""
        self.reporter.say(
            f"task {task}: {count} of {len(data.evaluation)} texts from {data.source.kind} {data.source.name}, "
            f"content {data.source.content_hash[:12]}{note}"
        )
        if count < suite.samples:
            self.reporter.say(f"  fewer than the {suite.samples} samples asked for", style="yellow")


def _lengths(examples: Iterable[Example], outline: Outline, max_tokens: int | None) -> tuple[int, ...]:
    """Tokens of each text inside its template, as far as the model reads; words where there is no tokenizer yet."""
    if outline.tokens is None:
        return tuple(min(len(example.text.split()), max_tokens or 10**9) for example in examples)
    special = len(outline.tokens.prefix) + len(outline.tokens.suffix)
    room = 10**9 if outline.max_length is None else outline.max_length - special
    limit = min(room, max_tokens or 10**9)
    return tuple(min(len(outline.tokens.encode(example.text)[0]), limit) + special for example in examples)
