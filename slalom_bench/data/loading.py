"""Tasks by reference: the task object of a name, and its data from the directory that the user named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slalom_bench import registry
from slalom_bench.core.types import TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.interfaces import Task

DATA_VARIABLE = "SLALOM_BENCH_DATA"
"""The environment variable that names the data directory where no option does."""


def build_task(spec: str, params: Mapping[str, Any] | None = None) -> Task:
    """The task object of a spec.

    Args:
        spec: `NAME`, or `NAME:ARGUMENT` where the argument becomes the parameter that the task declares (`text:FILE`).
        params: the task's other parameters.

    >>> build_task("imdb", {"split": "hash"}).split
    'hash'
    """
    name, colon, argument = spec.partition(":")
    return registry.tasks.get(name).build(params, argument if colon else None)


def load_task(spec: str, params: Mapping[str, Any] | None = None, data_dir: Path | None = None) -> TaskData:
    """Load the task named by a spec from `data_dir` (else SLALOM_BENCH_DATA), the hub or a data package.

    Args:
        spec: `NAME` or `NAME:ARGUMENT`.
        params: the task's parameters.
        data_dir: where to look first.

    >>> load_task("synthetic-linear", {"evaluation_size": 3}).evaluation[0].id
    'evaluation-0-0'
    """
    return build_task(spec, params).load(data_directory(data_dir))


def data_directory(data_dir: Path | None = None) -> Path | None:
    """The given directory, else the one of the environment, else None; a directory that is not there is an error."""
    named = data_dir or (Path(value) if (value := os.environ.get(DATA_VARIABLE)) else None)
    if named is not None and not named.is_dir():
        origin = "--data-dir" if data_dir else DATA_VARIABLE
        raise InvalidInput(f"{origin}: no directory {named}")
    return named
