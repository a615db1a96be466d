"""Models by name: `load` gives a backend, `resolve` a stand-in for what cannot be had, `availability` what is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.options import Availability, ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.errors import SlalomBenchError

if TYPE_CHECKING:
    from slalom_bench.core.types import TaskData
    from slalom_bench.handle.backend import Backend

__all__ = ["Availability", "ModelOptions", "availability", "build", "load", "resolve"]

ARGUMENTS = {"hf": "checkpoint", "openai": "model"}
"""The parameter that the argument after the colon stands for."""
STAND_INS = {"bert": "mini-bert", "distilbert": "mini-distilbert", "gpt2": "mini-gpt2"}


def build(spec: str) -> Any:
    """The registered model of a spec `NAME[:key=value,...]`, `hf:DIR_OR_ID` or `openai:MODEL`, not yet loaded."""
    ref = Ref.parse(spec)
    params = dict(ref.params)
    if ref.argument is not None:
        params[ARGUMENTS[ref.name]] = ref.argument
    return registry.models.get(ref.name).build(params)


def load(spec: str, task: TaskData, options: ModelOptions) -> Backend:
    """The model of a spec as a backend for a task; one that must be trained first says what that costs and trains."""
    backend: Backend = build(spec).load(task, options)
    return backend


def availability(spec: str, task_name: str | None, options: ModelOptions) -> Availability:
    """Whether a model is here, and what having it would take. Loads neither torch nor the task."""
    try:
        found: Availability = build(spec).availability(task_name, options)
    except SlalomBenchError as error:
        return Availability("unavailable", str(error))
    return found


def resolve(spec: str, task: TaskData, options: ModelOptions) -> tuple[str, str]:
    """(spec to load, reason): bert, distilbert and gpt2 give way to the shipped minis where they cannot be had."""
    ref = Ref.parse(spec)
    mini = STAND_INS.get(ref.name)
    if mini is None or ref.params or task.truth or len(task.class_names) != 2:
        return spec, ""
    built = build(spec)
    checkpoint = built.checkpoint(options)
    problem = checkpoint.problem()
    if built.cached(task, options) or (not problem and (options.allow_training or checkpoint.classifies())):
        return spec, ""
    reason = f"{checkpoint.source}: {problem}" if problem else "it is not trained yet and training is not allowed"
    return mini, f"{reason}; {mini} was trained on IMDB reviews"
