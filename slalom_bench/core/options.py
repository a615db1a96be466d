"""How a model is loaded, and whether it can be had here: what models are asked and what they answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slalom_bench.core.tokens import Tokens

Say = Callable[[str], None]
"""Takes one line of progress."""


def silent(text: str) -> None:
    """A `Say` that says nothing."""


def print_line(text: str) -> None:
    """A `Say` that prints to standard error."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class ModelOptions:
    """How models are loaded: nothing here changes which model it is, but for the dtype."""

    device: str = "auto"
    dtype: str = "float32"
    device_map: str | None = None
    data_dir: Path | None = None
    """DATA_DIR/models/NAME is looked at before the hub."""
    allow_training: bool = True
    base_url: str | None = None
    max_requests: int | None = None
    trust_remote_code: bool = False
    progress: bool = True

    @property
    def say(self) -> Say:
        """Says one line of progress on standard error, or nothing."""
        return print_line if self.progress else silent


State = Literal["built-in", "shipped", "cached", "directory", "download", "train", "unavailable"]


@dataclass(frozen=True)
class Availability:
    """Whether a model can be had here, and what that would take."""

    state: State
    detail: str = ""

    @property
    def ready(self) -> bool:
        """No download and no training needed."""
        return self.state in ("built-in", "shipped", "cached", "directory")

    def __str__(self) -> str:
        return f"{self.state}: {self.detail}" if self.detail else self.state


@dataclass(frozen=True)
class Outline:
    """What is known of a model without its weights: enough to plan with."""

    capabilities: frozenset[str] | None = None
    """None where only the loaded model can tell."""
    tokens: Tokens | None = None
    max_length: int | None = None
    """The most tokens of a sequence, special ones included."""
    detail: str = ""
    """What having it will take, where it is not here yet."""
