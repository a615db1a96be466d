"""Shared fixtures: data that is there only where SLALOM_BENCH_DATA says so, and an own cache for every test run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="run tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip_slow = pytest.mark.skip(reason="takes minutes: pass --run-slow")
    for item in items:
        if "slow" in item.keywords and not config.getoption("--run-slow"):
            item.add_marker(skip_slow)
        if "gpu" in item.keywords and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither read nor write the user's model cache, and never ask the hub."""
    monkeypatch.setenv("SLALOM_BENCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def data_dir() -> Path:
    """The development data, where it is."""
    folder = os.environ.get("SLALOM_BENCH_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SLALOM_BENCH_DATA names no data directory")
    return Path(folder)
