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


def test_the_other_class_has_the_opposite_values(tmp_path):
    words = {}
    for target in ("negative", "1"):
        out = tmp_path / f"{target}.csv"
        options = ["--task", "synthetic-slalom:vocabulary=16", "--model", "slalom-transformer", "--samples", "40"]
        options += ["--budget", "300", "--target", target, "--out", str(out)]
        assert CliRunner().invoke(app, ["global", *options]).exit_code == 0
        words[target] = pd.read_csv(out).set_index("word")["value"]
    assert words["negative"].to_dict() == pytest.approx((-words["1"]).to_dict(), abs=1e-3)


def test_of_more_than_two_classes_one_must_be_named(tmp_path):
    from slalom_bench import wrap
    from slalom_bench.models.python_object import remember

    names = ("a", "b", "c")
    (tmp_path / "t.jsonl").write_text("".join(f'{{"text": "so {name} it", "label": "{name}"}}\n' for name in names))
    model = wrap(lambda texts: [[0.0, 1.0, 2.0]] * len(texts), class_names=names, output="logits", name="three")
    options = ["--task", f"text:{tmp_path / 't.jsonl'}", "--model", remember(model.backend), "--budget", "9"]
    refused = CliRunner().invoke(app, ["global", *options])
    assert "give one of them as --target: a, b, c" in str(refused.exception)
    assert CliRunner().invoke(app, ["global", *options, "--target", "c"]).exit_code == 0
