"""Every metric recomputed on mini-bert by plain transformers, numpy and scipy: no code of the metrics or of the handle.

Only what is drawn (masks, texts, random parameters) is taken from where it is drawn, so that both sides look at the
same.
"""

from __future__ import annotations

from itertools import groupby, permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from slalom_bench import registry
from slalom_bench.core.context import Context
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.models.loading import load_model
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.numerics.surrogate_fit import fresh_texts
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

TEXT = (
    "This film is a wonderful surprise. The plot is thin, the jokes are bad! Yet the actors are so good that I "
    "laughed and cried. I would see it again with great pleasure."
)
TRAIN = [Example(f"t{i}", text, label=i % 2) for i, text in enumerate(["bad plot bad jokes thin", "good great film"])]
LAWS = ("few", "many", "spans", "sentences", "top")
FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)
WORDS = TEXT.split()
CHANGED = {"wonderful": "dreadful", "surprise.": "bore.", "thin,": "rich,", "good": "poor", "great": "little"}
OTHER = " ".join(CHANGED.get(word, word) for word in WORDS)
MARKED = [word in (*CHANGED, "laughed", "and", "cried.") for word in WORDS]
SHARES = [len(word) % 4 / 3 for word in WORDS]
ELSEWHERE = {
    "theorem-4-1": "test_model_output.py: the formula is the gradient that autograd takes",
    "theorem-5-1": "test_model_output.py: LIME with 3,000 queries comes to the corrected form",
}


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


def score(name, world, *, text=None, said=None, parameters=None, **more):
    """The values of a metric; with `text`, of that example, in a task of its own (`more`: of the task or context)."""
    _, handle, sample, _, explanation, context = world
    if text is not None:
        sample = handle.encode(text)
        truth = more.pop("truth", {})
        task = TaskData("t", DataSource("generated", "t", "0"), ("neg", "pos"), [text], train=TRAIN, truth=truth)
        context = Context(task, **more)
    return registry.metrics.get(name).build(parameters or {}).score(handle, sample, said or explanation, context).values


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


@pytest.mark.parametrize("law", LAWS)
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


# ---- what is known beside the model: marks, annotators, edits, the truth ----


def words_of(sample):
    """The whitespace word, by number, that the end of each token stands in."""
    return [len(sample.text[:end].split()) - 1 for _, end in sample.offsets]


def runs(chosen):
    """Neighbouring numbers in one list."""
    return [[i for _, i in run] for _, run in groupby(enumerate(sorted(chosen)), lambda pair: pair[1] - pair[0])]


def test_agreement_with_marks_and_annotators(world):
    sample, sizes = world[2], np.abs(world[3])
    text = Example("e", TEXT, 1, tuple(MARKED), tuple(SHARES))
    word = words_of(sample)
    marked = [i for i, w in enumerate(word) if MARKED[w]]
    others = [i for i in range(len(sample)) if i not in marked]
    assert 5 < len(marked) < len(others)
    above = np.mean([sizes[i] > sizes[j] for i in marked for j in others])
    assert score("human-attention-auroc", world, text=text)["w"] == pytest.approx(above)
    order = np.argsort(-sizes).tolist()
    hits = [i for i, token in enumerate(order, start=1) if token in marked]
    precision = np.mean([found / place for found, place in enumerate(hits, start=1)])
    assert score("human-attention-auprc", world, text=text)["w"] == pytest.approx(precision.mean())
    chosen = order[: len(marked)]
    f1 = len(set(chosen) & set(marked)) / len(marked)
    assert score("human-token-f1", world, text=text)["w"] == pytest.approx(f1)
    spans, human = runs(chosen), runs(marked)
    found = sum(any(len(set(a) & set(b)) >= len(set(a) | set(b)) / 2 for b in human) for a in spans)
    assert found > 0
    assert score("human-iou-f1", world, text=text)["w"] == pytest.approx(2 * found / (len(spans) + len(human)))
    rho = stats.spearmanr(sizes, [SHARES[w] for w in word]).statistic
    assert score("human-soft-agreement", world, text=text)["w"] == pytest.approx(rho)


def test_edits_of_a_pair(world):
    handle, sample, weights = world[1], world[2], world[3]
    text, word = Example("e", TEXT, 1, counterpart=OTHER), words_of(world[2])
    places = [i for i, one in enumerate(WORDS) if one in CHANGED]
    marked = [i for i, w in enumerate(word) if w in places]
    others = [i for i in range(len(sample)) if i not in marked]
    above = np.mean([abs(weights[i]) > abs(weights[j]) for i in marked for j in others])
    found = score("edit-localisation", world, text=text)
    assert found["w"] == pytest.approx(above)
    hits = [i for i, token in enumerate(np.argsort(-np.abs(weights)), start=1) if token in marked]
    assert found["w auprc"] == pytest.approx(np.mean([k / place for k, place in enumerate(hits, start=1)]))

    def said(about):
        """Scores that hang on the token alone."""
        return Explanation({"w": np.sin(about.ids.astype(float))}, "w", target=1)

    def total(about, run):
        numbers = words_of(about)
        return sum(np.sin(float(i)) for i, w in zip(about.ids, numbers, strict=True) if w in run)

    there = handle.encode(Example("x", OTHER))
    changes, moved = [], []
    for run in runs(places):
        undone = " ".join(CHANGED[one] if i in run else one for i, one in enumerate(WORDS))
        ids = handle.encode(Example("x", undone)).ids
        changes.append(odds(world, range(len(sample))) - odds_of(world, ids))
        moved.append(total(sample, run) - total(there, run))
    assert len(changes) == 4
    found = score("edit-contrast", world, text=text, said=said(sample), explain=lambda _, about: said(about))
    assert found["w"] == pytest.approx(stats.spearmanr(moved, changes).statistic)


def odds_of(world, ids):
    backend = world[0]
    with torch.no_grad():
        out = backend.module(input_ids=torch.tensor([[*backend.tokens.prefix, *ids, *backend.tokens.suffix]]))
    return float(out.logits[0, 1] - out.logits[0, 0])


def slalom(value, importance, kept):
    """sum of e^s v over sum of e^s, over what is kept."""
    e = np.exp([importance[i] for i in kept])
    return float(e @ [value[i] for i in kept] / e.sum())


def test_recovery_of_a_known_truth(world):
    handle, sample, weights, _, context = *world[1:4], world[4], world[5]
    words = [word.strip() for word in handle.tokens.words(sample.ids)]
    value = {word: np.cos(i) for i, word in enumerate(words)}
    importance = {word: np.sin(3.0 * i) for i, word in enumerate(words)}
    n, text = len(sample), Example("e", TEXT)
    rng = context.rng("recovery", "e")
    keep = delete_counts(n, rng.integers(0, n, 100), rng)
    kept = [np.flatnonzero(row) for row in keep]
    last = {word: i for i, word in enumerate(words)}  # a repeated word has the mean of its positions
    positions = [[i for i in range(n) if words[i] == word] for word in last]

    truth = {"kind": "linear", "weight": value}
    found = score("recovery", world, text=text, truth=truth)
    errors = [weights[row].sum() - sum(value[words[i]] for i in row) for row in kept]
    assert found["logit"] == pytest.approx(np.mean(np.square(errors)))
    per_word = [weights[places].mean() - value[words[places[0]]] for places in positions]
    assert found["weight"] == pytest.approx(np.mean(np.square(per_word)))

    truth = {"kind": "slalom", "value": value, "importance": importance}
    said = Explanation({"w": weights}, "w", target=1, surrogate=SlalomSurrogate(weights, weights[::-1]))
    found = score("recovery", world, text=text, truth=truth, said=said)
    true = [slalom([value[w] for w in words], [importance[w] for w in words], row) for row in kept]
    errors = np.subtract([slalom(weights, weights[::-1], row) for row in kept], true)
    assert found["logit"] == pytest.approx(np.mean(errors**2))
    assert found["value"] == pytest.approx(np.mean(np.square(per_word)))
    gaps = np.array([weights[::-1][places].mean() - importance[words[places[0]]] for places in positions])
    assert found["importance"] == pytest.approx(gaps.var())


# ---- the model itself, and what a method makes of another ----


def test_what_the_model_says(world):
    sample, label = world[2], int(logits(world, range(len(world[2]))).argmax())
    for given in (0, 1):
        assert score("accuracy", world, text=Example("e", TEXT, given))["correct"] == float(given == label)
    assert score("log-odds", world)["model"] == pytest.approx(odds(world, range(len(sample))), abs=1e-5)


def test_surrogates_of_the_whole_model(world):
    """Least squares by numpy, SLALOM by scipy, on the fresh texts that the metric draws."""
    handle, context = world[1], world[5]
    text = Example("e", "bad jokes good film")
    texts = fresh_texts(handle, context.task, 400, context.rng("surrogate-fit"))
    vocabulary = sorted({int(i) for ids in texts for i in ids})
    counts = np.array([[list(ids).count(i) for i in vocabulary] for ids in texts], float)
    outputs = np.array([odds_of(world, ids) for ids in texts])
    ids = handle.encode(text).ids
    here, said = np.array([list(ids).count(i) for i in vocabulary], float), odds_of(world, ids)
    design = np.hstack([np.ones((len(texts), 1)), counts])
    linear = np.linalg.lstsq(design, outputs, rcond=None)[0]

    def predicted(v, s, table):
        e = np.exp(s - s.max())
        return (table @ (e * v)) / (table @ e)

    # a wide prior in units of the noise, which is the fit's own error for each degree of freedom
    d, x, mean = len(vocabulary), np.zeros(2 * len(vocabulary)), outputs.mean()
    wide = np.repeat([outputs.var() / (counts / counts.sum(axis=1, keepdims=True)).var(axis=0).sum(), 10.0], d)
    for _ in range(20):
        noise = np.sum((predicted(x[:d], x[d:], counts) - outputs) ** 2) / (len(texts) - 2 * d)
        centre, ridge = np.repeat([mean, 0.0], d), np.sqrt(noise / wide)
        x = optimize.least_squares(
            lambda x, centre=centre, ridge=ridge: np.append(
                predicted(x[:d], x[d:], counts) - outputs, ridge * (x - centre)
            ),
            x,
        ).x
    found = score("surrogate-fit", world, text=text, parameters={"count": 400})
    assert found["linear"] == pytest.approx((linear[0] + here @ linear[1:] - said) ** 2, rel=1e-3)
    assert found["slalom"] == pytest.approx((predicted(x[:d], x[d:], here) - said) ** 2, rel=0.02)

    truth = {word.strip(): np.cos(i) for i, word in enumerate(handle.tokens.words(np.array(vocabulary)))}
    words = [word.strip() for word in handle.tokens.words(ids)]
    both = {"kind": "slalom", "value": truth, "importance": {word: x / 2 for word, x in truth.items()}}
    found = score("global-recovery", world, text=text, truth=both, parameters={"count": 400})
    v, s = ([x[k + vocabulary.index(int(i))] for i in ids] for k in (0, d))
    error = slalom(v, s, range(len(ids))) - slalom(
        [truth[w] for w in words], [truth[w] / 2 for w in words], range(len(ids))
    )
    assert found["logit"] == pytest.approx(error**2, rel=0.05)
    assert found["value"] == pytest.approx(
        np.mean([(a - truth[w]) ** 2 for a, w in zip(v, words, strict=True)]), rel=0.05
    )
    gaps = np.array([a - truth[w] / 2 for a, w in zip(s, words, strict=True)])
    assert found["importance"] == pytest.approx(gaps.var(), rel=0.05)


def test_randomisation(world):
    """One deletion at a time by plain transformers, on the model and on each of its randomised copies."""
    backend, handle, sample, _, _, context = world
    n = len(sample)

    def effects(module):
        there = (type("Plain", (), {"module": module, "tokens": backend.tokens}), None, sample)
        return np.array([-odds(there, [j for j in range(n) if j != i]) for i in range(n)])

    def explain(classifier, _):
        return Explanation({"w": effects(classifier.backend.module)}, "w", target=1)

    copies = backend.cascade(int(context.rng("randomisation").integers(2**31)))
    rho = [stats.spearmanr(effects(backend.module), effects(copy.module)).statistic for copy in copies]
    found = score("randomisation", world, text=Example("e", TEXT), said=explain(handle, sample), explain=explain)
    assert [found[f"k{i}"] for i in range(1, len(rho) + 1)] == pytest.approx(np.abs(rho))
    assert found["similarity"] == pytest.approx(np.mean(np.abs(rho)))


@pytest.mark.parametrize("deletes", [True, False])
def test_normalised_curves_between_the_best_and_the_worst_of_all_orders(world, deletes):
    handle = world[1]
    text = Example("e", "a good film, but bad")
    sample = handle.encode(text)
    n = len(sample)
    assert n == 6
    here = (world[0], handle, sample, np.random.default_rng(4).normal(size=n))
    c, order = ordered(here)
    full = odds(here, range(n), c)
    known = {}

    def lost(chosen):
        kept = tuple(i for i in range(n) if (i in chosen) != deletes)
        if kept not in known:
            known[kept] = full - odds(here, kept, c)
        return known[kept]

    areas = {p: np.mean([lost(p[:k]) for k in range(1, n)]) for p in permutations(range(n))}
    expected = (areas[tuple(order)] - min(areas.values())) / (max(areas.values()) - min(areas.values()))
    assert 0.05 < expected < 0.95
    said = Explanation({"w": here[3]}, "w", target=1)
    name = "deletion-normalised" if deletes else "insertion-normalised"
    found = score(name, world, text=text, said=said, parameters={"width": 20})
    assert found["w"] == pytest.approx(expected, abs=1e-4)


def test_no_metric_is_left_out():
    ours = {entry.name for entry in registry.metrics.entries() if entry.origin.startswith("slalom_bench.metrics.")}
    here = Path(__file__).read_text(encoding="utf-8")
    laws = {f"fidelity-{law}" for law in LAWS}
    assert [name for name in sorted(ours - laws - ELSEWHERE.keys()) if f'"{name}"' not in here] == []
