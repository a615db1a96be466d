"""Several processes on one run directory: they share the cells, finish them all, and leave nothing in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

COMMAND = [
    *(sys.executable, "-m", "slalom_bench.cli", "run", "--suite", "smoke", "--budget", "600", "--samples", "6"),
    *("--metric", "strict-fidelity", "--metric", "deletion", "--out"),
]


def start(path: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*COMMAND, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def rows(path: Path) -> dict[str, bytes]:
    files = [*path.rglob("explanations.jsonl"), *path.rglob("scores/*.jsonl"), *path.rglob("samples/*.jsonl")]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def explained(output: str) -> int:
    line = next((line for line in output.splitlines() if "samples explained" in line), "0 samples explained")
    return int(line.split()[0])


def test_two_processes_finish_one_directory_with_the_bytes_of_one(tmp_path: Path) -> None:
    alone = start(tmp_path / "alone")
    assert alone.wait() == 0, alone.stdout.read()
    both = [start(tmp_path / "both") for _ in range(2)]
    outputs = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum(map(explained, outputs)) == 10 * 6, outputs  # every sample by one of them, none by both
    assert rows(tmp_path / "both") == rows(tmp_path / "alone")
    assert len(list((tmp_path / "both").glob("cells/*/done.json"))) == 10


def test_a_killed_process_leaves_no_lock_in_the_way(tmp_path: Path) -> None:
    process = start(tmp_path)
    patience = time.monotonic() + 60
    while not list(tmp_path.rglob("explanations.jsonl")) and time.monotonic() < patience:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(tmp_path.glob("locks/*.lock"))
    again = start(tmp_path)
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    assert "waiting for another process" not in output
    assert len(list(tmp_path.glob("cells/*/done.json"))) == 10
