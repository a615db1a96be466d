"""Position shift, recomputed from transformers' own answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, Sample, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.position_shift import NAMES, PositionShift

TASK = TaskData("none", DataSource("generated", "test", "c" * 64), ("neg", "pos"), (Example("x", "w1"),))
SAMPLE = Sample("x", np.random.default_rng(3).integers(8, 60, 25))
NOTHING = Explanation({"x": np.zeros(25)}, "x", 1)


def answer(model: HFBackend, ids: np.ndarray, positions: np.ndarray) -> float:
    """The log-odds of class 1 from transformers, of whole ids at whole positions."""
    inputs = {"input_ids": torch.tensor(ids)[None], "position_ids": torch.tensor(positions)[None]}
    with torch.no_grad():
        if model.reads_last:
            logits = model.module.score(model.module.transformer(**inputs)[0])[0, -1]  # type: ignore
        else:
            logits = model.module(**inputs).logits[0]
    return float(logits[1] - logits[0])


def by_hand(model: HFBackend, masks: int, seed: int) -> dict[str, float]:
    """The definition in a few lines: the k smallest of uniform draws go, k = 2..10 in turn."""
    draws = Context(TASK, seed=seed).rng("position-shift", "x").random((9 * masks, 25))
    before, after = len(model.tokens.prefix), len(model.tokens.suffix)
    whole = np.array([*model.tokens.prefix, *SAMPLE.ids, *model.tokens.suffix])
    full = answer(model, whole, np.arange(len(whole)))
    moved, missed, both = [], [], []
    for row, draw in enumerate(draws):
        gone = before + np.argsort(draw)[: 2 + row // masks]
        stay = np.setdiff1d(np.arange(len(whole)), gone)
        delete, gap = answer(model, whole[stay], np.arange(len(stay))), answer(model, whole[stay], stay)
        moved.append((delete - gap) ** 2)
        missed.append((gap - full) ** 2)
        both.append((delete - full) ** 2)
    assert before + after in (0, 2)
    square = np.mean(both)
    shares = {"shift": np.mean(moved) / square, "missing": np.mean(missed) / square}
    return {**shares, "joint": 1 - sum(shares.values()), "change": square}


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_equals_the_definition_under_any_rule_of_the_run(architecture):
    model = random_backend(architecture)
    expected = by_hand(model, 3, seed=5)
    assert expected["shift"] > 0.01
    for rule in ("delete", "gap", "pad"):
        classifier = Classifier(model, removal=registry.removals.build(rule))
        found = PositionShift(masks=3).score(classifier, SAMPLE, NOTHING, Context(TASK, seed=5))
        assert found.values == pytest.approx(expected, rel=1e-3, abs=1e-6)
        # the full text is asked under both rules and computed once
        assert classifier.total.queries == 2 * (27 + 1)
        assert classifier.total.forwards <= 2 * 27 + 1


def test_nothing_shifts_where_all_positions_are_alike():
    model = random_backend("gpt2")
    with torch.no_grad():
        model.module.transformer.wpe.weight.zero_()  # type: ignore
    found = PositionShift(masks=2).score(Classifier(model), SAMPLE, NOTHING, Context(TASK)).values
    assert found["shift"] == pytest.approx(0, abs=1e-9)
    assert found["missing"] == pytest.approx(1, abs=1e-4)
    assert found["joint"] == pytest.approx(0, abs=1e-4)


def test_everything_is_shift_where_only_the_last_token_is_read():
    """GPT-2 without attention's output reads the last token alone: kept, it can do nothing but move."""
    model = random_backend("gpt2")
    with torch.no_grad():
        for layer in model.module.transformer.h:  # type: ignore
            layer.attn.c_proj.weight.zero_()
    draws = (Context(TASK, seed=seed).rng("position-shift", "x").random((8, 25)) for seed in range(99))
    seed = next(seed for seed, draw in enumerate(draws) if (draw.argmin(axis=1) < 24).all())
    metric = PositionShift(masks=8, smallest=1, largest=1)
    found = metric.score(Classifier(model), SAMPLE, NOTHING, Context(TASK, seed=seed)).values
    assert found["shift"] == pytest.approx(1, abs=1e-6)
    assert found["missing"] == pytest.approx(0, abs=1e-6)


def test_undefined_has_a_reason():
    words = Classifier(bag_of_words({f"w{i}": 0.1 for i in range(60)}))
    metric = PositionShift()
    assert metric.score(words, SAMPLE, NOTHING, Context(TASK)).undefined == dict.fromkeys(NAMES, undefined.NO_POSITIONS)
    assert words.total.queries == 0
    short = Sample("x", np.arange(10, 20))
    found = metric.score(Classifier(random_backend("bert")), short, NOTHING, Context(TASK))
    assert found.undefined == dict.fromkeys(NAMES, undefined.TOO_SHORT)
    deaf = random_backend("gpt2")
    with torch.no_grad():
        deaf.module.score.weight.zero_()  # type: ignore
    found = metric.score(Classifier(deaf), SAMPLE, NOTHING, Context(TASK))
    assert found.values == {"change": 0.0}
    assert set(found.undefined.values()) == {undefined.NO_CHANGE}
    for wrong in ({"masks": 0}, {"smallest": 0}, {"smallest": 5, "largest": 4}):
        with pytest.raises(InvalidInput, match="1 <= smallest <= largest"):
            PositionShift(**wrong).score(words, SAMPLE, NOTHING, Context(TASK))
