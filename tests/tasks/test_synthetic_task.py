"""The generated tasks follow appendix E: lengths, word probabilities, calibrated labels, a truth that fits them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from slalom_bench.core.types import Example
from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput
from slalom_bench.tasks.synthetic import LINEAR, SCORED_WORDS, SyntheticLinear, SyntheticSlalom

COUNT = 20_000


def log_odds(text: str, truth: dict[str, dict[str, float]]) -> float:
    """Written apart from the task: the sum of weights, or the softmax-weighted mean of values."""
    words = text.split()
    if "weight" in truth:
        return sum(truth["weight"][word] for word in words)
    power = [np.exp(truth["importance"][word]) for word in words]
    return float(np.dot(power, [truth["value"][word] for word in words]) / np.sum(power))


def assert_calibrated(examples: tuple[Example, ...], truth: dict[str, dict[str, float]]) -> None:
    """In bins of the true probability, the share of positive labels is that probability within four errors."""
    p = 1 / (1 + np.exp([-log_odds(e.text, truth) for e in examples]))
    labels = np.array([e.label for e in examples], float)
    for low in np.arange(0, 1, 0.2):
        chosen = (p >= low) & (p < low + 0.2)
        error = np.sqrt((p[chosen] * (1 - p[chosen])).sum()) / chosen.sum()
        assert abs(labels[chosen].mean() - p[chosen].mean()) < 4 * error


def test_the_linear_law_is_the_papers() -> None:
    assert sum(probability for _, probability in LINEAR.values()) == pytest.approx(1)
    truth = load_task("synthetic-linear").truth
    assert truth == {
        "kind": "linear",
        "weight": {
            "the": 0,
            "we": 0,
            "movie": 0,
            "watch": 0,
            "good": 0.6,
            "best": 1.0,
            "perfect": 1.5,
            "ok": -0.6,
            "bad": -1.0,
            "worst": -1.5,
        },
    }


def test_linear_texts_have_the_papers_distribution() -> None:
    examples = SyntheticLinear().generate(COUNT, seed=3)
    lengths = np.array([len(e.text.split()) for e in examples])
    assert abs(lengths.mean() - 15) < 4 * np.sqrt(7.5 / COUNT)
    assert abs(lengths.var() - 7.5) < 0.4
    counts = Counter(word for e in examples for word in e.text.split())
    for word, one_in in {"the": 6, "watch": 6, "good": 15, "ok": 15, "best": 20, "worst": 20}.items():
        expected = 1 / one_in
        assert abs(counts[word] / lengths.sum() - expected) < 4 * np.sqrt(expected / lengths.sum())
    assert_calibrated(examples, load_task("synthetic-linear").truth)


def test_slalom_texts_have_the_papers_distribution() -> None:
    task = SyntheticSlalom()
    examples = task.generate(COUNT, seed=3)
    lengths = np.array([len(e.text.split()) for e in examples])
    assert (lengths.min(), lengths.max()) == (1, 30)
    assert abs(lengths.mean() - 15.5) < 4 * np.sqrt((30**2 - 1) / 12 / COUNT)
    counts = Counter(word for e in examples for word in e.text.split())
    assert len(counts) == 200
    expected = lengths.sum() / 200
    assert max(abs(count - expected) for count in counts.values()) < 5 * np.sqrt(expected)
    assert_calibrated(examples, load_task("synthetic-slalom", {"train_size": 0}).truth)


def test_slalom_values_and_importances_follow_appendix_e2() -> None:
    words = [word for group in SCORED_WORDS.values() for word in group.split()]
    assert len(words) == len(set(words)) == 200
    truth = load_task("synthetic-slalom", {"train_size": 0, "evaluation_size": 1}).truth
    v = np.array(list(truth["value"].values()))
    s = np.array(list(truth["importance"].values()))
    assert (truth["kind"], set(truth["value"])) == ("slalom", set(words))
    assert s.mean() == pytest.approx(0, abs=1e-12)
    assert -1.9 <= v.min() < -1.6
    assert 1.6 < v.max() <= 1.85
    residual = s - 5 * np.abs(v) ** 1.5
    assert abs(residual.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * 200)
    assert abs(np.corrcoef(residual, np.abs(v))[0, 1]) < 0.25


@pytest.mark.parametrize("size", [16, 64])
def test_a_smaller_vocabulary_keeps_values_and_recentres_importances(size: int) -> None:
    full = load_task("synthetic-slalom", {"train_size": 0}).truth
    part = load_task("synthetic-slalom", {"vocabulary": size, "train_size": 0}).truth
    assert list(part["value"]) == list(full["value"])[:size]
    assert all(part["value"][word] == full["value"][word] for word in part["value"])
    shifts = [full["importance"][word] - part["importance"][word] for word in part["value"]]
    assert np.ptp(shifts) < 1e-12
    assert sum(part["importance"].values()) == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("name", ["synthetic-linear", "synthetic-slalom"])
def test_seeds_give_the_same_texts_again_and_other_parts_other_texts(name: str) -> None:
    sizes = {"evaluation_size": 40, "train_size": 60}
    task, again, other = (load_task(name, {"seed": seed, **sizes}) for seed in (1, 1, 2))
    assert task == again
    assert task.source.content_hash != other.source.content_hash
    assert (len(task.evaluation), len(task.train), task.source.kind) == (40, 60, "generated")
    assert [e.text for e in task.evaluation] != [e.text for e in task.train[:40]]
    fresh = (SyntheticLinear if name == "synthetic-linear" else SyntheticSlalom)().generate(40, 1)
    assert not {e.text for e in fresh if len(e.text.split()) > 8} & {e.text for e in (*task.evaluation, *task.train)}
    assert len({e.id for e in (*task.evaluation, *task.train, *fresh)}) == 140


def test_a_longer_evaluation_keeps_its_size_and_bad_sizes_are_named() -> None:
    with pytest.raises(InvalidInput, match="vocabulary must be from 16 to 200, not 201"):
        load_task("synthetic-slalom", {"vocabulary": 201})
    with pytest.raises(InvalidInput, match="train_size must be int >= 0 and <= 1000000, not -1"):
        load_task("synthetic-linear", {"train_size": -1})
    with pytest.raises(InvalidInput, match="evaluation_size must be int >= 1 and <= 100000, not 0"):
        load_task("synthetic-linear", {"evaluation_size": 0})


def test_texts_of_ones_own_in_the_tasks_words():
    data = SyntheticLinear(texts="perfect*3|worst perfect").load(None)
    assert [example.text for example in data.evaluation] == [
        "perfect",
        "perfect perfect",
        "perfect perfect perfect",
        "worst perfect",
    ]
    usual = SyntheticLinear().load(None)
    assert data.train == usual.train
    assert data.source.content_hash != usual.source.content_hash


@pytest.mark.parametrize("texts", ["film", "perfect*31", "perfect||bad", "perfect*"])
def test_texts_of_other_words_are_refused(texts):
    with pytest.raises(InvalidInput, match="texts="):
        SyntheticLinear(texts=texts).load(None)
