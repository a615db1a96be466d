"""Checkpoints through the handle: the answers of transformers itself, and an answer for every broken checkpoint."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slalom_bench import registry
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.classifier import Classifier
from slalom_bench.models.checkpoints import Checkpoint
from slalom_bench.models.loading import load_model, model_availability, resolve_model
from slalom_bench.models.minis import train_tokenizer

TEXTS = [
    "a good film with a good story",
    "a bad film",
    "we watched the worst movie of the year and left early",
    "the best",
    "an ok plot, fine actors, and a very slow middle part that nobody needs at all",
]
QUIET = ModelOptions(device="cpu", progress=False)
ARCHITECTURES = ("bert", "distilbert", "gpt2", "bloom", "mamba")


def make_checkpoint(
    directory: Path, architecture: str, classes: tuple[str, ...] = ("negative", "positive"), layers: int = 2
) -> Path:
    """A small random classifier and its tokenizer, saved as transformers saves them."""
    import torch

    from slalom_bench.backends.architectures import architecture_named
    from slalom_bench.backends.architectures.base import Size

    tokenizer = train_tokenizer("bert" if "bert" in architecture else "gpt2", TEXTS * 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        size = Size(len(tokenizer), tokenizer.pad_token_id, classes, layers=layers, width=32, positions=64, dropout=0.1)
        module = architecture_named(architecture).random_classifier(size)
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(5.0)
    module.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return {name: make_checkpoint(root / name, name) for name in ARCHITECTURES}


@pytest.fixture
def broken(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of a checkpoint to be damaged."""
    return Path(shutil.copytree(checkpoints["bert"], tmp_path / "broken"))


@pytest.fixture(scope="module")
def task() -> TaskData:
    examples = tuple(Example(str(i), f"{text} {i}", i % 2) for i, text in enumerate(TEXTS * 24))
    return TaskData("text", DataSource("file", "x", "hash"), ("negative", "positive"), examples[:8], examples)


def answers(classifier: Classifier) -> np.ndarray:
    return classifier.log_odds([classifier.encode(Example("x", text)).ids for text in TEXTS])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_odds_are_those_of_transformers_called_directly(
    checkpoints: dict[str, Path], task: TaskData, architecture: str
) -> None:
    import torch
    import transformers as hf

    from slalom_bench.backends.mamba_classifier import MambaForSequenceClassification

    directory = checkpoints[architecture]
    found = answers(Classifier(load_model(f"hf:{directory}", task, QUIET)))
    tokenizer = hf.AutoTokenizer.from_pretrained(directory)
    auto = MambaForSequenceClassification if architecture == "mamba" else hf.AutoModelForSequenceClassification
    module: Any = auto.from_pretrained(directory).eval()
    with torch.no_grad():
        logits = [
            module(**{k: v for k, v in tokenizer(text, return_tensors="pt").items() if k != "token_type_ids"}).logits[0]
            for text in TEXTS
        ]
    np.testing.assert_allclose(found, [float(row[1] - row[0]) for row in logits], atol=1e-5)
    assert np.ptp(found) > 1e-3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_by_one_and_together_are_the_same(checkpoints: dict[str, Path], task: TaskData, architecture: str) -> None:
    backend = load_model(f"hf:{checkpoints[architecture]}", task, QUIET)
    alone = answers(Classifier(backend, token_budget=1))
    np.testing.assert_allclose(alone, answers(Classifier(backend, token_budget=10_000)), atol=1e-5)
    np.testing.assert_allclose(alone, [answers_of(backend, text) for text in TEXTS], atol=1e-5)


def answers_of(backend: Any, text: str) -> float:
    classifier = Classifier(backend)
    return float(classifier.log_odds([classifier.encode(Example("x", text)).ids])[0])


@pytest.mark.parametrize("architecture", ["gpt2", "bloom", "mamba"])
def test_a_hidden_tail_is_as_if_cut_off(checkpoints: dict[str, Path], task: TaskData, architecture: str) -> None:
    """Last-token models are read at the last position that is not hidden."""
    backend = load_model(f"hf:{checkpoints[architecture]}", task, QUIET)
    hidden = Classifier(backend, removal=registry.removals.build("pad"))
    sample = hidden.encode(Example("x", TEXTS[2]))
    keep = np.arange(len(sample)) < 5
    cut = hidden.log_odds([sample.ids[:5]])
    np.testing.assert_allclose(hidden.masked_log_odds(sample, keep[None]), cut, atol=1e-5)


def test_mamba_has_gradients_and_no_attention(checkpoints: dict[str, Path], task: TaskData) -> None:
    classifier = Classifier(load_model(f"mamba:source={checkpoints['mamba']}", task, QUIET))
    assert classifier.capabilities == {"queries", "gradients"}
    sample = classifier.encode(Example("x", TEXTS[0]))
    words = classifier.embed(sample)
    value, gradient = classifier.gradients(words[None])
    np.testing.assert_allclose(value, classifier.log_odds([sample.ids]), atol=1e-5)
    step = 1e-2 * gradient[0] / gradient[0].norm()
    moved, _ = classifier.gradients((words + step)[None])
    assert moved[0] - value[0] == pytest.approx(float((step * gradient[0]).sum()), rel=0.1)
    with pytest.raises(Unsupported, match="no attentions"):
        classifier.attentions(sample)


@pytest.mark.parametrize("architecture", ["bloom", "mamba"])
def test_large_models_take_the_dtype_asked_for(checkpoints: dict[str, Path], task: TaskData, architecture: str) -> None:
    spec = f"{architecture}:source={checkpoints[architecture]}"
    half = load_model(spec, task, replace(QUIET, dtype="bfloat16"))
    full = load_model(spec, task, QUIET)
    assert (half.dtype, full.dtype) == ("bfloat16", "float32")
    assert half.identity() != full.identity()
    np.testing.assert_allclose(answers(Classifier(half)), answers(Classifier(full)), atol=0.5)
    with pytest.raises(InvalidInput, match="unknown dtype 'int8'"):
        load_model(spec, task, replace(QUIET, dtype="int8"))


def test_a_device_map_is_passed_on(checkpoints: dict[str, Path], task: TaskData) -> None:
    spec, options = f"bloom:source={checkpoints['bloom']}", replace(QUIET, device_map="cpu")
    if importlib.util.find_spec("accelerate") is None:
        with pytest.raises(InvalidInput, match="pip install accelerate"):
            load_model(spec, task, options)
    else:
        backend: Any = load_model(spec, task, options)
        assert {str(device) for device in backend.module.hf_device_map.values()} == {"cpu"}


def test_three_classes_and_one_logit(tmp_path: Path, task: TaskData) -> None:
    three = load_model(f"hf:{make_checkpoint(tmp_path / 'three', 'bert', ('no', 'maybe', 'yes'))}", task, QUIET)
    assert three.class_names == ("no", "maybe", "yes")
    classifier = Classifier(three)
    probabilities = classifier.probabilities([classifier.encode(Example("x", TEXTS[0])).ids])
    assert probabilities.shape == (1, 3)
    one = load_model(f"hf:{make_checkpoint(tmp_path / 'one', 'gpt2', ('angry',))}", task, QUIET)
    assert one.class_names == ("not angry", "angry")
    assert np.ptp(answers(Classifier(one))) > 0


def test_fp16_files_are_computed_in_float32(broken: Path, task: TaskData) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    before = answers(Classifier(load_model(f"hf:{broken}", task, QUIET)))
    weights = load_file(broken / "model.safetensors")
    save_file({k: v.to(torch.float16) for k, v in weights.items()}, broken / "model.safetensors", {"format": "pt"})
    backend = load_model(f"hf:{broken}", task, QUIET)
    assert backend.dtype == "float32"
    np.testing.assert_allclose(answers(Classifier(backend)), before, atol=0.02)


# ---- broken checkpoints ----


def test_no_tokenizer(broken: Path, task: TaskData) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (broken / name).unlink()
    with pytest.raises(InvalidInput, match="no tokenizer"):
        load_model(f"hf:{broken}", task, QUIET)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"\xff" * 8 + data[8:]])
def test_corrupt_weights(broken: Path, task: TaskData, damage: Any) -> None:
    path = broken / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InvalidInput, match="corrupt"):
        load_model(f"hf:{broken}", task, QUIET)


def test_pickled_weights_are_refused(broken: Path, task: TaskData) -> None:
    (broken / "model.safetensors").rename(broken / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match="pickled ones are never loaded"):
        load_model(f"hf:{broken}", task, QUIET)


def test_an_untrained_head_is_refused(broken: Path, task: TaskData) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(broken / "model.safetensors")
    body = {name: tensor for name, tensor in weights.items() if "classifier" not in name}
    save_file(body, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(InvalidInput, match=r"not a trained sequence classifier.*classifier\.bias"):
        load_model(f"hf:{broken}", task, QUIET)


def test_code_beside_a_checkpoint_is_not_run(broken: Path, task: TaskData, tmp_path: Path) -> None:
    config = json.loads((broken / "config.json").read_text())
    own = {"AutoConfig": "own.Own", "AutoModelForSequenceClassification": "own.Own"}
    config |= {"model_type": "own", "auto_map": own}
    (broken / "config.json").write_text(json.dumps(config))
    (broken / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(InvalidInput):
        load_model(f"hf:{broken}", task, QUIET)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["\u0663", "bert-", "a..b", "a--b", "x" * 97, "a/b/c", "a b", "a/b.git"])
def test_what_is_neither_directory_nor_hub_id(name: str) -> None:
    """A digit of another script, for instance: what the hub's package refuses, it is not asked for."""
    assert Checkpoint(name).problem() == f"there is no directory {name}, and it is no hub id (OWNER/NAME)"


def test_missing_directories_and_unreachable_hubs(task: TaskData, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="no such directory"):
        load_model("hf:./nowhere", task, QUIET)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InvalidInput, match="HF_HUB_OFFLINE is set"):
        load_model("hf:someone/something", task, QUIET)
    with pytest.raises(InvalidInput, match="hf:DIRECTORY or hf:HUB_ID"):
        load_model("hf", task, QUIET)


# ---- cutting and fine-tuning ----


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLALOM_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_pretrained_models_are_cut_and_fine_tuned(tmp_path: Path, task: TaskData, architecture: str) -> None:
    import transformers as hf

    source = make_checkpoint(tmp_path / "models" / architecture, architecture, layers=4)
    module: Any = hf.AutoModelForSequenceClassification.from_pretrained(source)
    module.base_model.save_pretrained(source)
    options = replace(QUIET, data_dir=tmp_path)
    assert model_availability(architecture, "text", options).state == "train"
    small = registry.models.build(f"{architecture}:epochs=1")
    cut = small.build(task, [], options)
    pretrained = dict(module.base_model.named_parameters())
    kept = dict(cut.module.base_model.named_parameters())
    assert cut.module.config.num_hidden_layers == 2
    assert set(kept) < set(pretrained)
    assert all(kept[name].equal(pretrained[name]) for name in kept)
    backend = load_model(f"{architecture}:epochs=1", task, options)
    assert backend.class_names == task.class_names
    assert backend.module.config.num_hidden_layers == 2  # type: ignore[attr-defined]
    assert model_availability(f"{architecture}:epochs=1", "text", options).state == "cached"


@pytest.mark.usefixtures("offline")
def test_minis_stand_in_where_the_hub_cannot_be_had(task: TaskData) -> None:
    assert model_availability("gpt2", "text", QUIET).state == "unavailable"
    actual, reason = resolve_model("gpt2", task, QUIET)
    assert actual == "mini-gpt2"
    assert "HF_HUB_OFFLINE is set" in reason
    assert resolve_model("mini-gpt2", task, QUIET) == ("mini-gpt2", "")
    synthetic = load_task("synthetic-linear", {"train_size": 10, "evaluation_size": 5})
    assert resolve_model("bert", synthetic, QUIET) == ("bert", "")
    with pytest.raises(InvalidInput, match="mini-bert"):
        load_model("bert", task, QUIET)


def test_an_unreachable_hub_is_noticed_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("SLALOM_BENCH_CACHE", str(tmp_path))
    start = time.monotonic()
    found = model_availability("bloom", "imdb", QUIET)
    assert found.state == "unavailable"
    assert "cannot be reached" in found.detail
    assert time.monotonic() - start < 10


# ---- true models and listing ----


def test_laws_answer_exactly_and_only_for_their_task() -> None:
    linear = load_task("synthetic-linear", {"train_size": 10, "evaluation_size": 30})
    slalom = load_task("synthetic-slalom", {"train_size": 10, "evaluation_size": 30})
    weight, value = linear.truth["weight"], slalom.truth["value"]
    bag = Classifier(load_model("bag-of-words", linear, QUIET))
    true = Classifier(load_model("slalom-transformer", slalom, QUIET))
    for example in linear.evaluation:
        expected = sum(weight[word] for word in example.text.split())
        assert bag.log_odds([bag.encode(example).ids])[0] == pytest.approx(expected, abs=1e-5)
    for example in slalom.evaluation:
        words = example.text.split()
        share = np.exp([slalom.truth["importance"][word] for word in words])
        expected = (share * [value[word] for word in words]).sum() / share.sum()
        assert true.log_odds([true.encode(example).ids])[0] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(Unsupported, match="the true log-odds of synthetic-linear"):
        load_model("bag-of-words", slalom, QUIET)


def test_availability_of_every_model_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from slalom_bench import registry\n"
        "from slalom_bench.core.options import ModelOptions\n"
        "from slalom_bench.models.loading import model_availability\n"
        "options = ModelOptions()\n"
        "for name in registry.models.names(): assert str(model_availability(name, None, options))\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'heavy import'\n"
    )
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_unknown_names_and_parameters_are_named() -> None:
    with pytest.raises(InvalidInput, match="no parameter 'depth'"):
        registry.models.build("bert:depth=3")
    assert model_availability("bertt", None, QUIET).state == "unavailable"
