"""Classifiers with words of their own, trained for a task: attention only, TF-IDF perceptron, fully connected."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench.core.options import ModelOptions, Outline
from slalom_bench.core.parameters import Count, Natural, Positive
from slalom_bench.core.types import Example, TaskData
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.models.base import TrainedModel, generate
from slalom_bench.models.training import Labelled, Recipe, labelled
from slalom_bench.registry import model

if TYPE_CHECKING:
    from torch import nn

    from slalom_bench.backends.nets_classic import EnglishWords
    from slalom_bench.backends.torch_backend import TorchBackend

_DESCRIPTION, _WEIGHTS = "classic.json", "weights.safetensors"


class _Classic(TrainedModel):
    """A net over the most frequent words of the training texts; a subclass says which net and which backend.

    Args:
        vocabulary: how many words.
        epochs, learning_rate, batch_size, max_tokens: of the training, where not the model's defaults.
        seed: of the training.
    """

    cls = False
    max_length: int | None = None
    recipe_defaults = Recipe()

    def __init__(
        self,
        vocabulary: Count = 30_000,
        epochs: Count | None = None,
        learning_rate: Positive | None = None,
        batch_size: Count | None = None,
        max_tokens: Count | None = None,
        seed: Natural = 0,
    ) -> None:
        self.vocabulary = vocabulary
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.seed = seed

    def sizes(self, outputs: int) -> dict[str, Any]:
        """What the net is built from beside its vocabulary, as JSON."""
        return {"outputs": outputs}

    def net(self, words: int, sizes: Mapping[str, Any]) -> nn.Module:
        """A new net for a vocabulary of so many words, [UNK] included; draws from torch's generator."""
        raise InvalidInput(f"model {self.name} does not say which net it is")

    def backend_class(self) -> type[TorchBackend]:
        """How the handle sees the net."""
        raise InvalidInput(f"model {self.name} does not say which backend it has")

    def backend(self, module: nn.Module, tokens: EnglishWords, class_names: tuple[str, ...]) -> TorchBackend:
        """The net as the handle sees it."""
        return self.backend_class()(module, tokens, name=self.name, class_names=class_names, max_length=self.max_length)

    def outline_of(self, directory: Path, options: ModelOptions) -> Outline:
        """What its kind of net gives."""
        return Outline(self.backend_class().capabilities, max_length=self.max_length)

    def untrained_outline(self, task: TaskData, options: ModelOptions) -> Outline:
        """What its kind of net gives."""
        return Outline(self.backend_class().capabilities, max_length=self.max_length)

    def prepare(self, module: nn.Module, tokens: EnglishWords, texts: list[str]) -> None:
        """What a new net reads off the training texts."""

    def default_recipe(self, task: str, synthetic: bool) -> Recipe:
        """The papers' hyper-parameters."""
        return self.recipe_defaults

    def start(self, task: TaskData, options: ModelOptions) -> Mapping[str, Any]:
        """Vocabulary and sizes."""
        return {"vocabulary": self.vocabulary, **self.sizes(_outputs(task.class_names))}

    def build(self, task: TaskData, texts: list[str], options: ModelOptions) -> TorchBackend:
        """An untrained net over the words of the texts."""
        from slalom_bench.backends.nets_classic import EnglishWords

        if self.vocabulary < 1:
            raise InvalidInput(f"model {self.name}: vocabulary must be at least 1, not {self.vocabulary}")
        tokens = EnglishWords(EnglishWords.vocabulary(texts, self.vocabulary), cls=self.cls)
        module = self.net(len(tokens), self.sizes(_outputs(task.class_names)))
        self.prepare(module, tokens, texts)
        return self.backend(module.eval(), tokens, task.class_names)

    def save(self, backend: TorchBackend, directory: Path) -> None:
        """Words, classes and sizes as JSON, the weights as safetensors."""
        from safetensors.torch import save_file

        words: Any = backend.tokens
        known = {"words": words.strings[1 + self.cls :], "class_names": backend.class_names}
        known["sizes"] = self.sizes(_outputs(backend.class_names))
        (directory / _DESCRIPTION).write_text(json.dumps(known), encoding="utf-8")
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in backend.module.state_dict().items()}
        save_file(state, directory / _WEIGHTS)

    def open(self, directory: Path, task: TaskData, options: ModelOptions) -> TorchBackend:
        """The net that `save` wrote."""
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from slalom_bench.backends.hf_files import pick_dtype
        from slalom_bench.backends.nets_classic import EnglishWords
        from slalom_bench.backends.torch_backend import pick_device

        try:
            known = json.loads((directory / _DESCRIPTION).read_text(encoding="utf-8"))
            tokens = EnglishWords(known["words"], cls=self.cls)
            with torch.random.fork_rng(devices=[]):
                module = self.net(len(tokens), known["sizes"])
            module.load_state_dict(load_file(directory / _WEIGHTS))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
            raise InvalidInput(
                f"the {self.name} in {directory.name} cannot be read ({type(error).__name__}: {str(error)[:100]}); "
                "delete that directory of the cache to train it again"
            ) from error
        module.to(pick_device(options.device), pick_dtype(options.dtype))
        return self.backend(module.eval(), tokens, tuple(known["class_names"]))


def _outputs(class_names: tuple[str, ...]) -> int:
    """One logit for two classes, else one a class."""
    return 1 if len(class_names) == 2 else len(class_names)


@model("attention-classifier", version=1, family="attention")
class AttentionClassifier(_Classic):
    """Attention alone over 256 positions, one layer (theorems 4.1 and 5.1) or six (Lopardo et al. 2024).

    The output is the mean over heads of a linear head of the attention at [CLS]; no biases, sinusoidal positions.

    Choose it:
        For the theorems of the papers on a trained model that fulfils their assumptions.

    Example:
        One head, attention 0.5, 0.3 and 0.2 at [CLS] and two words whose values the head maps to 0, 2 and -1:
        0.5 x 0 + 0.3 x 2 - 0.2 x 1 = 0.4 log-odds. Without the last word the others share its weight: 0.6 / 0.8 = 0.75.

    Args:
        layers: 1 or more.
        vocabulary: how many words.
        epochs, learning_rate, batch_size, max_tokens: of the training, where not the paper's.
        seed: of the training.

    Reference:
        Lopardo, Precioso and Garreau 2024, Attention Meets Post-hoc Interpretability, ICML, section 2.
    """

    name = "attention-classifier"
    cls = True
    max_length = 256
    recipe_defaults = Recipe(
        epochs=10, learning_rate=1e-4, batch_size=16, max_tokens=255, validation=0.2, warmup=0.0, weight_decay=0.01
    )

    def __init__(
        self,
        layers: Count = 1,
        vocabulary: Count = 30_000,
        epochs: Count | None = None,
        learning_rate: Positive | None = None,
        batch_size: Count | None = None,
        max_tokens: Count | None = None,
        seed: Natural = 0,
    ) -> None:
        super().__init__(vocabulary, epochs, learning_rate, batch_size, max_tokens, seed)
        self.layers = layers

    def sizes(self, outputs: int) -> dict[str, Any]:
        """What the net is built from beside its vocabulary."""
        if not isinstance(self.layers, int) or self.layers < 1:
            raise InvalidInput(f"model {self.name}: layers must be 1 or more, not {self.layers!r}")
        return {"outputs": outputs, "layers": self.layers}

    def net(self, words: int, sizes: Mapping[str, Any]) -> nn.Module:
        """The untrained net."""
        from slalom_bench.backends.nets_classic import AttentionNet

        return AttentionNet(words, **sizes)

    def backend_class(self) -> type[TorchBackend]:
        """How the handle sees the net."""
        from slalom_bench.backends.nets_classic import AttentionNetBackend

        return AttentionNetBackend


@model("tfidf-mlp", version=1, family="perceptron")
class TfidfMlp(_Classic):
    """A three-layer perceptron on the TF-IDF of a text's words: not a transformer (appendix F.5).

    Choose it:
        To see which findings are of transformers and which of any model.

    Example:
        Two training texts, "good film" and "bad film": "good" is in one of two, so its weight is log(3 / 2) + 1 = 1.41,
        that of "film" log(3 / 3) + 1 = 1. The perceptron reads "good film" as 1.41 and 1 over their norm 1.72: 0.81 and
        0.58. The order of words is nothing to it.

    Args:
        vocabulary: how many words.
        epochs, learning_rate, batch_size, max_tokens: of the training, where not the defaults.
        seed: of the training.

    Reference:
        Leemann et al. 2025, appendix F.5 and Table 12.
    """

    name = "tfidf-mlp"
    recipe_defaults = Recipe(epochs=4, learning_rate=1e-3, batch_size=64, max_tokens=1000)

    def net(self, words: int, sizes: Mapping[str, Any]) -> nn.Module:
        """The untrained net."""
        import numpy as np

        from slalom_bench.backends.nets_classic import TfidfNet

        return TfidfNet(np.ones(words), **sizes)

    def prepare(self, module: nn.Module, tokens: EnglishWords, texts: list[str]) -> None:
        """The inverse document frequencies of the training texts."""
        import torch

        from slalom_bench.backends.nets_classic import inverse_document_frequencies

        idf = inverse_document_frequencies([tokens.encode(text)[0] for text in texts], len(tokens))
        module.get_buffer("idf").copy_(torch.from_numpy(idf))

    def backend_class(self) -> type[TorchBackend]:
        """How the handle sees the net."""
        from slalom_bench.backends.nets_classic import TfidfBackend

        return TfidfBackend


@model("fc", version=1, family="perceptron")
class FullyConnected(_Classic):
    """Two fully connected layers over 32 positions: what learns the linear synthetic task (figure 3).

    For generated tasks only: longer texts are refused.

    Choose it:
        On `synthetic-linear`, as the model that learns what transformers cannot.

    Example:
        "best worst": slots 1 and 2 of 32 hold the two words' 32 numbers, the others zeros: 32 x 32 = 1024 inputs.
        Without "best", "worst" moves to slot 1.

    Args:
        hidden: the width of the hidden layer.
        epochs, learning_rate, batch_size, max_tokens: of the training, where not the defaults.
        seed: of the training.

    Reference:
        Leemann et al. 2025, Fig. 3.
    """

    name = "fc"
    max_length = 32
    recipe_defaults = Recipe(epochs=20, learning_rate=1e-3, batch_size=20, max_tokens=32)

    def __init__(
        self,
        hidden: Count = 400,
        epochs: Count | None = None,
        learning_rate: Positive | None = None,
        batch_size: Count | None = None,
        max_tokens: Count | None = None,
        seed: Natural = 0,
    ) -> None:
        super().__init__(1000, epochs, learning_rate, batch_size, max_tokens, seed)
        self.hidden = hidden

    def start(self, task: TaskData, options: ModelOptions) -> Mapping[str, Any]:
        """Vocabulary and sizes."""
        if not task.truth:
            raise Unsupported(f"model fc reads 32 words at most, not the texts of {task.task}; use tfidf-mlp")
        return super().start(task, options)

    def sizes(self, outputs: int) -> dict[str, Any]:
        """What the net is built from beside its vocabulary."""
        return {"outputs": outputs, "hidden": self.hidden}

    def net(self, words: int, sizes: Mapping[str, Any]) -> nn.Module:
        """The untrained net."""
        from slalom_bench.backends.nets_classic import SlotNet

        return SlotNet(words, **sizes)

    def backend_class(self) -> type[TorchBackend]:
        """How the handle sees the net."""
        from slalom_bench.backends.nets_classic import SlotBackend

        return SlotBackend

    def training_data(
        self, task: TaskData, backend: TorchBackend, examples: list[Example], recipe: Recipe
    ) -> Callable[[int], Labelled]:
        """Fresh texts every epoch, as in the paper, from the task's distribution."""

        def epoch_data(epoch: int) -> Labelled:
            fresh = generate(task, len(examples), 1000 * (recipe.seed + 1) + epoch)
            return labelled(backend.tokens, fresh, recipe.max_tokens)

        return epoch_data
