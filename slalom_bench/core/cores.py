"""How many cores this process may use: of those that the machine has, what its masters left it."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


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
