"""A metric that says the same of every method and every text: no statistic of it divides by its spread."""

from __future__ import annotations

import pytest

from slalom_bench import registry
from slalom_bench.cli import main
from slalom_bench.core.types import Score


def ended() -> int:
    """The exit code of the command in `sys.argv`."""
    try:
        main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


@pytest.mark.parametrize("value", [0.0, 0.5])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_constant_column_is_shown_by_every_command(tmp_path, lab, scratch, monkeypatch, value, scale):
    @registry.metric("fixed", version=1, needs=(), direction="lower", unit="", headline="x", scale=scale, relevant=0.1)
    class Fixed:
        """One number."""

        def score(self, classifier, sample, explanation, context):
            return Score({"x": value})

    lab.run(
        tmp_path / "run", metrics=("fixed",), budgets=(30,), explainers=("zero", "random", "leave-one-out"), samples=5
    )
    monkeypatch.chdir(tmp_path)
    for words in (
        "report run",
        "submit run --out results",
        "leaderboard --results results --out boards",
        "export run --format latex",
        "compare run run",
        "power run",
        "carry-over run run",
    ):
        monkeypatch.setattr("sys.argv", ["slalom-bench", *words.split()])
        allowed = (0, 2) if words.startswith(("power", "carry")) else (0,)
        assert ended() in allowed, words
    assert "fixed" in (tmp_path / "run" / "report.md").read_text()
    assert "fixed" in (tmp_path / "boards" / "synthetic-slalom" / "slalom-transformer-30.md").read_text()
