"""Where workers run, as it is asked for: plain words, so that nothing of Ray is loaded before it is needed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """Where workers run, and what each may use; what is not given follows from what there is."""

    workers: int | None = None
    address: str | None = None
    """Of a cluster that runs already; None: an instance of our own on this machine."""
    cpus: int | None = None
    gpus: float | None = None
