"""A bounded soak: 2,000 small cells in one process, with memory and open files as they go.

    python benchmarks/soak.py [--cells 2000]

Exit code 1 if the second half needs more memory or more open files than the first left behind.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import tempfile
from pathlib import Path

from slalom_bench.core.options import ModelOptions
from slalom_bench.running.progress import Reporter
from slalom_bench.running.runner import run_suite
from slalom_bench.running.suite import make_suite

EXPLAINERS = ("random", "lime", "linear-deletion", "slalom-eff")
ALLOWED = 10.0
"""MB of growth over the second half: pages that the allocator has not given back."""


def resident() -> float:
    """MB that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def open_files() -> int:
    """How many files the process has open now."""
    return len(os.listdir("/proc/self/fd"))


class Watching(Reporter):
    """Notes memory and open files every so many cells."""

    def __init__(self, every: int) -> None:
        super().__init__(show=False)
        self.every = every
        self.done = 0
        self.seen: list[tuple[int, float, int]] = []

    def cell_done(self) -> None:
        """One more cell is finished."""
        super().cell_done()
        self.done += 1
        if self.done % self.every == 0:
            gc.collect()
            self.seen.append((self.done, resident(), open_files()))
            print("cells {:5d}   resident {:7.1f} MB   open files {}".format(*self.seen[-1]), flush=True)


def main() -> None:
    """Run the cells, say what was seen, and judge it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=2000)
    cells = parser.parse_args().cells
    suite = make_suite(
        name="soak",
        tasks=("synthetic-linear",),
        models=("bag-of-words",),
        explainers=EXPLAINERS,
        metrics=("deletion", "fidelity-few:masks=20"),
        budgets=(40,),
        samples=2,
        seeds=tuple(range(cells // len(EXPLAINERS))),
    )
    watching = Watching(max(1, cells // 20))
    with tempfile.TemporaryDirectory() as folder:
        result = run_suite(suite, Path(folder) / "run", ModelOptions(device="cpu"), reporter=watching)
    middle, end = watching.seen[len(watching.seen) // 2], watching.seen[-1]
    growth, files = end[1] - middle[1], end[2] - middle[2]
    print(
        f"{result.explained} samples explained, {result.failed} failed; second half: {growth:+.1f} MB, {files:+d} files"
    )
    sys.exit(1 if growth > ALLOWED or files > 0 or result.failed else 0)


if __name__ == "__main__":
    main()
