"""What boards say of a model's training is what its record says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.models.loading import model_training
from slalom_bench.models.minis import MiniBert
from slalom_bench.models.training_records import recorded_training
from slalom_bench.results.boards import boards
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import read_run
from slalom_bench.running.identity import ModelIdentity
from slalom_bench.showing import markdown
from slalom_bench.showing.terminal import _caption

QUIET = ModelOptions(device="cpu", progress=False)
TASK = TaskData("text", DataSource("file", "x", "hash"), ("negative", "positive"), (Example("a", "good", 1),))


@pytest.mark.parametrize(("name", "moved"), [("bert", 50), ("distilbert", 50), ("gpt2", 50), ("rotary", 80)])
def test_the_minis_were_trained_with_deletions_and_at_random_positions(name, moved):
    said = model_training(f"mini-{name}", TASK, QUIET)
    assert said == f"30 % of tokens dropped, {moved} % of texts at random positions"


def test_a_model_without_positions_to_jitter_says_only_what_was_dropped():
    assert model_training("mini-alibi", TASK, QUIET) == "30 % of tokens dropped"


def test_records_of_trainings_and_of_foreign_checkpoints(tmp_path):
    ours, foreign, broken = (tmp_path / name for name in ("ours", "foreign", "broken"))
    for folder in (ours, foreign, broken):
        folder.mkdir()
    (ours / "training.json").write_text(json.dumps({"identity": {"recipe": {"token_drop": 0.125}}}))
    (broken / "training.json").write_text("[1, 2")
    (broken / "card.json").write_text(json.dumps({"recipe": None}))
    assert recorded_training(ours) == "12.5 % of tokens dropped"
    assert recorded_training(foreign) == recorded_training(broken) == ""
    assert model_training(f"hf:{ours}", TASK, QUIET) == "12.5 % of tokens dropped"
    assert model_training(f"hf:{foreign}", TASK, QUIET) == ""
    assert model_training(f"hf:{MiniBert().directory}", TASK, QUIET).startswith("30 % of tokens dropped")
    assert model_training("bag-of-words", TASK, QUIET) == "none, a closed form"
    assert model_training("openai:some-model", TASK, QUIET) == ""


def test_it_describes_and_does_not_identify(lab, tmp_path):
    subject = lab.subject()
    subject.training = "30 % of tokens dropped"
    told = collect(read_run(lab.run(tmp_path / "told", subject, explainers=("zero",))))[0].submission
    plain = collect(read_run(lab.run(tmp_path / "plain", explainers=("zero",))))[0].submission
    keys = [submission.identity(submission.rows[0]).key for submission in (told, plain)]
    assert keys[0] == keys[1]
    assert len(boards([told, plain])) == 2  # two budgets, not four tables
    board, unknown = boards([told])[0], boards([plain])[0]
    assert "training 30 % of tokens dropped" in markdown.facts(board)
    assert "training: 30 % of tokens dropped" in _caption(board, intervals=True)
    assert "training unknown" in markdown.facts(unknown)
    assert ModelIdentity(name="m", identity="i", dtype="float32").training == ""


def test_a_run_takes_it_from_the_model(tmp_path):
    from slalom_bench.running.loading import Loader

    file = Path(tmp_path / "texts.jsonl")
    file.write_text('{"id": "1", "text": "a good film", "label": 1}\n{"id": "2", "text": "a bad film", "label": 0}\n')
    subject = Loader(QUIET).model(f"text:{file}", "mini-gpt2", "delete")
    assert subject.training == "30 % of tokens dropped, 50 % of texts at random positions"
