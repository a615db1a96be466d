"""The same pairs under pytest-benchmark: `pytest benchmarks -k mini-bert` (nothing here passes or fails by time)."""

from __future__ import annotations

from typing import Any

import pytest
from contenders import pairs
from subjects import MODELS

ROWS = (
    "slalom-eff",
    "slalom-fidel",
    "lime",
    "kernel-shap",
    "partition-shap",
    "permutation-shap",
    "integrated-gradients",
    "prefixes",
    "handle",
)


@pytest.mark.parametrize("side", ["ours", "peer"])
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("model", MODELS)
def test_speed(benchmark: Any, model: str, row: str, side: str) -> None:
    if row not in pairs(model):
        pytest.skip(f"{model} has no such row")
    benchmark.group = f"{row} on {model}"
    work = pairs(model)[row][side]
    if model == "mini-bert":
        benchmark.pedantic(work, rounds=5, warmup_rounds=1)
    else:
        benchmark.pedantic(work, rounds=1)
