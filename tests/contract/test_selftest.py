"""`selftest`: the CPU agrees with itself, and what differs is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from slalom_bench.cli import app
from slalom_bench.contract import selftest as module
from slalom_bench.contract.selftest import compared, explained, on_device
from slalom_bench.handle.classifier import Classifier


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(module, "ARCHITECTURES", ("gpt2",))
    monkeypatch.setattr(module, "WIDE", {"width": 32, "layers": 2})


def test_the_cpu_agrees_with_itself(tmp_path):
    out = tmp_path / "found.json"
    call = [
        "selftest",
        "--device",
        "cpu",
        "--explainer",
        "attnlrp",
        "--explainer",
        "linear-deletion",
        "--out",
        str(out),
    ]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["passed"]
    assert found["provenance"]["machine"]["device"] == "cpu"
    said = {line["what"]: line["fact"] for line in found["lines"]}
    assert "gpt2: attention maps" in said
    assert "gpt2: one sequence a batch" in said
    assert said["explainer linear-deletion"].endswith("again on the device: the same bits")
    assert "tokens a second" in said["throughput"]


def test_a_device_that_answers_otherwise_fails():
    assert not compared("x", np.array([1.0, 2.0]), np.array([1.0, 2.01])).passed
    assert compared("x", np.array([1.0, 2.0]), np.array([1.0, 2.0001])).passed
    here = Classifier(module.random_backend("bert"))
    there = Classifier(on_device(here, "cpu"))
    there.backend.module.classifier.weight.data[1] *= 1.1
    assert not explained("leave-one-out", here, there).passed


def test_an_explainer_that_fails_is_a_line_that_says_so(monkeypatch):
    here = Classifier(module.random_backend("bert"))
    monkeypatch.setattr(module, "BUDGET", 3)
    line = explained("leave-one-out", here, here)
    assert not line.passed
    assert "budget of at least" in line.fact
