"""A Ray cluster on this machine for the tests of workers, and commands that run on it."""

from __future__ import annotations

import os
import socket
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PLUGIN = '''
import os, signal, time
from pathlib import Path
import numpy as np
from slalom_bench.core.types import Explanation
from slalom_bench.registry import explainer

@explainer("deadly", version=1, needs=(), stochastic=False, family="other")
class Deadly:
    """Ends its process once on some samples, always on others; fills the memory once; fails always; is slow."""
    def __init__(self, folder: str = "", once: str = "", always: str = "", eats: str = "", slow: float = 0.0,
                 fails: bool = False) -> None:
        self.folder, self.once, self.always, self.eats = folder, once, always, eats
        self.slow, self.fails = slow, fails

    def explain(self, classifier, sample, budget, rng):
        mark = Path(self.folder) / sample.id
        number = sample.id.rpartition("-")[2]
        first = not mark.exists()
        if number in self.always.split("+") or (number in self.once.split("+") and first):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number in self.eats.split("+") and first:
            mark.touch()
            eaten = []
            for _ in range(5 * 16):
                eaten.append(np.ones(2**26, dtype=np.uint8))
                time.sleep(0.05)
            time.sleep(60)
        if self.fails:
            raise ValueError("this never works")
        time.sleep(self.slow)
        return Explanation({"x": np.arange(len(sample), dtype=float)}, "x")
'''


@dataclass
class Nodes:
    """Three nodes of one core each; the last has a cache of models of its own, which is empty."""

    ray: Any
    client: str
    plugin: Path
    last: Any = None
    last_cache: Path = Path()

    @property
    def address(self) -> str:
        return str(self.ray.address)

    def add_last(self, cache: Path) -> None:
        self.last_cache = cache
        self.last = self.ray.add_node(num_cpus=1, env_vars={"SLALOM_BENCH_CACHE": str(cache)})

    def command(self, out: Path, explainer: str, *more: str, address: str | None = "") -> dict[str, Any]:
        """What `subprocess` is to be told to run six samples; in one process where the address is None."""
        words = ["run", "--task", "synthetic-linear", "--model", "bag-of-words", "--explainer", explainer]
        words += ["--explainer", "random", "--metric", "deletion", "--budget", "20", "--samples", "6"]
        if address is not None:
            words += ["--ray-address", address or self.address, "--cpus-per-worker", "1"]
        environment = {**os.environ, "PYTHONPATH": str(self.plugin), "OMP_NUM_THREADS": "1"}
        words += ["--out", str(out), *more]
        return {"args": [sys.executable, "-m", "slalom_bench.cli", *words], "env": environment}


@pytest.fixture(scope="session")
def plugin(tmp_path_factory) -> Path:
    """A package with an explainer, as an installed one looks."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "deadly_explainer.py").write_text(textwrap.dedent(PLUGIN))
    info = folder / "deadly_explainer-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly-explainer\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[slalom_bench.explainers]\ndeadly = deadly_explainer:Deadly\n")
    (info / "top_level.txt").write_text("deadly_explainer\n")
    return folder


@pytest.fixture(scope="session")
def cluster(plugin, tmp_path_factory):
    """Real nodes on this machine; tried again where a busy machine does not let them start."""
    from ray.cluster_utils import Cluster

    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(plugin))  # what is installed on the nodes
    patch.setenv("SLALOM_BENCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    patch.setenv("RAY_worker_niceness", "0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = {"num_cpus": 1, "include_dashboard": False, "ray_client_server_port": port}
    for left in (2, 1, 0):
        nodes = None
        try:
            nodes = Nodes(Cluster(initialize_head=True, head_node_args=head), f"ray://127.0.0.1:{port}", plugin)
            nodes.ray.add_node(num_cpus=1)
            nodes.add_last(tmp_path_factory.mktemp("bare"))
            break
        except Exception:
            if nodes is not None:
                nodes.ray.shutdown()
            if not left:
                raise
    yield nodes
    nodes.ray.shutdown()
    patch.undo()
