"""`global`: the SLALOM that a closed-form model is, read off its outputs by the command line."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from slalom_bench import registry
from slalom_bench.cli import app


def test_every_word_of_a_slalom_transformer_is_recovered(tmp_path):
    out = tmp_path / "words.csv"
    options = ["--task", "synthetic-slalom:vocabulary=16", "--model", "slalom-transformer", "--samples", "40"]
    result = CliRunner().invoke(app, ["global", *options, "--budget", "600", "--top", "3", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "16 words, 600 queries" in result.output
    found = pd.read_csv(out).set_index("word")
    truth = registry.tasks.build("synthetic-slalom:vocabulary=16").load(None).truth
    assert found["value"].to_dict() == pytest.approx(truth["value"], abs=0.02)
    assert found["importance"].to_dict() == pytest.approx(truth["importance"], abs=0.1)
