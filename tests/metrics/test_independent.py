"""Bench metrics recomputed on mini-bert by plain transformers and numpy: no code of the metrics or of the handle.

Only the drawn masks are taken from the laws, so that both sides look at the same ones.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from slalom_bench import registry
from slalom_bench.core.context import Context
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.models.loading import load_model
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.surrogates.linear import LinearSurrogate

TEXT = (
    "This film is a wonderful surprise. The plot is thin, the jokes are bad! Yet the actors are so good that I "
    "laughed and cried. I would see it again with great pleasure."
)
TRAIN = [Example(f"t{i}", text, label=i % 2) for i, text in enumerate(["bad plot bad jokes thin", "good great film"])]
FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)


@pytest.fixture(scope="module")
def world():
    source = DataSource("generated", "t", "0")
    task = TaskData("t", source, ("neg", "pos"), [Example("e", TEXT)], train=TRAIN)
    backend = load_model("mini-bert", task, ModelOptions(device="cpu"))
    handle = Classifier(backend)
    sample = handle.encode(Example("e", TEXT))
    weights = np.random.default_rng(0).normal(size=len(sample)) / 5
    said = Explanation({"w": weights}, "w", target=1, surrogate=LinearSurrogate(weights, 0.0))
    return backend, handle, sample, weights, said, Context(task)


def score(name, world):
    _, handle, sample, _, said, context = world
    return registry.metrics.get(name).build({}).score(handle, sample, said, context).values


def logits(world, kept, positions=None):
    """The model's own forward pass on [CLS] kept [SEP], one sequence at a time."""
    backend, _, sample, *_ = world
    tokens = backend.tokens
    ids = [*tokens.prefix, *(sample.ids[i] for i in kept), *tokens.suffix]
    places = None if positions is None else torch.tensor([positions])
    with torch.no_grad():
        out = backend.module(input_ids=torch.tensor([ids]), position_ids=places)
    return out.logits[0].double().numpy()


def odds(world, kept, c=1, positions=None):
    found = logits(world, kept, positions)
    return found[c] - found[1 - c]


def ordered(world):
    """Predicted class, and positions from the highest score towards it down."""
    n, weights = len(world[2]), world[3]
    c = int(logits(world, range(n)).argmax())
    return c, sorted(range(n), key=lambda i: -weights[i] if c == 1 else weights[i])


def test_curves_along_the_ranking(world):
    n = len(world[2])
    c, order = ordered(world)
    counts = [min(max(1, int(np.ceil(q * n - 1e-9))), n) for q in FRACTIONS]

    def p(kept):
        x = np.exp(logits(world, kept))
        return x[c] / x.sum()

    whole = sorted(order)
    gone = [sorted(order[k:]) for k in counts]
    alone = [sorted(order[:k]) for k in counts]
    lowest = [sorted(order[: n - k]) for k in counts]
    f = odds(world, whole, c)
    expected = {
        "deletion": np.mean([p(whole) - p(x) for x in gone]),
        "insertion": np.mean([p(whole) - p(x) for x in alone]),
        "deletion-log-odds": np.mean([f - odds(world, x, c) for x in gone]),
        "insertion-log-odds": np.mean([f - odds(world, x, c) for x in alone]),
        "srg": np.mean([odds(world, x, c) - odds(world, y, c) for x, y in zip(lowest, gone, strict=True)]),
    }
    for name, value in expected.items():
        assert score(name, world)["w"] == pytest.approx(value, abs=2e-5), name


def test_shares_until_the_decision_flips_and_from_which_it_holds(world):
    n = len(world[2])
    assert n - 1 <= 64, "every count is tried"
    c, order = ordered(world)
    flips = [k for k in range(1, n) if logits(world, sorted(order[k:])).argmax() != c]
    assert score("decision-flip", world)["w"] == pytest.approx(min(flips, default=n) / n)
    wrong = [k for k in range(1, n) if logits(world, sorted(order[:k])).argmax() != c]
    assert score("sufficient-share", world)["w"] == pytest.approx((max(wrong, default=0) + 1) / n)


def test_faithfulness_correlation(world):
    _, _, sample, weights, _, context = world
    n = len(sample)
    keep = delete_counts(n, np.full(100, round(0.2 * n)), context.rng("faithfulness-correlation", "e"))
    drops = [odds(world, range(n)) - odds(world, np.flatnonzero(row)) for row in keep]
    sums = [weights[~row].sum() for row in keep]
    assert score("faithfulness-correlation", world)["w"] == pytest.approx(stats.pearsonr(sums, drops)[0], abs=1e-4)
    sizes = [abs(weights[~row]).sum() for row in keep]
    strength = stats.pearsonr(sizes, np.abs(drops))[0]
    assert score("faithfulness-strength", world)["w"] == pytest.approx(strength, abs=1e-4)


@pytest.mark.parametrize("law", ["few", "many", "spans", "sentences", "top"])
def test_fidelity(world, law):
    _, _, sample, weights, _, context = world
    n = len(sample)
    full = odds(world, range(n))
    effects = np.array([abs(full - odds(world, [j for j in range(n) if j != i])) for i in range(n)])
    keep = registry.laws.build(law).draw(sample, 100, context.rng(f"fidelity-{law}", "e"), effects)
    change = np.array([odds(world, np.flatnonzero(row)) - full for row in keep])
    error = np.array([-weights[~row].sum() for row in keep]) - change
    found = score(f"fidelity-{law}", world)
    assert found["raw"] == pytest.approx(np.mean(error**2), rel=1e-3)
    assert found["normalised"] == pytest.approx(np.mean(error**2) / np.mean(change**2), rel=1e-3)


def test_strict_fidelity(world):
    _, _, sample, weights, _, context = world
    n = len(sample)
    order = context.rng("strict-fidelity", "e").random((20, n)).argsort(axis=1)
    errors, still = [], []
    for k in range(1, 11):
        kept = [sorted(row[k:].tolist()) for row in order]
        places = [[0, *(i + 1 for i in x), n + 1] for x in kept]
        gaps = [odds(world, x, 1, p) - odds(world, range(n)) for x, p in zip(kept, places, strict=True)]
        still.append(np.mean([(-weights[row[:k]].sum() - d) ** 2 for row, d in zip(order, gaps, strict=True)]))
        changes = [odds(world, x) - odds(world, range(n)) for x in kept]
        errors.append(np.mean([(-weights[row[:k]].sum() - d) ** 2 for row, d in zip(order, changes, strict=True)]))
    found = score("strict-fidelity", world)
    assert [found[f"k{k}"] for k in range(1, 11)] == pytest.approx(errors, rel=1e-3)
    assert found["mean"] == pytest.approx(np.mean(errors), rel=1e-3)
    assert found["missing"] == pytest.approx(np.mean(still), rel=1e-3)
    assert found["moving"] == pytest.approx(np.mean(errors) - np.mean(still), abs=1e-4)
    assert abs(found["moving"]) > 0.01 * found["mean"]


def test_position_shift(world):
    sample, context = world[2], world[5]
    n = len(sample)
    keep = delete_counts(n, np.repeat(np.arange(2, 11), 20), context.rng("position-shift", "e"))
    full = odds(world, range(n))
    delete = np.array([odds(world, np.flatnonzero(row)) for row in keep])
    places = [[0, *(np.flatnonzero(row) + 1), n + 1] for row in keep]
    gap = np.array([odds(world, np.flatnonzero(row), 1, p) for row, p in zip(keep, places, strict=True)])
    square = np.mean((delete - full) ** 2)
    found = score("position-shift", world)
    assert found["shift"] == pytest.approx(np.mean((delete - gap) ** 2) / square, rel=1e-3)
    assert found["missing"] == pytest.approx(np.mean((gap - full) ** 2) / square, rel=1e-3)


def test_naive_bayes_correlations(world):
    _, handle, sample, weights, _, _ = world
    counts = [dict[int, int](), dict[int, int]()]
    for example in TRAIN:
        for i in handle.encode(example).ids.tolist():
            counts[example.label][i] = counts[example.label].get(i, 0) + 1
    vocabulary = set(counts[0]) | set(counts[1])
    total = [sum(counts[c].get(i, 0) + 40 for i in vocabulary) for c in (0, 1)]
    known = sorted(vocabulary & set(sample.ids.tolist()))
    assert len(known) > 3
    w = [np.log((counts[1].get(i, 0) + 40) / (counts[0].get(i, 0) + 40) / (total[1] / total[0])) for i in known]
    means = [weights[sample.ids == i].mean() for i in known]
    # logarithms of equal ratios must tie
    w = np.round(w, 12)
    assert score("nb-spearman", world)["w"] == pytest.approx(stats.spearmanr(means, w).statistic)
    assert score("nb-strength", world)["w"] == pytest.approx(stats.spearmanr(np.abs(means), np.abs(w)).statistic)
