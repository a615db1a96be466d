"""Pretrained language models fine-tuned as classifiers, small random ones for generated tasks, and any checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.options import Availability, ModelOptions, Outline
from slalom_bench.core.parameters import Count, Natural, Positive
from slalom_bench.errors import InvalidInput
from slalom_bench.models.base import TrainedModel, synthetic_words
from slalom_bench.models.checkpoints import Checkpoint
from slalom_bench.models.training import Recipe
from slalom_bench.models.training_records import recorded_training
from slalom_bench.registry import model

if TYPE_CHECKING:
    from slalom_bench.backends.torch_backend import HFBackend, TorchBackend
    from slalom_bench.core.tokens import WordTokens
    from slalom_bench.core.types import Example, TaskData
    from slalom_bench.handle.backend import Backend

SYNTHETIC_POSITIONS = 64


def _training(task_name: str | None) -> Mapping[str, int]:
    """What the papers train with on a task where it is not their usual."""
    entry = registry.tasks.find(task_name or "")
    return {} if entry is None else entry.training


def _generated(task_name: str | None) -> bool:
    """Whether a task's texts are generated, so that any number of fresh ones can be had."""
    entry = registry.tasks.find(task_name or "")
    return entry is not None and entry.generated


class Checkpointed(TrainedModel):
    """Saved and opened as a transformers checkpoint."""

    def save(self, backend: TorchBackend, directory: Path) -> None:
        """As a transformers checkpoint with its tokenizer."""
        from slalom_bench.backends.hf_files import save_backend

        save_backend(backend, directory)

    def open(self, directory: Path, task: TaskData, options: ModelOptions) -> HFBackend:
        """The checkpoint that `save` wrote."""
        from slalom_bench.backends.hf_files import load_backend

        return load_backend(directory, self.name, options)

    def outline_of(self, directory: Path, options: ModelOptions) -> Outline:
        """Configuration and tokenizer of the checkpoint."""
        from slalom_bench.backends.outlines import checkpoint_outline

        return checkpoint_outline(directory, options)


class Pretrained(Checkpointed):
    """The first layers of a pretrained model with a new head, fine-tuned on a task.

    Choose it:
        For the papers' models, where the hub or a directory (`source`) has them and there is time to fine-tune; a run
        without them says which model stands in.

    Example:
        `layers=2` of 12: a text goes through two layers and the new head, which gives logits -1 and 2 for negative and
        positive. Explained are 2 - (-1) = 3, the log-odds; the probability is 1 / (1 + e^-3) = 0.95.

    Args:
        source: a directory or hub id to start from; a directory with a fine-tuned classifier is used as it stands.
        layers: how many are used; unless given, those of the papers for the task.
        epochs, learning_rate, batch_size, max_tokens: of the training, where not the papers'.
        seed: of the training.
        texts: how many training texts are used (the paper's 5,000; 0 for all).
        width: of the small randomly initialised model that is trained instead on generated tasks.
    """

    hub = Checkpoint("")
    default_layers: int | None = 2
    architecture = ""

    def __init__(
        self,
        source: str | None = None,
        layers: Count | None = None,
        epochs: Count | None = None,
        learning_rate: Positive | None = None,
        batch_size: Count | None = None,
        max_tokens: Count | None = None,
        seed: Natural = 0,
        texts: Natural = 5000,
        width: Count = 64,
    ) -> None:
        self.source = source
        self.layers = layers
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.seed = seed
        self.texts = texts
        self.width = width

    def checkpoint(self, options: ModelOptions) -> Checkpoint:
        """Where the weights come from: `source`, else DATA_DIR/models/NAME, else where they are published."""
        if self.source is not None:
            return Checkpoint(self.source)
        if options.data_dir is not None and (own := options.data_dir / "models" / self.name).is_dir():
            return Checkpoint(str(own))
        return self.published()

    def published(self) -> Checkpoint:
        """Where the weights are published: on the hub, at a pinned revision."""
        return self.hub

    def depth(self, task_name: str | None) -> int | None:
        """How many layers are used; None for all."""
        if self.layers is not None or self.default_layers is None:
            return self.layers
        return _training(task_name).get("layers", self.default_layers)

    def default_recipe(self, task: str, synthetic: bool) -> Recipe:
        """The papers' 2 epochs of batches of 5; on generated tasks 5 (or 20) epochs of batches of 20 (appendix E)."""
        if not synthetic:
            return Recipe(epochs=2, learning_rate=5e-5, batch_size=5, max_tokens=510)
        # 5e-5 is for 768-wide models; a 64-wide one needs more to learn as much in as many steps
        return Recipe(
            epochs=_training(task).get("epochs", 5),
            learning_rate=1e-3,
            batch_size=20,
            max_tokens=SYNTHETIC_POSITIONS - 2,
        )

    def training_examples(self, task: TaskData) -> list[Example]:
        """The first `texts` training texts."""
        return list(task.train[: self.texts or None])

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """A fine-tuned classifier where the checkpoint is one; else the model trained for the task."""
        checkpoint = self.checkpoint(options)
        if task.truth or not checkpoint.classifies():
            return super().load(task, options)
        if self.layers is not None:
            raise InvalidInput(f"{checkpoint.source} is a fine-tuned classifier: leave out layers={self.layers}")
        from slalom_bench.backends.hf_files import load_backend

        return load_backend(checkpoint.source, self.name, options)

    def trained_with(self, task: TaskData, options: ModelOptions) -> str:
        """From the record of its training, or beside the fine-tuned classifier that is used as it stands."""
        checkpoint = self.checkpoint(options)
        if task.truth or not checkpoint.classifies():
            return super().trained_with(task, options)
        return recorded_training(Path(checkpoint.source))

    def outline(self, task: TaskData, options: ModelOptions) -> Outline:
        """Of the classifier as it stands where a directory holds a fine-tuned one, else as for any training."""
        checkpoint = self.checkpoint(options)
        if task.truth or not checkpoint.classifies():
            return super().outline(task, options)
        return self.outline_of(Path(checkpoint.source), options)

    def untrained_outline(self, task: TaskData, options: ModelOptions) -> Outline:
        """Of the checkpoint that the training starts from; of a small random model its words."""
        if task.truth:
            return Outline(None, self._words(task), SYNTHETIC_POSITIONS)
        from slalom_bench.backends.outlines import checkpoint_outline

        checkpoint = self._available(options)
        return checkpoint_outline(checkpoint.source, options, checkpoint.revision)

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """Whether the weights are here, and what having them would take."""
        trained = super().availability(task_name, options)
        if trained.ready or _generated(task_name):
            return trained
        checkpoint = self.checkpoint(options)
        if checkpoint.local and checkpoint.classifies():
            return Availability("directory", f"a fine-tuned classifier in {Path(checkpoint.source).name}")
        if problem := checkpoint.problem():
            return Availability("unavailable", f"{checkpoint.source}: {problem}")
        if checkpoint.local or checkpoint.in_cache():
            return Availability("train", f"pretrained weights are here; {trained.detail}")
        return Availability("download", f"{checkpoint.source} from the hub, then train {trained.detail}")

    def cost(self, task_name: str | None) -> str:
        """What a training takes, in words."""
        recipe = self.recipe(task_name or "", _generated(task_name))
        return f"{recipe.epochs} epochs over {self.texts or 'all'} texts of at most {recipe.max_tokens} tokens"

    def start(self, task: TaskData, options: ModelOptions) -> Mapping[str, Any]:
        """The checkpoint and its depth, or the small model's architecture, sizes and words."""
        layers = self.depth(task.task)
        if task.truth:
            return {
                "architecture": self.architecture,
                "layers": layers,
                "width": self.width,
                "words": synthetic_words(task),
            }
        return {"checkpoint": self.checkpoint(options).identity(), "layers": layers}

    def build(self, task: TaskData, texts: list[str], options: ModelOptions) -> HFBackend:
        """The pretrained model cut to its depth, or a small random one for a generated task."""
        return self._small(task) if task.truth else self._cut(task, options)

    def _available(self, options: ModelOptions) -> Checkpoint:
        """The checkpoint to start from; one that cannot be had is an error with the remedies."""
        checkpoint = self.checkpoint(options)
        if problem := checkpoint.problem():
            raise InvalidInput(
                f"model {self.name} needs {checkpoint.source}, which cannot be had: {problem}. Give a checkpoint with "
                f"{self.name}:source=DIR or in DATA_DIR/models/{self.name}, or use mini-{self.name} or hf:DIR"
            )
        return checkpoint

    def _cut(self, task: TaskData, options: ModelOptions) -> HFBackend:
        from slalom_bench.backends.hf_files import load_module, load_tokens
        from slalom_bench.backends.torch_backend import HFBackend

        checkpoint = self._available(options)
        labels = dict(enumerate(task.class_names))
        changes: dict[str, Any] = {"id2label": labels, "label2id": {name: i for i, name in labels.items()}}
        if (layers := self.depth(task.task)) is not None:
            changes["num_hidden_layers"] = layers
        tokens = load_tokens(checkpoint.source, options, checkpoint.revision)
        module = load_module(checkpoint.source, options, checkpoint.revision, **changes)
        return HFBackend(module, tokens, name=self.name, class_names=task.class_names)

    def _words(self, task: TaskData) -> WordTokens:
        from slalom_bench.backends.architectures import architecture_named

        return architecture_named(self.architecture).word_tokens(synthetic_words(task))

    def _small(self, task: TaskData) -> HFBackend:
        """A small random model over the words of a generated task; encoders read [CLS] .. [SEP]."""
        from slalom_bench.backends.architectures import architecture_named
        from slalom_bench.backends.architectures.base import Size
        from slalom_bench.backends.torch_backend import HFBackend

        tokens = self._words(task)
        size = Size(
            len(tokens),
            tokens.pad_id,
            task.class_names,
            layers=self.depth(task.task) or 2,
            width=self.width,
            positions=SYNTHETIC_POSITIONS,
        )
        module = architecture_named(self.architecture).random_classifier(size)
        return HFBackend(module.eval(), tokens, name=self.name, class_names=task.class_names)


@model("bert", version=1, family="transformer", stand_in="mini-bert")
class Bert(Pretrained):
    """BERT base (uncased), cut to its first layers and fine-tuned on the task."""

    name = architecture = "bert"
    hub = Checkpoint("google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594")


@model("distilbert", version=1, family="transformer", stand_in="mini-distilbert")
class DistilBert(Pretrained):
    """DistilBERT base (uncased), cut to its first layers and fine-tuned on the task."""

    name = architecture = "distilbert"
    hub = Checkpoint("distilbert/distilbert-base-uncased", "12040accade4e8a0f71eabdb258fecc2e7e948be")


@model("gpt2", version=1, family="transformer", stand_in="mini-gpt2")
class Gpt2(Pretrained):
    """GPT-2, cut to its first layers and fine-tuned on the task, read at the last token."""

    name = architecture = "gpt2"
    hub = Checkpoint("openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e")


@model("bloom", version=1, family="transformer")
class Bloom(Pretrained):
    """BLOOM (7.1B as in appendix F.7, or `source`), read at the last token."""

    name = architecture = "bloom"
    hub = Checkpoint("bigscience/bloom-7b1")
    default_layers = None


@model("mamba", version=1, family="state space")
class Mamba(Pretrained):
    """Mamba (2.8B as in appendix F.7, or `source`) with a linear head on the last token; it has no attention."""

    name = architecture = "mamba"
    hub = Checkpoint("state-spaces/mamba-2.8b-hf")
    default_layers = None


@model("hf", version=1, family="checkpoint", argument="checkpoint")
class AnyCheckpoint:
    """`hf:DIR_OR_ID`: any sequence classification checkpoint in safetensors, of two or more classes or one logit.

    Choose it:
        For a model of your own.

    Example:
        One logit of 1.2 is the log-odds of class 1. Logits 0.3 and 1.5 of two classes: 1.5 - 0.3 = 1.2. Logits 0, 1
        and 2 of three: the last is predicted, with log-odds 2 - log(e^0 + e^1) = 0.69.

    Args:
        checkpoint: a directory or hub id; `hf:DIR_OR_ID` sets it.
        revision: the commit on the hub.
    """

    def __init__(self, checkpoint: str | None = None, revision: str | None = None) -> None:
        self.checkpoint = checkpoint
        self.revision = revision

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """The classifier with its weights."""
        from slalom_bench.backends.hf_files import load_backend

        source = self._available().source
        return load_backend(source, f"hf:{Path(source).name}", options, self.revision)

    def trained_with(self, task: TaskData, options: ModelOptions) -> str:
        """From a record beside a directory's checkpoint that was trained here; of any other nothing is known."""
        return recorded_training(Path(self._available().source))

    def outline(self, task: TaskData, options: ModelOptions) -> Outline:
        """Configuration and tokenizer; weights need not be there."""
        from slalom_bench.backends.outlines import checkpoint_outline

        return checkpoint_outline(self._available().source, options, self.revision)

    def _available(self) -> Checkpoint:
        if self.checkpoint is None:
            raise InvalidInput("hf needs a checkpoint: hf:DIRECTORY or hf:HUB_ID")
        wanted = Checkpoint(self.checkpoint, self.revision)
        looks_local = Path(self.checkpoint).is_absolute() or self.checkpoint.startswith((".", "~"))
        if not wanted.local and looks_local:
            raise InvalidInput(f"hf:{self.checkpoint}: no such directory")
        if problem := wanted.problem():
            raise InvalidInput(f"hf:{self.checkpoint} is no directory here, and {problem}")
        return wanted

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """Whether the weights are here, and what having them would take."""
        if self.checkpoint is None:
            return Availability("directory", "any you name: hf:DIRECTORY or hf:HUB_ID")
        wanted = Checkpoint(self.checkpoint, self.revision)
        if problem := wanted.problem():
            return Availability("unavailable", problem)
        return Availability("directory" if wanted.local else "cached" if wanted.in_cache() else "download")
