"""The training loop: what it learns, that a killed training is continued exactly, and what the cache key holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import TorchBackend
from slalom_bench.core.options import ModelOptions, silent
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.models.base import trainings
from slalom_bench.models.pretrained import Bert
from slalom_bench.models.training import (
    Labelled,
    Recipe,
    batch_loss,
    batches,
    evaluate,
    fit,
    labelled,
    perturbed,
    placed,
    rate,
    split_validation,
    with_special_tokens,
)

RECIPE = Recipe(epochs=3, learning_rate=3e-3, batch_size=16, max_tokens=12, token_drop=0.1, window=0.5)


def separable(count: int, seed: int) -> Labelled:
    """Ids 10..19 say class 1, 20..29 class 0, the rest nothing."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=count)
    texts = [np.concatenate([rng.integers(30, 60, 9), rng.integers(10, 20, 3) + 10 * (1 - y)]) for y in labels]
    return Labelled([rng.permutation(text).astype(np.int64) for text in texts], labels.astype(np.int64))


def test_learns_a_separable_task_and_keeps_the_best_epoch(tmp_path: Path) -> None:
    backend = random_backend("bert", scale=1.0)
    data, validation = separable(400, 0), separable(100, 1)
    assert evaluate(backend, validation)[0] < 0.8
    report = fit(backend, lambda epoch: data, validation, RECIPE, tmp_path / "state", silent)
    accuracy, loss = evaluate(backend, validation)
    assert accuracy > 0.97
    assert not backend.module.training
    best = report.history[report.best_epoch]
    assert best["accuracy"] >= max(row["accuracy"] for row in report.history) - 0.02, "a standard error of 0.97 in 100"
    assert (accuracy, loss) == pytest.approx((best["accuracy"], best["loss"]), abs=1e-6)


@pytest.mark.parametrize("architecture", ["distilbert", "gpt2"])
def test_a_killed_training_ends_as_an_undisturbed_one(tmp_path: Path, architecture: str) -> None:
    data, validation = separable(96, 0), separable(40, 1)
    recipe = replace(RECIPE, prefix_loss=0.5 if architecture == "gpt2" else 0.0)

    def killed(epoch: int) -> Labelled:
        if epoch == 2:
            raise KeyboardInterrupt
        return data

    undisturbed, resumed = (random_backend(architecture, scale=1.0) for _ in range(2))
    fit(undisturbed, lambda epoch: data, validation, recipe, tmp_path / "one", silent)
    with pytest.raises(KeyboardInterrupt):
        fit(random_backend(architecture, scale=1.0), killed, validation, recipe, tmp_path / "two", silent)
    report = fit(resumed, lambda epoch: data, validation, recipe, tmp_path / "two", silent)
    assert len(report.history) == 3
    assert undisturbed.identity() == resumed.identity()
    assert undisturbed.identity() != random_backend(architecture, scale=1.0).identity()
    assert {path.suffix for path in (tmp_path / "two").iterdir()} == {".safetensors", ".json"}


def test_a_training_killed_inside_an_epoch_ends_as_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the third batch of the first and of the second epoch, with dropout: torch's generator goes on where it was."""
    import torch

    from slalom_bench.models import training

    data, validation = separable(96, 0), separable(40, 1)
    recipe = replace(RECIPE, epochs=2, position_jitter=0.5, averaged=0.7)
    monkeypatch.setattr(training, "_SAVE_EVERY", 0.0)
    loss, calls = training.batch_loss, []

    def killed(*given: object) -> torch.Tensor:
        calls.append(1)
        if len(calls) in (3, 10):
            raise KeyboardInterrupt
        return loss(*given)  # type: ignore[arg-type]

    def backend() -> TorchBackend:
        made = random_backend("bert", scale=1.0)
        for part in made.module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.2
        return made

    undisturbed, resumed, said = backend(), backend(), []
    one = fit(undisturbed, lambda epoch: data, validation, recipe, tmp_path / "one", silent)
    monkeypatch.setattr(training, "batch_loss", killed)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fit(backend(), lambda epoch: data, validation, recipe, tmp_path / "two", silent)
    two = fit(resumed, lambda epoch: data, validation, recipe, tmp_path / "two", said.append)
    assert said[0] == "continuing after epoch 1 of 2 and batch 2 of the next"
    assert len(calls) == 2 * 6 + 2
    assert undisturbed.identity() == resumed.identity()
    assert [row["train_loss"] for row in one.history] == [row["train_loss"] for row in two.history]


@pytest.mark.parametrize(("share", "steps"), [(0.0, 1), (0.01, 1), (0.5, 10), (1.0, 18)])
def test_the_last_epoch_leaves_the_mean_of_the_last_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, steps: int
) -> None:
    """18 steps in all; what the epochs before leave is not touched."""
    import torch

    from slalom_bench.models import training

    seen: list[torch.Tensor] = []
    backend, rate_of = random_backend("bert", scale=1.0), training._adamw
    watched = next(p for p in backend.module.parameters() if p.dim() == 2)

    def watching(*given: object) -> torch.optim.Optimizer:
        optimizer = rate_of(*given)  # type: ignore[arg-type]
        optimizer.register_step_post_hook(lambda *_: seen.append(watched.detach().clone()))
        return optimizer

    monkeypatch.setattr(training, "_adamw", watching)
    # one validation text: the last epoch counts as good as any
    validation = Labelled(separable(1, 1).sequences, separable(1, 1).labels)
    recipe = replace(RECIPE, averaged=share)
    report = fit(backend, lambda epoch: separable(96, 0), validation, recipe, tmp_path / "state", silent)
    assert (report.best_epoch, len(seen)) == (2, 18)
    assert torch.allclose(watched, torch.stack(seen[-steps:]).mean(dim=0), atol=1e-6)
    assert steps == 1 or not torch.allclose(watched, seen[-1], atol=1e-6)


def test_a_short_epoch_is_not_the_best_once_there_is_a_long_one(tmp_path: Path) -> None:
    good, validation = separable(800, 0), separable(60, 1)
    worse = Labelled(good.sequences, 1 - good.labels)
    chosen = {}
    for short in (0, 1, 2):
        recipe = replace(RECIPE, epochs=2, short_epochs=short, token_drop=0.0, warmup=0.0)
        chosen[short] = fit(
            random_backend("bert", scale=1.0),
            lambda epoch: worse if epoch else good,
            validation,
            recipe,
            tmp_path / str(short),
            silent,
        ).best_epoch
    assert chosen == {0: 0, 1: 1, 2: 0}


def test_training_leaves_the_global_generators_alone(tmp_path: Path) -> None:
    import torch

    before = torch.random.get_rng_state()
    fit(
        random_backend("bert"),
        lambda epoch: separable(20, 0),
        separable(10, 1),
        replace(RECIPE, epochs=1),
        tmp_path / "state",
        silent,
    )
    assert torch.equal(before, torch.random.get_rng_state())


def test_rate_warms_up_and_falls_to_zero() -> None:
    recipe = Recipe(learning_rate=1.0, warmup=0.2)
    assert [rate(step, 10, recipe) for step in range(10)] == pytest.approx([0.5, 1, *(i / 8 for i in range(8, 0, -1))])


def test_an_epoch_holds_every_text_once_in_batches_of_like_length() -> None:
    rng = np.random.default_rng(0)
    texts = [np.full(length, i) for i, length in enumerate(rng.integers(1, 100, 333))]
    data = Labelled(texts, np.arange(333))
    recipe = Recipe(batch_size=8, max_tokens=1000)
    seen, waste = [], 0
    for sequences, labels in batches(data, recipe, 0, rng):
        assert [sequence[0] for sequence in sequences] == list(labels)
        seen += list(labels)
        waste += sum(max(map(len, sequences)) - len(sequence) for sequence in sequences)
    assert sorted(seen) == list(range(333))
    assert waste < 0.1 * sum(map(len, texts))


def test_training_views() -> None:
    text = np.arange(100)
    rng = np.random.default_rng(0)
    assert list(perturbed(text, Recipe(max_tokens=10), 0, rng)) == list(range(10))
    assert len(perturbed(text, Recipe(max_tokens=10, short_epochs=1), 0, rng)) == 5
    assert len(perturbed(text, Recipe(max_tokens=10, short_epochs=1), 1, rng)) == 10
    starts = {int(perturbed(text, Recipe(max_tokens=10, window=1.0), 0, rng)[0]) for _ in range(2000)}
    assert starts == set(range(91))
    dropped = np.mean([len(perturbed(text, Recipe(token_drop=0.3), 0, rng)) for _ in range(500)])
    assert dropped == pytest.approx(70, abs=1)
    lengths = {len(perturbed(text, Recipe(max_tokens=10, long_share=0.5, long_tokens=50), 0, rng)) for _ in range(50)}
    assert lengths == {10, 50}
    assert len(perturbed(text[:1], Recipe(token_drop=0.999), 0, rng)) == 1


def test_prefix_loss_is_the_loss_of_every_prefix_weighted_by_its_length() -> None:
    from scipy.special import logsumexp

    backend = random_backend("gpt2")
    texts, labels = [np.array([5, 9, 11]), np.array([7, 8])], np.array([1, 0])

    def losses(sequences: list[np.ndarray], label: int) -> np.ndarray:
        logits = np.concatenate([backend.logits([with_special_tokens(backend.tokens, s)]) for s in sequences]).astype(
            np.float64
        )
        return logsumexp(logits, axis=1) - logits[:, label]

    prefixes = [losses([t[: i + 1] for i in range(len(t))], y) for t, y in zip(texts, labels, strict=True)]
    last = np.mean([row[-1] for row in prefixes])
    every = sum((row * np.arange(1, len(row) + 1)).sum() for row in prefixes) / (1 + 2 + 3 + 1 + 2)
    laid = Ragged.of(texts)
    assert batch_loss(backend, laid, labels, 0.0).item() == pytest.approx(last, abs=1e-5)
    assert batch_loss(backend, laid, labels, 0.7).item() == pytest.approx(last + 0.7 * every, abs=1e-5)


def test_jittered_texts_keep_their_tokens_in_order_at_random_positions() -> None:
    rng = np.random.default_rng(0)
    recipe = Recipe(position_jitter=0.5, long_tokens=12)
    assert placed([np.arange(3)], Recipe(), rng).places is None
    first, spans, moved = set(), set(), 0
    for _ in range(1000):
        laid = placed([np.arange(3), np.arange(12), np.arange(20)], recipe, rng)
        assert [row.tolist() for row in laid] == [list(range(3)), list(range(12)), list(range(20))]
        assert laid.places is not None
        places = laid.places.of_ids
        assert places[3:15].tolist() == list(range(12))  # no room to move in
        assert places[15:].tolist() == list(range(20))
        assert 0 <= places[0] < places[1] < places[2] < laid.places.spans[0] <= 12
        first.add(int(places[0]))
        spans.add(int(laid.places.spans[0]))
        moved += laid.places.spans[0] > 3
    assert first >= set(range(6))
    assert spans == set(range(3, 13))
    assert moved / 1000 == pytest.approx(0.5 * 9 / 10, abs=0.05)


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_the_loss_of_jittered_texts_is_read_at_their_positions(architecture: str) -> None:
    """As the handle answers for tokens that keep their positions when others go, special tokens included."""
    from scipy.special import logsumexp

    backend = random_backend(architecture)
    laid = placed(
        [np.array([5, 9, 11]), np.array([7, 8])], Recipe(position_jitter=1.0, long_tokens=9), np.random.default_rng(4)
    )
    labels = np.array([1, 0])
    whole = laid.pick(slice(None), backend.tokens.prefix, backend.tokens.suffix)
    logits = backend.logits(whole).astype(np.float64)
    expected = (logsumexp(logits, axis=1) - logits[[0, 1], labels]).mean()
    plain = backend.logits(Ragged(whole.ids, whole.lengths)).astype(np.float64)
    assert abs((logsumexp(plain, axis=1) - plain[[0, 1], labels]).mean() - expected) > 1e-3
    assert batch_loss(backend, laid, labels, 0.0).item() == pytest.approx(expected, abs=1e-5)


def test_a_table_of_positions_learns_at_its_own_rate(tmp_path: Path) -> None:
    def moved(position_rate: float) -> float:
        backend = random_backend("bert")
        table = backend.position_table()
        assert table is not None
        before = table.detach().clone()
        recipe = replace(RECIPE, epochs=1, position_rate=position_rate, weight_decay=0.0)
        fit(backend, lambda epoch: separable(20, 0), separable(10, 1), recipe, tmp_path / str(position_rate), silent)
        return (table.detach() - before).abs().max().item()

    assert moved(0.0) == 0.0
    assert 0.0 < moved(0.1) < 0.2 * moved(1.0)


def test_equal_texts_fall_on_one_side_of_the_validation_split() -> None:
    texts = [f"review number {i} <br />of many" for i in range(400)]
    examples = [Example(str(i), text, 0) for i, text in enumerate(texts + [t.replace("<br />", "") for t in texts])]
    train, validation = split_validation(examples, 0.25)
    assert {int(e.id) % 400 for e in train}.isdisjoint({int(e.id) % 400 for e in validation})
    assert 0.18 < len(validation) / 800 < 0.32
    with pytest.raises(InvalidInput, match="too few"):
        split_validation(examples[:1], 0.25)


def test_a_text_without_a_label_is_named() -> None:
    with pytest.raises(InvalidInput, match="example lone has no label"):
        labelled(random_backend().tokens, [Example("lone", "w1 w2")], 10)


@pytest.mark.parametrize(
    "bad", [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"validation": 1.0}, {"averaged": 2.0}]
)
def test_impossible_recipes_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        Recipe(**bad)  # type: ignore[arg-type]


# ---- the cache ----


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLALOM_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture(scope="module")
def linear() -> TaskData:
    from slalom_bench.data.loading import load_task

    return load_task("synthetic-linear", {"train_size": 200, "evaluation_size": 50})


QUIET = ModelOptions(device="cpu", progress=False)


def test_trained_once_and_read_from_the_cache_ever_after(cache: Path, linear: TaskData) -> None:
    small = {"epochs": 1, "width": 16}
    first = Bert(**small).load(linear, QUIET)
    (directory,) = (path for path in cache.iterdir() if path.is_dir())
    stamp = (directory / "model.safetensors").stat().st_mtime_ns
    assert not any(path.suffix in (".bin", ".pt", ".pkl") for path in directory.iterdir())
    again = Bert(**small).load(linear, replace(QUIET, allow_training=False))
    assert again.identity() == first.identity()
    assert (directory / "model.safetensors").stat().st_mtime_ns == stamp
    (record,) = trainings("bert", "synthetic-linear")
    assert record["test"]["texts"] == 50
    assert record["identity"]["recipe"]["epochs"] == 1
    assert Bert(**small).trained_with(linear, QUIET) == "no tokens dropped"
    assert Bert(**small).availability("synthetic-linear", QUIET).state == "cached"
    assert Bert(epochs=2, width=16).availability("synthetic-linear", QUIET).state == "train"


def test_everything_that_shapes_the_weights_is_in_the_key(linear: TaskData) -> None:
    other = replace(linear, source=DataSource("generated", "x", "y"), train=linear.train[1:])
    variants = [
        (Bert(), linear),
        (Bert(epochs=3), linear),
        (Bert(seed=1), linear),
        (Bert(learning_rate=1e-4), linear),
        (Bert(layers=1), linear),
        (Bert(width=32), linear),
        (Bert(batch_size=7), linear),
        (Bert(), other),
    ]
    keys = {json.dumps(model.identity(task, QUIET), sort_keys=True) for model, task in variants}
    assert len(keys) == len(variants)


def test_a_recipe_that_averages_nothing_has_the_key_it_had_before_there_was_averaging() -> None:
    assert "averaged" not in Recipe().recorded()
    assert Recipe(averaged=0.4).recorded() == {**Recipe().recorded(), "averaged": 0.4}
    assert set(vars(Recipe())) - set(Recipe().recorded()) == {"averaged"}


def test_evaluation_texts_without_labels_give_no_test_accuracy(cache: Path, linear: TaskData) -> None:
    unlabelled = replace(linear, evaluation=[replace(example, label=None) for example in linear.evaluation])
    Bert(epochs=1, width=16).load(unlabelled, QUIET)
    (record,) = trainings("bert")
    assert record["test"]["accuracy"] is None
    assert record["validation"]["texts"] > 0


def test_training_that_is_not_allowed_says_how_to_get_it(cache: Path, linear: TaskData) -> None:
    with pytest.raises(InvalidInput, match="slalom-bench train --task synthetic-linear --model bert"):
        Bert().load(linear, replace(QUIET, allow_training=False))


def test_a_finished_epoch_survives_a_kill_between_the_two_renames(tmp_path: Path) -> None:
    data, validation = separable(40, 0), separable(20, 1)
    one = random_backend("bert")
    fit(one, lambda epoch: data, validation, replace(RECIPE, epochs=1), tmp_path / "state", silent)
    (tmp_path / "state").rename(tmp_path / "state.old")
    lines: list[str] = []
    fit(random_backend("bert"), lambda epoch: data, validation, RECIPE, tmp_path / "state", lines.append)
    assert lines[0] == "continuing after epoch 1 of 3"


# ---- the command ----


def test_the_command_says_the_cost_first_and_where_the_model_is(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from slalom_bench.commands.train import train_command

    def train() -> str:
        train_command(
            model="gpt2:width=16",
            task="synthetic-linear:train_size=200,evaluation_size=50",
            epochs=1,
            batch_size=50,
            device="cpu",
            out=tmp_path / "out",
        )
        said = capsys.readouterr()
        return said.err + said.out

    said = train()
    assert said.index("200 texts x 1 epochs") < said.index("validation accuracy")
    (directory,) = (path for path in cache.iterdir() if path.is_dir())
    assert directory.name in said
    assert "test accuracy" in said
    assert "use it as: --model gpt2:batch_size=50,epochs=1,width=16" in said
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (directory / "model.safetensors").read_bytes()
    assert "texts x" not in train(), "the second call trains nothing"


def test_models_that_are_not_trained_are_refused_by_the_command() -> None:
    from slalom_bench.commands.train import train_command

    with pytest.raises(InvalidInput, match="bag-of-words is not one that is trained"):
        train_command(model="bag-of-words", task="synthetic-linear")
