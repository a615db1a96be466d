"""What every trained model shares: its recipe and identity, and training once into the cache."""

from __future__ import annotations

import functools
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.hashing import short_hash
from slalom_bench.core.options import Availability, ModelOptions, Outline
from slalom_bench.core.references import Ref
from slalom_bench.data.loading import load_task
from slalom_bench.data.splits import content_hash
from slalom_bench.errors import InvalidInput
from slalom_bench.interfaces import GeneratedTask
from slalom_bench.models.training import (
    VERSION,
    Labelled,
    Recipe,
    evaluate,
    fit,
    labelled,
    split_validation,
)
from slalom_bench.models.training_records import recorded_training

if TYPE_CHECKING:
    from slalom_bench.backends.torch_backend import TorchBackend
    from slalom_bench.core.types import Example, TaskData
    from slalom_bench.handle.backend import Backend

_CACHE_VARIABLE = "SLALOM_BENCH_CACHE"
_TEST_SAMPLES = 2000
_VALIDATION_TEXTS = 1000
_FRESH_SEEDS = 10_000
"""Generated tasks: seeds of fresh texts of one training start at this times its seed."""


def cache_root() -> Path:
    """SLALOM_BENCH_CACHE, else the user's cache directory."""
    if named := os.environ.get(_CACHE_VARIABLE):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".cache") / "slalom-bench"


def learnt_name(task_name: str | None) -> str | None:
    """The task that models for a task are trained on: itself, or the one that it declares as `trained_on`.

    >>> learnt_name("imdb"), learnt_name("eraser-movies"), learnt_name(None)
    ('imdb', 'imdb', None)
    """
    entry = registry.tasks.find(task_name or "")
    return entry.trained_on if entry is not None and entry.trained_on else task_name


def learnt_from(task: TaskData, options: ModelOptions) -> TaskData:
    """The data of the task that models for a task are trained on."""
    name = learnt_name(task.task)
    return task if name in (None, task.task) else _other_task(str(name), options.data_dir)


@functools.lru_cache(maxsize=1)
def _other_task(name: str, data_dir: Path | None) -> TaskData:
    return load_task(name, data_dir=data_dir)


class TrainedModel:
    """A torch classifier that is trained once for a task and read from the cache ever after."""

    # A subclass sets `name`, stores its parameters, and says how its classifier is built, saved and opened. That stands
    # here and not in the docstring, which is the card of every model that has no words of its own.
    name = ""
    ships_weights = False
    """Whether it comes trained, so that a training of the user's is asked for with `weights=trained`."""
    epochs: int | None
    learning_rate: float | None
    batch_size: int | None
    max_tokens: int | None
    seed: int

    # ---- for subclasses ----

    def default_recipe(self, task: str, synthetic: bool) -> Recipe:
        """Hyper-parameters for a task where the caller names none."""
        return Recipe()

    def start(self, task: TaskData, options: ModelOptions) -> Mapping[str, Any]:
        """What the training starts from (architecture, sizes, pretrained identity), as JSON."""
        raise InvalidInput(f"model {self.name} does not say what it starts from")

    def build(self, task: TaskData, texts: list[str], options: ModelOptions) -> TorchBackend:
        """The untrained classifier; torch's generator is seeded. `texts` may shape a vocabulary."""
        raise InvalidInput(f"model {self.name} does not say how it is built")

    def save(self, backend: TorchBackend, directory: Path) -> None:
        """Everything `open` needs, in an existing empty directory, without pickles."""
        raise InvalidInput(f"model {self.name} does not say how it is saved")

    def open(self, directory: Path, task: TaskData, options: ModelOptions) -> TorchBackend:
        """The classifier that `save` wrote, on the device and in the dtype of the options."""
        raise InvalidInput(f"model {self.name} does not say how it is opened")

    def outline_of(self, directory: Path, options: ModelOptions) -> Outline:
        """What a saved classifier says of itself without its weights."""
        return Outline()

    def untrained_outline(self, task: TaskData, options: ModelOptions) -> Outline:
        """What is known of the classifier before it is trained."""
        return Outline()

    def training_examples(self, task: TaskData) -> list[Example]:
        """The labelled texts that may be trained on."""
        return list(task.train)

    # ---- what callers use ----

    def recipe(self, task: str, synthetic: bool = False) -> Recipe:
        """The default recipe with the parameters that were given."""
        names = ("epochs", "learning_rate", "batch_size", "max_tokens")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(self.default_recipe(task, synthetic), seed=self.seed, **given)

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """The classifier trained for a task, from the cache or after training it."""
        return self.open(self.train(task, options), task, options)

    def trained_with(self, task: TaskData, options: ModelOptions) -> str:
        """From the record of its training."""
        return recorded_training(self.cache_directory(task, options))

    def outline(self, task: TaskData, options: ModelOptions) -> Outline:
        """From the finished training, else what is known before it."""
        directory = self.cache_directory(task, options)
        if self.cached(task, options):
            return self.outline_of(directory, options)
        if not options.allow_training:
            raise self._untrained(task)
        return replace(self.untrained_outline(task, options), detail=f"to be trained: {self.cost(task.task)}")

    def _untrained(self, task: TaskData) -> InvalidInput:
        return InvalidInput(
            f"model {self.name} is not trained for task {task.task} here; run `slalom-bench train --task "
            f"{task.task} --model {self.name}` first, or allow training"
        )

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """Cached if a training with these hyper-parameters is there; its data are only compared on loading."""
        for record in trainings(self.name, learnt_name(task_name)):
            if self._wanted(record):
                return Availability("cached", f"validation accuracy {record['validation']['accuracy']:.3f}")
        return Availability("train", self.cost(task_name))

    def cost(self, task_name: str | None) -> str:
        """What a training takes, in words."""
        recipe = self.recipe(task_name or "", False)
        texts = f"the training texts of {learnt_name(task_name) or 'the task'}"
        return f"{recipe.epochs} epochs over {texts}, {recipe.max_tokens} tokens each at most"

    def _wanted(self, record: Mapping[str, Any]) -> bool:
        return bool(record["params"] == self.params() and record["identity"]["training"] == VERSION)

    def params(self) -> dict[str, Any]:
        """The parameters that were given a value."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def identity(self, task: TaskData, options: ModelOptions) -> dict[str, Any]:
        """Everything that shapes the trained weights."""
        task = learnt_from(task, options)
        return {
            "model": self.name,
            "version": registry.models.get(self.name).version,
            "training": VERSION,
            "task": task.task,
            "content": content_hash(self.training_examples(task)) if task.train else task.source.content_hash,
            "recipe": self.recipe(task.task, bool(task.truth)).recorded(),
            "start": dict(self.start(task, options)),
        }

    def cache_directory(self, task: TaskData, options: ModelOptions) -> Path:
        """The directory of the cache for this model trained on this task's content."""
        key = short_hash(self.identity(task, options))
        return cache_root() / "models" / f"{self.name}-{(learnt_name(task.task) or '').replace(':', '-')}-{key}"

    def cached(self, task: TaskData, options: ModelOptions) -> bool:
        """Whether it is trained already."""
        return (self.cache_directory(task, options) / "training.json").exists()

    def train(self, task: TaskData, options: ModelOptions, test_samples: int = _TEST_SAMPLES) -> Path:
        """The directory of the trained model; trains it first if it is not there, after saying what that costs."""
        directory = self.cache_directory(task, options)
        if self.cached(task, options):
            return directory
        if not options.allow_training:
            raise self._untrained(task)
        from filelock import FileLock

        directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(directory.with_name(directory.name + ".lock")):
            # another process may have trained it while this one waited
            if not (directory / "training.json").exists():
                self._train(task, options, directory, test_samples)
        return directory

    def _train(self, task: TaskData, options: ModelOptions, directory: Path, test_samples: int) -> None:
        task = learnt_from(task, options)
        state = directory.with_name(directory.name + ".state")
        backend, recipe, record = self._fit(task, options, state)
        test = self.test(backend, task, recipe, test_samples)
        record |= {"params": self.params(), "identity": self.identity(task, options), "test": test}
        with fresh_directory(directory) as fresh:
            self.save(backend, fresh)
            (fresh / "training.json").write_text(json.dumps(record, indent=2))
        shutil.rmtree(state, ignore_errors=True)

    def record(self, directory: Path) -> dict[str, Any]:
        """What the training in a cache directory wrote of itself."""
        record: dict[str, Any] = json.loads((directory / "training.json").read_text())
        return record

    def export(self, directory: Path, out: Path, task: TaskData, options: ModelOptions, dtype: str) -> None:
        """A copy of a trained model in another dtype; what already lies in `out` beside it stays."""
        backend = self.open(directory, task, replace(options, dtype=dtype, device="cpu"))
        out.mkdir(parents=True, exist_ok=True)
        self.save(backend, out)
        shutil.copyfile(directory / "training.json", out / "training.json")

    def _fit(self, task: TaskData, options: ModelOptions, state: Path) -> tuple[TorchBackend, Recipe, dict[str, Any]]:
        import torch

        recipe = self.recipe(task.task, bool(task.truth))
        examples, validation_examples = self.examples(task, recipe)
        options = replace(options, dtype="float32", device_map=None)
        options.say(f"training {self.name} on {task.task}: {len(examples)} texts x {recipe.epochs} epochs")
        if not (state / "start").exists():
            with torch.random.fork_rng(), fresh_directory(state / "start") as fresh:
                torch.manual_seed(recipe.seed)
                self.save(self.build(task, [example.text for example in examples], options), fresh)
        backend = self.open(state / "start", task, options)
        recipe = _clipped(recipe, backend)
        train = self.training_data(task, backend, examples, recipe)
        validation = labelled(backend.tokens, validation_examples, recipe.max_tokens)
        report = fit(backend, train, validation, recipe, state / "epoch", options.say, by_loss=bool(task.truth))
        record = {
            "validation": {**report.best, "texts": len(validation), "epoch": report.best_epoch + 1},
            "history": report.history,
            "seconds": report.seconds,
        }
        return backend, recipe, record

    def examples(self, task: TaskData, recipe: Recipe) -> tuple[list[Example], list[Example]]:
        """Training and validation texts; no text is in both."""
        if task.truth:
            return list(task.train), list(generate(task, _VALIDATION_TEXTS, _FRESH_SEEDS * recipe.seed))
        examples = self.training_examples(task)
        if not examples:
            raise InvalidInput(f"task {task.task} has no training texts, so {self.name} cannot be trained on it")
        return split_validation(examples, recipe.validation)

    def training_data(
        self, task: TaskData, backend: TorchBackend, examples: list[Example], recipe: Recipe
    ) -> Callable[[int], Labelled]:
        """The data of each epoch: the same texts, or fresh ones where a task can make them."""
        if task.truth:
            return lambda epoch: labelled(
                backend.tokens, generate(task, len(examples), _FRESH_SEEDS * recipe.seed + 1 + epoch), recipe.max_tokens
            )
        longest = 10**6 if recipe.window else max(recipe.max_tokens, recipe.long_tokens if recipe.long_share else 0)
        data = labelled(backend.tokens, examples, longest)
        return lambda epoch: data

    def test(self, backend: TorchBackend, task: TaskData, recipe: Recipe, samples: int) -> dict[str, Any]:
        """Accuracy on the first evaluation texts that have a label (all if `samples` is 0); None if none has."""
        examples = [example for example in task.evaluation if example.label is not None][: samples or None]
        if not examples:
            return {"accuracy": None, "loss": None, "texts": 0, "source": task.source.name}
        accuracy, loss = evaluate(backend, labelled(backend.tokens, examples, recipe.max_tokens))
        return {"accuracy": accuracy, "loss": loss, "texts": len(examples), "source": task.source.name}


def _clipped(recipe: Recipe, backend: TorchBackend) -> Recipe:
    """The recipe with its lengths cut to what the model takes between its special tokens."""
    if backend.max_length is None:
        return recipe
    longest = backend.max_length - len(backend.tokens.prefix) - len(backend.tokens.suffix)
    return replace(recipe, max_tokens=min(longest, recipe.max_tokens), long_tokens=min(longest, recipe.long_tokens))


def synthetic_words(task: TaskData) -> list[str]:
    """The vocabulary of a generated task."""
    return list(task.truth["value" if "value" in task.truth else "weight"])


def generate(task: TaskData, count: int, seed: int) -> Sequence[Example]:
    """Fresh labelled texts of a generated task, from the same distribution as the loaded ones."""
    entry = registry.tasks.get(Ref.parse(task.task).name)
    sized = "vocabulary" in inspect.signature(entry.factory).parameters
    law = entry.build({"vocabulary": len(synthetic_words(task))} if sized else {})
    if not isinstance(law, GeneratedTask):
        raise InvalidInput(f"task {task.task} does not generate texts")
    return law.generate(count, seed)


def trainings(name: str, task_name: str | None = None) -> Iterator[dict[str, Any]]:
    """Records of the finished trainings of a model in the cache, those of one task if given."""
    root = cache_root() / "models"
    for path in sorted(root.glob(f"{name}-*/training.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            of = record["identity"]["model"], record["identity"]["task"]
        except (OSError, ValueError, KeyError, TypeError):  # no record of ours
            continue
        if of[0] == name and task_name in (None, of[1]):
            yield {**record, "directory": path.parent}


@contextmanager
def fresh_directory(target: Path) -> Iterator[Path]:
    """A new directory that appears under its name only when the block ends well."""
    fresh = target.with_name(f"{target.name}.new-{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
        if not target.exists():
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
