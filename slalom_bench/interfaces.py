"""What a plug-in must look like: one Protocol for each kind of thing that can be registered.

The registry refuses a class that does not fit its Protocol and names the missing part, so the docstrings below are the
reference for contributors. `Surrogate`, `Removal`, `MaskLaw` and `Backend` are defined where the engine uses them and
can be imported from here.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from slalom_bench.core.context import Context
from slalom_bench.core.law import MaskLaw
from slalom_bench.core.options import Availability, ModelOptions, Outline
from slalom_bench.core.removal import Removal
from slalom_bench.core.surrogate import Surrogate
from slalom_bench.core.types import Example, Explanation, Sample, Score, TaskData
from slalom_bench.handle.backend import AttentionBackend, Backend, GradientBackend, MeteredBackend, RandomisableBackend
from slalom_bench.handle.classifier import Classifier

__all__ = [
    "AttentionBackend",
    "Backend",
    "Explainer",
    "GeneratedTask",
    "GradientBackend",
    "MaskLaw",
    "MeteredBackend",
    "Metric",
    "Model",
    "OutlinedModel",
    "RandomisableBackend",
    "RecordedModel",
    "Removal",
    "Surrogate",
    "Task",
]


@runtime_checkable
class Explainer(Protocol):
    """A token attribution method.

    The constructor stores its parameters under their own names, all with defaults, and does nothing else: a result is
    filed under them. Register it with `slalom_bench.explainer`.

    What the handle gives, for a sample of n content tokens (`len(sample)`), which stand in a whole sequence of
    L = n + special tokens, at `classifier.content` (a slice):

    - `masked_log_odds(sample, keep)`: keep is m x n booleans; m numbers. `log_odds(sequences)`: id vectors of your own.
    - needs `gradients`: `embed(sample)` is L x width, rows of the model's embedding table (no positions added), special
      tokens included, in the model's dtype and on its device; not a query. `gradients(words)` takes batch x L x width
      and gives log-odds (batch, numpy float64) and gradients (batch x L x width, torch): one query a row. Scores are of
      the content alone: reduce `grads[:, classifier.content]` over the width, to n numbers, in float64 numpy.
    - needs `attentions`: `attentions(sample)` is layers x heads x L x L, numpy, row i what position i attends to;
      `read_position(sample)` is the position that is classified. The columns `[..., classifier.content]` are the text.

    A gradient method is, in full (SmoothGrad, times input):

        words, content = classifier.embed(sample), classifier.content
        points = words.repeat(budget, 1, 1)
        noise = 0.1 * rng.standard_normal(points[1:, content].shape)
        points[1:, content] += torch.as_tensor(noise).to(points)         # the text alone; row 0 stays the text itself
        log_odds, grads = classifier.gradients(points)
        scores = (grads[:, content].double().mean(0) * words[content].double()).sum(1).cpu().numpy()
        return Explanation({"attribution": scores}, "attribution", classifier.target)
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """Explain the log-odds of `classifier.target` for one sample.

        Args:
            classifier: the handle; the only way to ask the model. It batches, caches and counts.
            sample: the text in the model's content tokens.
            budget: how many sequences may be asked for, duplicates and the full text included; one more is an error.
            rng: the only source of randomness.

        Returns:
            Named scores, one finite number for each content token, and optionally a surrogate.
        """
        ...


@runtime_checkable
class Metric(Protocol):
    """A number that says how good one explanation is. It keeps no state. Register it with `slalom_bench.metric`."""

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """Score one explanation of one sample.

        Args:
            classifier: the handle of the explained model, at the explanation's target.
            sample: the explained sample.
            explanation: what the explainer returned.
            context: the task's data, the protocol, and generators that are the same for every explainer.

        Returns:
            Named values; what is undefined has a reason in `Score.undefined`, never a zero.
        """
        ...


@runtime_checkable
class Task(Protocol):
    """Texts to explain. Evaluation examples come in a fixed order. Register it with `slalom_bench.task`."""

    def load(self, data_dir: Path | None) -> TaskData:
        """Load the texts from `data_dir` where they are there, else from wherever the task knows to look.

        Args:
            data_dir: the folder that the user named, or None.

        Returns:
            The examples, their classes and source; no text is in both splits.
        """
        ...


@runtime_checkable
class GeneratedTask(Task, Protocol):
    """A task whose texts are drawn from a known law, registered with `generated=True`."""

    def generate(self, count: int, seed: int) -> Sequence[Example]:
        """Draw fresh labelled texts.

        Args:
            count: how many.
            seed: another one gives other texts; none gives those of `load`.

        Returns:
            The texts, with labels drawn from the law.
        """
        ...


@runtime_checkable
class Model(Protocol):
    """A classifier by name, not yet loaded. Register it with `slalom_bench.model`."""

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """Load (or train) the model for a task.

        Args:
            task: the loaded task, whose classes the model must know.
            options: device, dtype, directories, and whether training is allowed.

        Returns:
            The model as the handle sees it.
        """
        ...

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """Say, without loading anything heavy, whether the model can be had here and what that would take.

        Args:
            task_name: the task it is wanted for, or None for any.
            options: where to look.

        Returns:
            A state (`shipped`, `cached`, `train`, ...) with a detail for the user.
        """
        ...


@runtime_checkable
class OutlinedModel(Model, Protocol):
    """A model that can say what a plan needs without loading its weights. Others are loaded to be planned with."""

    def outline(self, task: TaskData, options: ModelOptions) -> Outline:
        """Describe the model from its configuration and tokenizer.

        Args:
            task: the loaded task.
            options: where to look; a model that would have to be trained while that is not allowed is an error.

        Returns:
            Capabilities, tokenizer and length limit, each as far as known.
        """
        ...


@runtime_checkable
class RecordedModel(Model, Protocol):
    """A model that can say what it was trained with. Of others boards say that it is not known."""

    def trained_with(self, task: TaskData, options: ModelOptions) -> str:
        """Say in words what of the training bears on explanations: whether it saw texts with tokens dropped.

        Args:
            task: the loaded task.
            options: where to look; the model is loaded already.

        Returns:
            Words for a board (`30 % of tokens dropped`), or nothing where there is no record.
        """
        ...


def misfit(factory: Any, interface: type) -> str:
    """What a class lacks of a Protocol, in words; empty where it fits.

    >>> class Nothing: ...
    >>> misfit(Nothing, Explainer)
    'it has no method explain(classifier, sample, budget, rng)'
    """
    for name in getattr(interface, "__annotations__", {}):
        # a plain class attribute, or one that the constructor sets
        if not hasattr(factory, name) and name not in getattr(factory, "__annotations__", {}):
            return f"it has no attribute {name}"
    for name, method in vars(interface).items():
        if not (inspect.isfunction(method) or isinstance(method, classmethod)) or _is_machinery(name):
            continue
        wanted = list(inspect.signature(getattr(interface, name)).parameters)
        bound = isinstance(method, classmethod)
        arguments = wanted if bound else wanted[1:]
        found = getattr(factory, name, None)
        if not callable(found):
            return f"it has no method {name}({', '.join(arguments)})"
        try:
            inspect.signature(found).bind(*[None] * (len(arguments) + (not bound)))
        except TypeError as error:
            return f"its method {name} does not take ({', '.join(arguments)}): {error}"
        except ValueError:  # a built-in without a signature
            continue
    return ""


def _is_machinery(name: str) -> bool:
    return name in ("__init__", "__subclasshook__", "_proto_hook") or (name.startswith("__") and name != "__len__")
