"""Faults on a real Ray cluster: nothing lost, nothing twice, the same final bytes as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slalom_bench.api import build_suite
from slalom_bench.core.options import ModelOptions
from slalom_bench.errors import InvalidInput
from slalom_bench.running.cluster import Cluster
from slalom_bench.running.runner import run_suite
from slalom_bench.running.store import RunStore

pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]

SLOW = ("deadly:slow=0.2", "--samples", "24")
PATIENCE = 900


def rows(path: Path) -> dict[str, bytes]:
    """The files that must be the same however a run came about."""
    patterns = ("cells/*/explanations.jsonl", "cells/*/scores/*.jsonl", "samples/*.jsonl", "cells/*/cell.json")
    return {str(file.relative_to(path)): file.read_bytes() for each in patterns for file in path.glob(each)}


def is_whole(path: Path) -> bool:
    """Whether every cell is finished, and no sample is in a table twice."""
    tables = [file.read_text().splitlines() for file in path.glob("cells/**/*.jsonl")]
    once = all(len({json.loads(line)["id"] for line in lines}) == len(lines) for lines in tables)
    return once and all(cell.samples is not None for cell in RunStore(path).cells())


def until_rows(path: Path, process: subprocess.Popen) -> None:
    """Wait until the first samples of a run are there."""
    patience = time.monotonic() + PATIENCE
    while not list(path.glob("cells/*/explanations.jsonl")) and time.monotonic() < patience:
        assert process.poll() is None, "it ended before it had a row"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def undisturbed(cluster, tmp_path_factory) -> dict[str, bytes]:
    """The files of the slow run, computed by one process."""
    out = tmp_path_factory.mktemp("undisturbed")
    told = cluster.command(out, *SLOW, address=None)
    subprocess.run(**told, check=True, capture_output=True, timeout=PATIENCE)
    return rows(out)


def test_a_node_that_is_removed_takes_nothing_with_it(tmp_path, cluster, undisturbed):
    out = tmp_path / "run"
    process = subprocess.Popen(**cluster.command(out, *SLOW, "--workers", "3"), stderr=subprocess.PIPE, text=True)
    until_rows(out, process)
    cluster.ray.remove_node(cluster.last, allow_graceful=False)
    try:
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        cluster.add_last(tmp_path / "bare")
    assert process.returncode == 0, said
    assert rows(out) == undisturbed
    assert is_whole(out)


def test_a_killed_driver_is_followed_by_two_at_once(tmp_path, cluster, undisturbed):
    """The first is killed in the middle; then two share what is left, each cell by one of them."""
    out = tmp_path / "run"
    told = cluster.command(out, *SLOW, "--workers", "2")
    first = subprocess.Popen(**told, stderr=subprocess.DEVNULL)
    until_rows(out, first)
    first.kill()
    first.wait()
    assert not is_whole(out)
    told = cluster.command(out, *SLOW, "--workers", "1")
    both = [subprocess.Popen(**told, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert rows(out) == undisturbed
    assert is_whole(out)
    calls = RunStore(out).calls()
    assert [call.get("ended") is None for call in calls] == [True, False, False]
    assert sum(call["explained"] for call in calls[1:]) < 48, "what the killed one had finished is not done again"


def test_a_worker_out_of_memory_is_replaced(tmp_path, cluster):
    """Ray's own monitor ends a worker that takes too much of the machine; here a bit more than is taken now."""
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (int(memory[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    if free < 8 * 2**30:
        pytest.skip("less than 8 GB of free memory")
    eats = f"deadly:folder={tmp_path},eats=1"
    told = cluster.command(tmp_path / "run", eats, "--workers", "1", address=None)
    told["env"] |= {
        "RAY_memory_usage_threshold": f"{(total - free + 3.5 * 2**30) / total:.4f}",
        "RAY_memory_monitor_refresh_ms": "100",
    }
    ended = subprocess.run(**told, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stderr
    assert "worker 1 is gone" in ended.stderr
    assert "memory" in ended.stderr.partition("worker 1 is gone")[2].splitlines()[0]
    alone = cluster.command(tmp_path / "alone", eats, address=None)  # its mark is there: it eats no more
    subprocess.run(**alone, check=True, capture_output=True, timeout=PATIENCE)
    assert rows(tmp_path / "run") == rows(tmp_path / "alone")
    assert is_whole(tmp_path / "run")


def test_a_cell_that_always_fails_is_error_rows_and_the_rest_finishes(tmp_path, cluster):
    told = cluster.command(tmp_path / "run", "deadly:fails=true", "--workers", "2")
    ended = subprocess.run(**told, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 1, ended.stderr
    cells = {cell.identity.explainer.name: cell for cell in RunStore(tmp_path / "run").cells()}
    errors = [row["error"]["message"] for row in cells["deadly"].explanations.rows.values()]
    assert errors == ["this never works"] * 6
    assert not any("error" in row for row in cells["random"].explanations.rows.values())
    alone = cluster.command(tmp_path / "alone", "deadly:fails=true", address=None)
    assert subprocess.run(**alone, capture_output=True, timeout=PATIENCE).returncode == 1
    assert rows(tmp_path / "run") == rows(tmp_path / "alone")


def go(out: Path, cluster: Cluster | None, **values) -> None:
    suite = build_suite(**({"explainer": ["leave-one-out"], "metric": ["deletion"], "budget": [20]} | values))
    result = run_suite(suite, out, ModelOptions(device="cpu", progress=False), cluster=cluster)
    assert result.failed == 0


@pytest.fixture
def one_thread():
    """As many threads in this process as workers have."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_files_that_only_the_driver_has_reach_the_workers(tmp_path, cluster):
    """Texts and checkpoint lie under a descriptor that is open in this process alone, so no worker finds them."""
    from slalom_bench.backends.architectures import architecture_named
    from slalom_bench.backends.architectures.base import Size
    from slalom_bench.models.minis import train_tokenizer

    folder = tmp_path / "only"
    texts = [f"the plot is {word} and so is the film" for word in ("good", "bad", "dull", "fine")]
    tokenizer = train_tokenizer("bert", texts * 3)
    size = Size(len(tokenizer), tokenizer.pad_token_id, ("no", "yes"), layers=1, width=32, positions=64, dropout=0.0)
    architecture_named("bert").random_classifier(size).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    lines = [json.dumps({"text": text, "label": i % 2}) for i, text in enumerate(texts)]
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n")
    held = os.open(folder, os.O_RDONLY)
    high = os.dup2(held, 900)
    try:
        place = f"/proc/self/fd/{high}"
        what = {"task": [f"text:{place}/texts.jsonl"], "model": [f"hf:{place}/model"], "samples": 4}
        go(tmp_path / "alone", None, **what)
        go(tmp_path / "sent", Cluster(2, cluster.address, cpus=1), **what)
    finally:
        os.close(held)
        os.close(high)
    assert rows(tmp_path / "sent") == rows(tmp_path / "alone")
    assert is_whole(tmp_path / "sent")


@pytest.mark.usefixtures("one_thread")
def test_a_training_that_one_node_lacks_is_sent_to_it(tmp_path, cluster, capfd):
    """The last node has an empty cache: it gets the trained model, and does not train one of its own."""
    what = {"task": ["synthetic-linear"], "model": ["fc:epochs=1,hidden=8"], "samples": 6}
    go(tmp_path / "alone", None, **what)
    before = set(Path(cluster.last_cache).rglob("*.safetensors"))
    go(tmp_path / "sent", Cluster(3, cluster.address, cpus=1), **what)
    assert rows(tmp_path / "sent") == rows(tmp_path / "alone")
    assert set(Path(cluster.last_cache).rglob("*.safetensors")) - before


@pytest.mark.usefixtures("one_thread")
def test_the_same_through_a_ray_client(tmp_path, cluster):
    """`ray://HOST:PORT`: the driver is no part of the cluster."""
    pytest.importorskip("grpc", reason="Ray's client is not installed: ray[client]")
    what = {"task": ["synthetic-linear"], "model": ["bag-of-words"], "samples": 4}
    go(tmp_path / "alone", None, **what)
    code = (
        "import sys; from pathlib import Path; from slalom_bench.running.cluster import Cluster; "
        "from slalom_bench.api import build_suite; from slalom_bench.core.options import ModelOptions; "
        "from slalom_bench.running.runner import run_suite; "
        f"suite = build_suite(explainer=['leave-one-out'], metric=['deletion'], budget=[20], **{what!r}); "
        "run_suite(suite, Path(sys.argv[1]), ModelOptions(device='cpu'), cluster=Cluster(2, sys.argv[2], cpus=1))"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "client"), cluster.client]
    for _ in range(3):  # the client's server gives up after half a minute, which a busy machine may need
        ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        if "no Ray cluster answers" not in ended.stderr:
            break
    assert ended.returncode == 0, ended.stderr
    assert rows(tmp_path / "client") == rows(tmp_path / "alone")


def test_without_ray_s_client_it_says_what_to_install(tmp_path, monkeypatch):
    def no_client(**more):
        raise ImportError("grpc")

    monkeypatch.setattr("ray.init", no_client)
    with pytest.raises(InvalidInput, match=r"ray://h:1 needs Ray's client: pip install 'ray\[client\]'"):
        go(tmp_path / "run", Cluster(1, "ray://h:1"), task=["synthetic-linear"], model=["bag-of-words"], samples=1)
