"""Where a result came from: versions, machine, device, revision, command line."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from slalom_bench.core import version as package
from slalom_bench.core.safe_text import visible
from slalom_bench.core.version import VERSION

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "numpy",
    "scipy",
    "scikit-learn",
    "captum",
    "lime",
    "shap",
)


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def git_revision() -> dict[str, Any]:
    """Revision and dirty flag of the checkout the package runs from; nothing for an installed wheel."""
    folder = Path(package.__file__).resolve().parents[1]

    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != folder.parent:
            return {"revision": None, "dirty": None}
        return {"revision": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return {"revision": None, "dirty": None}


def cpu_name() -> str:
    """The processor as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def device_facts(name: str, threads: int | None = None) -> dict[str, Any]:
    """Model and count of what the models run on; `auto` is the best there is. Threads: of this process unless given."""
    import torch

    from slalom_bench.backends.torch_backend import pick_device

    device = str(pick_device(name))
    facts: dict[str, Any] = {"device": device, "threads": threads or torch.get_num_threads()}
    if device.startswith("cuda"):
        facts |= {"model": torch.cuda.get_device_name(torch.device(device)), "count": torch.cuda.device_count()}
    else:
        facts |= {"model": cpu_name(), "count": os.cpu_count()}
    return facts


def provenance(device: str, command: list[str] | None = None, threads: int | None = None) -> dict[str, Any]:
    """Everything about this call that is not the data, the model or the seeds, which the cells record.

    Args:
        device: as it was asked for.
        command: the command line; None: that of this process.
        threads: of what computes, where that is not this process.
    """
    command = [Path(sys.argv[0]).name, *sys.argv[1:]] if command is None else command
    return {
        "slalom_bench": VERSION,
        "git": git_revision(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: _version(package) for package in PACKAGES},
        "machine": device_facts(device, threads),
        "command": [visible(word) for word in command],
        "started": now(),
    }
