"""The cores of this process: affinity masks and the quotas of control groups."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from slalom_bench.core.cores import WAITING, be_a_guest, cpu_quota, usable_cores


def group(root, path, **files):
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_version_2_the_tightest_group_above_counts(tmp_path):
    own = tmp_path / "own"
    own.write_text("0::/kube/pod/box\n")
    group(tmp_path, "kube/pod/box", cpu__max="max 100000\n")
    assert cpu_quota(tmp_path, own) is None
    group(tmp_path, "kube/pod", cpu__max="150000 100000\n")
    group(tmp_path, "kube", cpu__max="400000 100000\n")
    assert cpu_quota(tmp_path, own) == 1.5


def test_version_1_and_a_namespace_that_shows_the_root_alone(tmp_path):
    own = tmp_path / "own"
    own.write_text("4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n")
    group(tmp_path, "cpu,cpuacct/docker/abc", cpu__cfs_quota_us="50000\n", cpu__cfs_period_us="100000\n")
    assert cpu_quota(tmp_path, own) == 0.5
    group(tmp_path, "cpu,cpuacct/docker/abc", cpu__cfs_quota_us="-1\n")
    assert cpu_quota(tmp_path, own) is None
    group(tmp_path, "", cpu__max="200000 100000")
    assert cpu_quota(tmp_path, own) == 2.0
    assert cpu_quota(tmp_path / "nowhere", tmp_path / "nothing") is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks here")
def test_the_mask_and_the_quota_both_count(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 3, 5})
    for quota, cores in ((None, 3), (8.0, 3), (1.5, 2), (0.2, 1)):
        monkeypatch.setattr("slalom_bench.core.cores.cpu_quota", lambda quota=quota: quota)
        assert usable_cores() == cores


def test_threads_are_told_before_torch_is_there_and_the_users_word_stands(tmp_path):
    code = (
        "import slalom_bench, os, sys;"
        "print(os.environ.get('OMP_WAIT_POLICY'), os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    )
    clean = {name: value for name, value in os.environ.items() if name not in WAITING}
    for given, said in (
        ({}, "PASSIVE 1000 False"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None False"),
        ({"GOMP_SPINCOUNT": "7"}, "None 7 False"),
    ):
        ended = subprocess.run(
            [sys.executable, "-c", code], env=clean | given, capture_output=True, text=True, check=True
        )
        assert ended.stdout.split() == said.split()


def test_a_quota_sets_the_threads(monkeypatch):
    monkeypatch.setattr("slalom_bench.core.cores.cpu_quota", lambda: 1.0)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("OMP_NUM_THREADS")
    be_a_guest()
    assert os.environ["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    be_a_guest()
    assert os.environ["OMP_NUM_THREADS"] == "3"
