"""Workers on a real Ray cluster of three nodes: the same bytes, whoever computes and whoever dies."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from slalom_bench.api import build_suite
from slalom_bench.core.options import ModelOptions
from slalom_bench.errors import InvalidInput
from slalom_bench.running.cluster import Cluster
from slalom_bench.running.progress import Reporter
from slalom_bench.running.runner import run_suite
from slalom_bench.running.store import RunStore

pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]

COUNTED = ("queries", "forwards", "backwards", "hits", "batches", "tokens", "padding")


def rows(path: Path) -> dict[str, bytes]:
    """Every file but what holds times: costs, their checksum, and the record of calls."""
    timed = ("costs.jsonl", "done.json", "run.json")
    found = (file for file in path.rglob("*") if file.is_file() and file.parent.name != "locks")
    return {str(file.relative_to(path)): file.read_bytes() for file in found if file.name not in timed}


def counts(path: Path) -> dict[tuple[str, str], list[int]]:
    return {
        (cell.identity.key, name): [row[field] for field in COUNTED]
        for cell in RunStore(path).cells()
        for name, row in cell.costs.rows.items()
    }


def spec(**values):
    what = {"task": ["synthetic-linear", "synthetic-slalom"], "model": ["bag-of-words", "slalom-transformer"]}
    what |= {"explainer": ["linear-deletion", "random", "lime"], "metric": ["deletion", "fidelity-top"]}
    return build_suite(**(what | {"budget": [20], "samples": 5} | values))


def go(out, cluster=None, shard=(1, 1), **values):
    return run_suite(spec(**values), out, ModelOptions(device="cpu"), cluster=cluster, shard=shard)


def test_the_same_bytes_and_counts_with_one_two_and_three_workers(tmp_path, cluster):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = go(tmp_path / "alone")
    finally:
        torch.set_num_threads(before)
    for workers in (1, 2, 3):
        result = go(tmp_path / str(workers), Cluster(workers, cluster.address, cpus=1))
        assert (result.explained, result.scored, result.failed) == (alone.explained, alone.scored, 0) == (30, 60, 0)
        assert rows(tmp_path / str(workers)) == rows(tmp_path / "alone")
        assert counts(tmp_path / str(workers)) == counts(tmp_path / "alone")
        (call,) = json.loads((result.path / "run.json").read_text())["calls"]
        assert call["machine"]["threads"] == 1  # a worker's, on which the last bits depend, whatever this process has
    again = go(tmp_path / "3", Cluster(1, cluster.address, cpus=1))
    assert (again.explained, again.reused) == (0, 30)


def test_killed_workers_are_replaced_and_a_sample_that_always_kills_is_an_error_row(tmp_path, cluster):
    """Sample 1 kills its worker once, sample 2 always; explained alone, sample 2 would kill everything."""
    deadly = f"deadly:folder={tmp_path},once=1,always=2"
    told = cluster.command(tmp_path / "run", deadly, "--workers", "2")
    ended = subprocess.run(**told, capture_output=True, text=True, timeout=1200)
    assert ended.returncode == 1, ended.stderr
    assert "worker" in ended.stderr
    assert "is gone" in ended.stderr
    assert "1 samples failed by a fault of the moment" in ended.stderr
    cells = {cell.identity.explainer.name: cell for cell in RunStore(tmp_path / "run").cells()}
    found = cells["deadly"].explanations.rows
    failed = {name: row["error"]["type"] for name, row in found.items() if "error" in row}
    assert len(found) == 6
    assert list(failed.values()) == ["WorkerDied"]
    assert next(iter(failed)).endswith("2")
    assert not any("error" in row for row in cells["random"].explanations.rows.values())
    assert all(cell.samples is not None for cell in cells.values())
    # the failed sample works now: the same command computes it, and all is as if nothing had happened
    harmless = f"deadly:folder={tmp_path},once=1"
    alone = cluster.command(tmp_path / "alone", harmless, address=None)
    subprocess.run(**alone, check=True, capture_output=True, timeout=1200)
    one = next((tmp_path / "alone").glob("cells/*deadly*/explanations.jsonl")).read_text().splitlines()
    other = next((tmp_path / "run").glob("cells/*deadly*/explanations.jsonl")).read_text().splitlines()
    assert [a == b for a, b in zip(one, other, strict=True)] == [name not in failed for name in found]


def test_interrupted_it_keeps_what_is_done_and_leaves_no_worker(tmp_path, cluster):
    import ray

    told = cluster.command(tmp_path / "run", "deadly:slow=0.3", "--workers", "2", "--samples", "30")
    process = subprocess.Popen(**told, stderr=subprocess.PIPE, text=True)
    patience = time.monotonic() + 900
    while not list(tmp_path.glob("run/cells/*/explanations.jsonl")) and time.monotonic() < patience:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130, said
    assert "what is finished is kept" in said
    done = sum(len(cell.explanations.rows) for cell in RunStore(tmp_path / "run").cells())
    assert 0 < done < 60
    ray.init(address=cluster.address, logging_level="error")
    try:
        patience = time.monotonic() + 300
        while ray.available_resources().get("CPU") != 3 and time.monotonic() < patience:
            time.sleep(0.2)
        assert ray.available_resources().get("CPU") == 3
    finally:
        ray.shutdown()


def test_what_a_worker_lacks_is_named(tmp_path, cluster, scratch):
    """An explainer that only this process has."""
    from slalom_bench import registry
    from slalom_bench.core.types import Explanation

    @registry.explainer("only-here", version=1, needs=(), stochastic=False, family="other")
    class OnlyHere:
        """Not installed anywhere."""

        def explain(self, classifier, sample, budget, rng):
            return Explanation({"x": sample.ids.astype(float)}, "x")

    with pytest.raises(InvalidInput, match=r"explainer only-here 1 .* is not installed there"):
        go(tmp_path / "run", Cluster(1, cluster.address, cpus=1), explainer=["only-here"])
    assert not list(tmp_path.glob("run/cells/*"))


def test_what_cannot_be_done_with_workers_is_said_at_once(tmp_path, monkeypatch):
    for options, said in (
        (ModelOptions(device="cuda:1"), "give --device cuda"),
        (ModelOptions(device="cpu", max_requests=5), "--max-requests is a cap of one process"),
    ):
        with pytest.raises(InvalidInput, match=said):
            run_suite(spec(), tmp_path / "run", options, cluster=Cluster(2), reporter=Reporter(show=False))
    monkeypatch.setattr("ray.init", lambda **more: (_ for _ in ()).throw(ConnectionError("nobody\nthere")))
    with pytest.raises(InvalidInput, match=r"no Ray cluster answers at 127.0.0.1:1 \(nobody\)"):
        run_suite(spec(), tmp_path / "run", ModelOptions(device="cpu"), cluster=Cluster(2, "127.0.0.1:1"))
    assert not (tmp_path / "run").exists()
