"""Small text classifiers that ship with the package: 2 layers, 128 wide, an own vocabulary of 8,000."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.options import Availability, ModelOptions, Outline
from slalom_bench.core.parameters import Count, Natural, Positive
from slalom_bench.core.tokens import HFTokens
from slalom_bench.core.types import Example, TaskData
from slalom_bench.data.splits import is_held_out
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.models.base import learnt_name
from slalom_bench.models.pretrained import Checkpointed
from slalom_bench.models.training import Recipe
from slalom_bench.models.training_records import recorded_training
from slalom_bench.registry import model

if TYPE_CHECKING:
    from slalom_bench.backends.torch_backend import HFBackend
    from slalom_bench.handle.backend import Backend

VOCABULARY, WIDTH, POSITIONS = 8000, 128, 512
DECODERS = ("gpt2", "bloom")
"""Architectures without special tokens, read at the last one."""


def train_tokenizer(architecture: str, texts: Iterable[str]) -> Any:
    """A lower-case tokenizer of the training texts: WordPiece for encoders, byte-level BPE for decoders."""
    import tokenizers as tk
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    breaks = normalizers.Replace(tk.Regex(r"<br\s*/?>"), " ")
    if architecture in DECODERS:
        tokenizer = tk.Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.Sequence([breaks, normalizers.NFC(), normalizers.Lowercase()])
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=["<|endoftext|>"],
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )
        tokenizer.train_from_iterator(texts, trainer)
        end = "<|endoftext|>"
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, bos_token=end, pad_token=end)
    tokenizer = tk.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([breaks, normalizers.BertNormalizer(lowercase=True)])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=specials, limit_alphabet=200, show_progress=False
    )
    tokenizer.train_from_iterator(texts, pieces)
    tokenizer.model = models.WordPiece(_settled(tokenizer.get_vocab(), specials), unk_token="[UNK]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def _settled(vocabulary: Iterable[str], specials: list[str]) -> dict[str, int]:
    """Special tokens, then pieces in alphabetical order: the trainer numbers them anew in every process."""
    return {piece: i for i, piece in enumerate([*specials, *sorted(set(vocabulary) - set(specials))])}


class Mini(Checkpointed):
    """The shipped weights, or with `weights=trained` a training on the task's own texts.

    Choose it:
        For results in minutes on any machine, without a hub: the models of the default suite. What a method is worth on
        them need not hold for pretrained ones (`slalom-bench carry-over`).

    Args:
        weights: `shipped`, or `trained` for a training of the user's.
        layers: how many; others than 2 need `weights=trained`.
        epochs, learning_rate, batch_size, max_tokens: of a training, where not the defaults.
        seed: of a training.
    """

    architecture = ""
    ships_weights = True
    recipe_defaults = Recipe(
        epochs=4,
        learning_rate=1e-3,
        batch_size=32,
        max_tokens=256,
        token_drop=0.3,
        window=0.5,
        long_share=0.15,
        short_epochs=2,
    )

    def __init__(
        self,
        weights: str = "shipped",
        layers: Count = 2,
        epochs: Count | None = None,
        learning_rate: Positive | None = None,
        batch_size: Count | None = None,
        max_tokens: Count | None = None,
        seed: Natural = 0,
    ) -> None:
        self.weights = weights
        self.layers = layers
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.seed = seed

    @property
    def directory(self) -> Path:
        """Where the shipped weights are."""
        return Path(__file__).parent / "mini" / self.name

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """The shipped classifier, or the one trained on the task."""
        if self._learns(task):
            return super().load(task, options)
        from slalom_bench.backends.hf_files import load_backend

        return load_backend(self.directory, self.name, options)

    def outline(self, task: TaskData, options: ModelOptions) -> Outline:
        """Of the shipped checkpoint, or of the training."""
        return super().outline(task, options) if self._learns(task) else self.outline_of(self.directory, options)

    def trained_with(self, task: TaskData, options: ModelOptions) -> str:
        """From the card of the shipped weights, or the record of the user's training."""
        return super().trained_with(task, options) if self._learns(task) else recorded_training(self.directory)

    def params(self) -> dict[str, Any]:
        """Those of a training: `weights` only says whether there is one."""
        return {name: value for name, value in super().params().items() if name != "weights"}

    def _learns(self, task: TaskData) -> bool:
        """Whether it is trained on the task: where that is asked for, and where the task has more than two classes."""
        if task.truth:
            large = self.architecture if registry.models.find(self.architecture) else "bert"
            raise Unsupported(f"model {self.name} reads reviews, not the words of {task.task}; use {large}")
        if self.weights == "trained":
            return True
        if len(task.class_names) != 2 and not task.train:
            classes = len(task.class_names)
            raise Unsupported(f"model {self.name} knows two classes; {task.task} has {classes}, and no training texts")
        if len(task.class_names) == 2:
            self._check_shipped()
        return len(task.class_names) != 2

    def _check_shipped(self) -> None:
        if self.weights != "shipped":
            raise InvalidInput(f"model {self.name}: weights must be shipped or trained, not {self.weights!r}")
        changed = {k: v for k, v in vars(self).items() if v != vars(type(self)())[k]}
        if changed:
            raise InvalidInput(f"model {self.name}: {', '.join(changed)} need weights=trained")

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """Whether the weights are here, and what having them would take."""
        entry = registry.tasks.find(task_name or "")
        if self.weights == "trained" or (entry is not None and len(entry.class_names) > 2):
            return super().availability(task_name, options)
        if not (self.directory / "model.safetensors").is_file():
            return Availability("unavailable", "its weights are missing here; install the package again")
        return Availability("shipped", "trained on 20,000 IMDB reviews")

    def default_recipe(self, task: str, synthetic: bool) -> Recipe:
        """The recipe of the shipped weights; tasks of fewer and shorter texts need more to be left out of each."""
        if learnt_name(task) in ("", "imdb"):
            return self.recipe_defaults
        return replace(
            self.recipe_defaults, epochs=10, learning_rate=5e-4, short_epochs=0, token_drop=0.6, position_jitter=0.0
        )

    def training_examples(self, task: TaskData) -> list[Example]:
        """Of IMDB only what the hash split trains on, so that no source of it ever evaluates on seen reviews."""
        return [example for example in task.train if task.task != "imdb" or not is_held_out(example.text)]

    def start(self, task: TaskData, options: ModelOptions) -> Mapping[str, Any]:
        """Architecture and sizes."""
        return {"architecture": self.architecture, "layers": self.layers, "width": WIDTH, "vocabulary": VOCABULARY}

    def build(self, task: TaskData, texts: list[str], options: ModelOptions) -> HFBackend:
        """An untrained classifier with a tokenizer of the texts."""
        from slalom_bench.backends.architectures import architecture_named
        from slalom_bench.backends.architectures.base import Size
        from slalom_bench.backends.torch_backend import HFBackend

        tokens = HFTokens(train_tokenizer(self.architecture, texts))
        size = Size(
            len(tokens.tokenizer),
            tokens.pad_id,
            task.class_names,
            layers=self.layers,
            width=WIDTH,
            positions=POSITIONS,
            dropout=0.2,
        )
        module = architecture_named(self.architecture).random_classifier(size).eval()
        backend = HFBackend(module, tokens, name=self.name, class_names=task.class_names)
        if self.recipe_defaults.position_jitter and (table := backend.position_table()) is not None:
            # random rows are noise nearly as large as the words, and too few texts are trained on to make them alike
            table.detach().zero_()
        return backend


_PLACED = replace(Mini.recipe_defaults, position_jitter=0.5, position_rate=0.1)


@model("mini-bert", version=2, family="transformer", tier="embedded")
class MiniBert(Mini):
    """A 2-layer, 128-wide BERT trained on IMDB reviews, shipped with the package.

    Example:
        "A dull start, but what a finish!", 9 tokens: log-odds of positive -4.66, so probability
        1 / (1 + e^4.66) = 0.009; without "dull" -4.66 + 8.48 = 3.82.
    """

    name, architecture = "mini-bert", "bert"
    recipe_defaults = _PLACED


@model("mini-distilbert", version=3, family="transformer", tier="embedded")
class MiniDistilBert(Mini):
    """A 2-layer, 128-wide DistilBERT trained on IMDB reviews, shipped with the package.

    Example:
        "A dull start, but what a finish!", 9 tokens: log-odds of positive -4.90, so probability
        1 / (1 + e^4.90) = 0.007; without "dull" -4.90 + 7.91 = 3.01.
    """

    name, architecture = "mini-distilbert", "distilbert"
    recipe_defaults = replace(_PLACED, epochs=5, averaged=0.8)


@model("mini-gpt2", version=3, family="transformer", tier="embedded")
class MiniGpt2(Mini):
    """A 2-layer, 128-wide GPT-2 trained on IMDB reviews, shipped with the package.

    Example:
        "A dull start, but what a finish!", 9 tokens: log-odds of positive -4.80, so probability
        1 / (1 + e^4.80) = 0.008; without "dull" -4.80 + 4.82 = 0.01.
    """

    name, architecture = "mini-gpt2", "gpt2"
    recipe_defaults = replace(
        _PLACED, epochs=5, learning_rate=1.5e-3, prefix_loss=0.5, position_rate=0.01, averaged=0.5
    )


@model("mini-rotary", version=2, family="transformer", tier="embedded")
class MiniRotary(Mini):
    """A 2-layer, 128-wide ModernBERT (rotary positions) trained on IMDB reviews, shipped with the package.

    Example:
        "A dull start, but what a finish!", 9 tokens: log-odds of positive -5.27, so probability
        1 / (1 + e^5.27) = 0.005; without "dull" -5.27 + 7.69 = 2.42.
    """

    name, architecture = "mini-rotary", "modernbert"
    recipe_defaults = replace(Mini.recipe_defaults, position_jitter=0.8, averaged=0.8)


@model("mini-alibi", version=1, family="transformer", tier="embedded")
class MiniAlibi(Mini):
    """A 2-layer, 128-wide BLOOM (distance as a penalty, ALiBi) trained on IMDB reviews, shipped with the package.

    Example:
        "A dull start, but what a finish!", 9 tokens: log-odds of positive -4.65, so probability
        1 / (1 + e^4.65) = 0.010; without "dull" -4.65 + 4.11 = -0.54.
    """

    name, architecture = "mini-alibi", "bloom"
    recipe_defaults = replace(Mini.recipe_defaults, epochs=3, learning_rate=1.5e-3, prefix_loss=0.5)
