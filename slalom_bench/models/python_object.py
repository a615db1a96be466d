"""A Python object as a model of a run: what `slalom_bench.run(model=...)` was given instead of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slalom_bench.core.options import Availability, ModelOptions
from slalom_bench.errors import Unsupported
from slalom_bench.registry import model

if TYPE_CHECKING:
    from slalom_bench.core.types import TaskData
    from slalom_bench.handle.backend import Backend

OBJECTS: dict[str, Any] = {}
"""Backends of this process, by the name that a reference gives."""


def remember(backend: Backend) -> str:
    """Keep a backend under its name for this process; the reference that leads to it."""
    key, number = backend.name, 1
    while key in OBJECTS and OBJECTS[key].identity() != backend.identity():
        number += 1
        key = f"{backend.name}-{number}"
    OBJECTS[key] = backend
    return f"python:{key}"


@model("python", version=1, family="python object", argument="key")
class PythonObject:
    """`python:NAME`: a callable, transformers or scikit-learn model that this Python process has given.

    From Python only: `slalom_bench.run(model=[my_function], ...)`. Workers have it because it is sent to them.

    Choose it:
        Where the model is already in your Python process.

    Example:
        `lambda texts: [text.count("good") - 0.5 for text in texts]` gives log-odds of class 1: "so good" has 0.5,
        without "good" -0.5; so leave-one-out says 1 of "good" and 0 of "so".

    Args:
        key: the name it was remembered under.
    """

    def __init__(self, key: str = "") -> None:
        self.key = key

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """The object itself, if its classes are as many as the task's."""
        if self.key not in OBJECTS:
            raise Unsupported(f"python:{self.key} was an object of another process; give it to slalom_bench.run again")
        backend: Backend = OBJECTS[self.key]
        if task.class_names and len(backend.class_names) != len(task.class_names):
            raise Unsupported(
                f"python:{self.key} has {len(backend.class_names)} classes, {task.task} has {len(task.class_names)}"
            )
        return backend

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """Whether this process has it."""
        if self.key in OBJECTS:
            return Availability("built-in", "an object of this process")
        return Availability("unavailable", "only from Python: slalom_bench.run(model=[...])")
