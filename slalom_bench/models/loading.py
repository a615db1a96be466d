"""Models by reference: `load_model` gives a backend, `resolve_model` a stand-in for what cannot be had."""

from __future__ import annotations

from slalom_bench import registry
from slalom_bench.core.options import Availability, ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.core.types import TaskData
from slalom_bench.errors import SlalomBenchError
from slalom_bench.handle.backend import Backend
from slalom_bench.interfaces import RecordedModel
from slalom_bench.models.pretrained import Pretrained


def load_model(spec: str, task: TaskData, options: ModelOptions) -> Backend:
    """The model of a reference as a backend for a task.

    Args:
        spec: `NAME[:key=value,...]`, `hf:DIR_OR_ID`, `openai:MODEL`.
        task: the loaded task.
        options: device, dtype, directories; whether a model that is not there may be trained.

    Returns:
        The loaded model; one that must be trained first says what that costs and trains.
    """
    backend: Backend = registry.models.build(spec).load(task, options)
    return backend


def model_training(spec: str, task: TaskData, options: ModelOptions) -> str:
    """What a loaded model was trained with, in words; nothing where that is not known."""
    model = registry.models.build(spec)
    return model.trained_with(task, options) if isinstance(model, RecordedModel) else ""


def model_availability(spec: str, task_name: str | None, options: ModelOptions) -> Availability:
    """Whether a model is here, and what having it would take. Loads neither torch nor the task."""
    try:
        found: Availability = registry.models.build(spec).availability(task_name, options)
    except SlalomBenchError as error:
        return Availability("unavailable", str(error))
    return found


def resolve_model(spec: str, task: TaskData, options: ModelOptions) -> tuple[str, str]:
    """The reference to load and why it is another: a pretrained model that cannot be had gives way to its stand-in."""
    ref = Ref.parse(spec)
    stand_in = registry.models.get(ref.name).stand_in
    shipped = len(task.class_names) == 2
    if stand_in is None or ref.params or task.truth or not (shipped or task.train):
        return spec, ""
    built = registry.models.build(ref)
    if not isinstance(built, Pretrained):
        return spec, ""
    checkpoint = built.checkpoint(options)
    problem = checkpoint.problem()
    if built.cached(task, options) or (not problem and (options.allow_training or checkpoint.classifies())):
        return spec, ""
    reason = f"{checkpoint.source}: {problem}" if problem else "it is not trained yet and training is not allowed"
    return stand_in, f"{reason}; {stand_in} was trained on {'IMDB reviews' if shipped else task.task}"
