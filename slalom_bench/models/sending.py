"""Models for another machine: the files of a checkpoint, or a Python object, where it cannot load them itself."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.references import Ref
from slalom_bench.models import checkpoints, python_object
from slalom_bench.models.base import TrainedModel, cache_root, fresh_directory

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.core.types import TaskData


@dataclass(frozen=True)
class Files:
    """What a machine lacks: a checkpoint's files, those of a training, or an object."""

    model: str
    content: Mapping[str, bytes]
    """By name; a checkpoint's directory is flat."""
    trained: bool = False
    """Whether they go into the cache of trained models, under the name of their directory."""
    folder: str = ""
    thing: Any = None
    """The object of `python:NAME`."""


def _directory(model: str, task: TaskData, options: ModelOptions) -> Path | None:
    """The directory on this machine that a model is read from, whether it is there or not; None of others."""
    built = registry.models.build(model)
    if isinstance(built, TrainedModel):
        return built.cache_directory(task, options)
    ref = Ref.parse(model)
    return Path(ref.argument) if ref.name == "hf" and ref.argument else None


def offers(model: str, task: TaskData, options: ModelOptions) -> bool:
    """Whether this machine has what another may lack."""
    directory = _directory(model, task, options)
    return Ref.parse(model).name == "python" or (directory is not None and directory.is_dir())


def wants(model: str, task: TaskData, options: ModelOptions) -> bool:
    """Whether this machine lacks what another has."""
    ref = Ref.parse(model)
    if ref.name == "python":
        return ref.argument not in python_object.OBJECTS
    directory = _directory(model, task, options)
    return directory is not None and not directory.is_dir() and ref.argument not in checkpoints.MOVED


def pack(model: str, task: TaskData, options: ModelOptions) -> Files:
    """What another machine needs to load a model that this one has."""
    ref, directory = Ref.parse(model), _directory(model, task, options)
    if ref.name == "python" and ref.argument:
        return Files(model, {}, thing=python_object.OBJECTS[ref.argument])
    if directory is None:
        return Files(model, {})
    content = {file.name: file.read_bytes() for file in sorted(directory.iterdir()) if file.is_file()}
    return Files(model, content, trained=ref.name != "hf", folder=directory.name)


def receive(files: Files) -> None:
    """Put what was sent where this machine looks for it."""
    ref = Ref.parse(files.model)
    if files.thing is not None and ref.argument:
        python_object.OBJECTS[ref.argument] = files.thing
    elif files.trained:
        target = cache_root() / "models" / files.folder
        if not target.exists():
            with fresh_directory(target) as directory:
                _write(files.content, directory)
    elif ref.argument:
        directory = Path(tempfile.mkdtemp(prefix="slalom-bench-")) / files.folder
        directory.mkdir()
        _write(files.content, directory)
        checkpoints.MOVED[ref.argument] = str(directory)


def _write(content: Mapping[str, bytes], directory: Path) -> None:
    for name, data in content.items():
        (directory / name).write_bytes(data)
