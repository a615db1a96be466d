"""How many cores this process may use, and how its threads wait: as a guest on a machine that others use too."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}
"""Threads that wait spin for some 50 microseconds, then sleep. By default they spin for milliseconds, on cores that
others need: beside two busy processes 300 queries of mini-bert then take 0.3 to 4 s in place of 0.15. Without any spin
they lose a third of their speed on an idle machine, since what one product leaves to wait for is shorter than waking
takes; from 1,000 turns on nothing is lost there (`benchmarks/README.md`)."""


def be_a_guest() -> None:
    """Tell the thread libraries how to wait, and how many cores a container's quota leaves; what the user said stands.

    They read the environment once, when torch is first imported: before that this must be called.
    """
    if not WAITING.keys() & os.environ.keys():
        os.environ.update(WAITING)
    quota = cpu_quota()
    if quota is not None and usable_cores() < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores()))


def usable_cores() -> int:
    """Cores by the affinity mask and the quota of a container, at least one."""
    mask = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return mask if quota is None else max(1, min(mask, math.ceil(quota)))


def cpu_quota(root: Path = CGROUPS, own: Path = Path("/proc/self/cgroup")) -> float | None:
    """The cores that the control groups of this process allow it; None where they set no limit.

    The tightest of its own group and those above counts (version 2: cpu.max; version 1: cpu.cfs_quota_us).
    """
    limits = [limit for folder in _groups(root, own) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _groups(root: Path, own: Path) -> list[Path]:
    """The folders of this process's control groups and of those above, of both versions."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    found = [root, root / "cpu"]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        parts = [part for part in path.split("/") if part not in ("", "..")]
        found += [base.joinpath(*parts[: i + 1]) for i in range(len(parts))] + [base]
    return list(dict.fromkeys(found))


def _limit(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="utf-8").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="utf-8").strip()
        except OSError:
            return None
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period)
