"""Metrics along a ranking and over random removals, recomputed by hand and on a transformer by independent code."""

from itertools import permutations

import numpy as np
import pytest
import torch

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.aopc import Deletion, DeletionLogOdds, Insertion, InsertionLogOdds
from slalom_bench.metrics.decision_flip import DecisionFlip, SufficientShare
from slalom_bench.metrics.faithfulness_correlation import FaithfulnessCorrelation, FaithfulnessStrength
from slalom_bench.metrics.normalised_aopc import DeletionNormalised, InsertionNormalised
from slalom_bench.metrics.srg import SymmetricRelevanceGain
from slalom_bench.removals.mask import Mask

WEIGHTS = {"a": 2.0, "b": 1.0, "c": -1.0, "d": 0.0}
SCORES = [2.0, 1.0, -1.0, 0.0]
RANKING = (
    SymmetricRelevanceGain,
    DeletionLogOdds,
    InsertionLogOdds,
    DecisionFlip,
    SufficientShare,
    DeletionNormalised,
    InsertionNormalised,
)


def context(protocol="bench", seed=0):
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [Example("e", "a")])
    return Context(task, protocol, seed)


def scored(metric, *, bias=0.0, text="a b c d", scores=SCORES, weights=WEIGHTS, **more):
    classifier = Classifier(bag_of_words(weights, bias))
    sample = classifier.encode(Example("s", text))
    explanation = Explanation({"lin": scores} if not isinstance(scores, dict) else scores, "lin", **more)
    return metric.score(classifier, sample, explanation, context())


# ---- log-odds curves and srg ----


def test_curves_in_log_odds_by_hand():
    # F = 2. Without a: 0; without a, b: -1. Only a: 2; only a, b: 3. Without c: 3, without c, d: 3
    assert scored(DeletionLogOdds([0.25, 0.5])).values["lin"] == pytest.approx(2.5)
    assert scored(InsertionLogOdds([0.25, 0.5])).values["lin"] == pytest.approx(-0.5)
    assert scored(SymmetricRelevanceGain([0.25, 0.5])).values["lin"] == pytest.approx(3.5)
    # bias -5: class 0 is predicted, with log-odds 3; towards it the order is c d b a, unsigned scores keep a b d c
    both = {"lin": SCORES, "norm": SCORES}
    for metric, signed, unsigned in (
        (DeletionLogOdds([0.25, 0.5]), 1.0, -2.5),
        (InsertionLogOdds([0.25, 0.5]), -3.0, 0.5),
        (SymmetricRelevanceGain([0.25, 0.5]), 3.5, -3.5),
    ):
        score = scored(metric, bias=-5.0, scores=both, unsigned=frozenset({"norm"}))
        assert score.values == pytest.approx({"lin": signed, "norm": unsigned})


def test_srg_of_the_true_weights_is_the_maximum_and_of_the_negated_ones_its_negative():
    weights = dict(zip("abcdef", [1.5, -0.5, 0.25, 3.0, -2.0, 0.0], strict=True))
    true = list(weights.values())
    metric = SymmetricRelevanceGain([0.2, 0.4, 0.5])
    every = [
        scored(metric, text=" ".join(weights), weights=weights, scores=list(map(float, order))).values["lin"]
        for order in permutations(range(6))
    ]
    best = scored(metric, text=" ".join(weights), weights=weights, scores=true).values["lin"]
    worst = scored(metric, text=" ".join(weights), weights=weights, scores=[-x for x in true]).values["lin"]
    # counts 2, 3, 3: top 3 + 1.5 (+ .25), lowest -2 - .5 (+ 0)
    assert best == pytest.approx((7.0 + 7.25 + 7.25) / 3)
    assert best == pytest.approx(max(every))
    assert worst == pytest.approx(-best)
    # over all orders of the tokens, which is what a random explainer draws from, the mean is exactly 0
    assert np.mean(every) == pytest.approx(0.0, abs=1e-9)


def test_random_scores_have_srg_zero_in_expectation_on_a_transformer():
    classifier, rng = Classifier(random_backend("bert")), np.random.default_rng(0)
    sample = classifier.encode(Example("s", " ".join(f"w{i}" for i in range(12))))
    scores = {f"r{i}": rng.normal(size=12) for i in range(400)}
    values = list(
        SymmetricRelevanceGain().score(classifier, sample, Explanation(scores, "r0"), context()).values.values()
    )
    assert np.std(values) > 0.01
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(len(values))


def test_curves_on_two_scales_cost_one_set_of_queries():
    classifier = Classifier(random_backend("bert"))
    sample = classifier.encode(Example("s", "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11"))
    explanation = Explanation({"lin": np.arange(11.0), "value": np.arange(11.0) % 4}, "lin")

    def forwards(metric):
        with classifier.work() as cost:
            metric.score(classifier, sample, explanation, context())
        return cost.forwards - cost.shared

    assert forwards(Deletion()) > 1
    assert forwards(Insertion()) > 0
    assert forwards(DeletionLogOdds()) == 0
    assert forwards(InsertionLogOdds()) == 0
    # the other end of each ranking: counts 1, 1, 2, 3, 6 of 11 tokens, four distinct ones, two scores
    assert 0 < forwards(SymmetricRelevanceGain()) <= 8


def test_what_probability_cannot_tell_apart_log_odds_can():
    """Insertion of the best and of a clearly worse signed ranking, on a model as sure as the shipped ones are."""
    weights = {"a": 14.0, "b": 12.0, "c": 1.0, "d": -1.0, "e": -2.0, "f": 0.0}
    best, worse = list(weights.values()), [12.0, 14.0, -1.0, 1.0, 0.0, -2.0]
    found = {
        cls: [scored(cls(), text="a b c d e f", weights=weights, scores=x).values["lin"] for x in (best, worse)]
        for cls in (Insertion, InsertionLogOdds, SymmetricRelevanceGain)
    }
    assert abs(np.diff(found[Insertion])[0]) < 1.5e-4
    # counts 1, 1, 1, 2, 3: a instead of b is 2 better at three points of five, c instead of d 2 at one
    assert np.diff(found[InsertionLogOdds])[0] == pytest.approx((3 * 2 + 2) / 5)
    assert np.diff(found[SymmetricRelevanceGain])[0] < -1


# ---- decision flip and sufficient share ----


def test_decision_flip_counted_by_hand():
    # F = 2.5 with a b d c; a deleted .5, a and b -.5: two of four tokens
    score = scored(DecisionFlip(), bias=0.5)
    assert score.values == {"lin": 0.5, "never": 0.0}
    # in the order c d b a: 3.5, 3.5, 2.5 and a alone is never deleted
    assert scored(DecisionFlip(), bias=0.5, scores=[-x for x in SCORES]).values == {"lin": 1.0, "never": 1.0}
    # each score has its own share; never is the primary's
    both = scored(DecisionFlip(), bias=0.5, scores={"lin": SCORES, "other": [-x for x in SCORES]})
    assert both.values == {"lin": 0.5, "other": 1.0, "never": 0.0}
    # bias -5: class 0, F = -3; order c d b a makes it -2, -2, -3: never
    assert scored(DecisionFlip(), bias=-5.0).values == {"lin": 1.0, "never": 1.0}


def test_a_class_that_flips_and_returns_counts_from_its_first_flip():
    # F = .5; without a -2.5, without a and b 1.5, without a, b and c .5: bisection would look at two and miss it
    weights = {"a": 3.0, "b": -4.0, "c": 1.0, "d": 0.5}
    score = scored(DecisionFlip(), weights=weights, scores=[4.0, 3.0, 2.0, 1.0])
    assert score.values == {"lin": 0.25, "never": 0.0}


def test_sufficient_share_keeps_the_class_from_there_on():
    # F = .5; a alone 3, a b -1, a b c 0 (no more than the other class), all .5: only the whole text keeps it
    weights = {"a": 3.0, "b": -4.0, "c": 1.0, "d": 0.5}
    assert scored(SufficientShare(), weights=weights, scores=[4.0, 3.0, 2.0, 1.0]).values == {"lin": 1.0}
    # d c a b: .5, 1.5, 4.5 from the first on
    assert scored(SufficientShare(), weights=weights, scores=[2.0, 1.0, 3.0, 4.0]).values == {"lin": 0.25}
    # b d c a: -4, -3.5, -2.5; c b a d: 1, -3, 0; and a c b d: 3, 4, 0
    assert scored(SufficientShare(), weights=weights, scores=[1.0, 4.0, 2.0, 3.0]).values == {"lin": 1.0}
    # c d b a with bias 3: 4, 4.5, .5: the prior alone would give the class
    assert scored(SufficientShare(), weights=weights, bias=3.0, scores=[1.0, 2.0, 4.0, 3.0]).values == {"lin": 0.25}


# ---- correlation over random removals ----


def test_true_weights_correlate_perfectly_and_the_sign_counts():
    text = " ".join(["a", "b", "c", "d"] * 5)
    assert scored(FaithfulnessCorrelation(), text=text, scores=SCORES * 5).values["lin"] == pytest.approx(1.0)
    turned = scored(FaithfulnessCorrelation(), text=text, scores=[-x for x in SCORES * 5])
    assert turned.values["lin"] == pytest.approx(-1.0)
    # explaining class 0 the same scores mean the opposite
    other = scored(FaithfulnessCorrelation(), text=text, scores=[-x for x in SCORES * 5], target=0)
    assert other.values["lin"] == pytest.approx(1.0)


def test_sizes_are_held_against_the_size_of_the_change_for_every_method_alike():
    # one of five tokens goes each time: the drop is its weight
    weights = {"a": 3.0, "b": -2.0, "c": 1.0, "d": -0.5, "e": 0.0}
    sizes, signed, no_sign = [3.0, 2.0, 1.0, 0.5, 0.0], list(weights.values()), {"unsigned": frozenset({"lin"})}
    for scores, more in ((sizes, no_sign), (sizes, {}), (signed, {})):
        score = scored(FaithfulnessStrength(), text="a b c d e", weights=weights, scores=scores, **more)
        assert score.values["lin"] == pytest.approx(1.0)
    assert scored(FaithfulnessCorrelation(), text="a b c d e", weights=weights, scores=sizes).values["lin"] < 0.9
    none = scored(FaithfulnessCorrelation(), text="a b c d e", weights=weights, scores=sizes, **no_sign)
    assert none.undefined == {"lin": undefined.UNSIGNED_SCORES}
    # all scores of one size say nothing of sizes
    flat = scored(FaithfulnessStrength(), text="a b c d e", weights=weights, scores=[1.0, -1.0, 1.0, -1.0, 1.0])
    assert flat.undefined == {"lin": undefined.CONSTANT_SCORES}


def test_masks_are_of_the_stated_share_and_the_same_for_every_explainer_of_a_seed():
    classifier = Classifier(bag_of_words(WEIGHTS))
    sample = classifier.encode(Example("s", " ".join(["a", "b", "c", "d"] * 5)))
    asked = []
    original = classifier.removal.apply
    classifier.removal.apply = lambda ids, keep, tokens: asked.append(keep) or original(ids, keep, tokens)
    for shared in (context(), context(), context(seed=1)):
        for scores in (SCORES * 5, np.arange(20.0)):
            FaithfulnessCorrelation().score(classifier, sample, Explanation({"x": scores}, "x"), shared)
    assert {int(row.sum()) for row in asked[0][1:]} == {16}
    assert asked[0].shape == (101, 20)
    assert all((asked[0] == other).all() for other in asked[1:4])
    assert (asked[0] != asked[4]).any()
    assert (asked[4] == asked[5]).all()


@pytest.mark.parametrize("wrong", [{"masks": 1}, {"share": 0.0}, {"share": 1.0}])
def test_impossible_removals_are_refused(wrong):
    with pytest.raises(InvalidInput, match="faithfulness: masks="):
        scored(FaithfulnessCorrelation(**wrong))


# ---- normalised curves ----


def test_normalised_by_hand():
    # F = 2; losses along the best order a b d: 2, 3, 3; along the worst c d b: -1, -1, 0
    upper, lower = 8 / 3, -2 / 3
    assert scored(DeletionNormalised()).values["lin"] == pytest.approx(1.0)
    assert scored(DeletionNormalised(), scores=[-x for x in SCORES]).values["lin"] == pytest.approx(0.0)
    # b a c d: 1, 3, 2
    middle = scored(DeletionNormalised(), scores=[3.0, 4.0, 2.0, 1.0]).values["lin"]
    assert middle == pytest.approx((6 / 3 - lower) / (upper - lower))
    # insertion, F - what is kept: a b d 0, -1, -1; c d b 3, 3, 2; b a c 1, -1, 0
    assert scored(InsertionNormalised()).values["lin"] == pytest.approx(0.0)
    assert scored(InsertionNormalised(), scores=[-x for x in SCORES]).values["lin"] == pytest.approx(1.0)
    middle = scored(InsertionNormalised(), scores=[3.0, 4.0, 2.0, 1.0]).values["lin"]
    assert middle == pytest.approx((0 / 3 + 2 / 3) / (8 / 3 + 2 / 3))


@pytest.mark.parametrize("deletes", [True, False])
def test_bounds_of_a_wide_beam_are_those_of_all_orders(deletes):
    classifier = Classifier(random_backend("bert", seed=3))
    sample = classifier.encode(Example("s", "w1 w5 w9 w2 w7 w3"))
    metric = DeletionNormalised(width=20) if deletes else InsertionNormalised(width=20)
    towards = int(classifier.logits([sample.ids])[0].argmax())
    ids, areas = sample.ids.tolist(), []
    full = classifier.log_odds([ids], towards)[0]
    for order in permutations(range(6), 5):
        kept = [[t for i, t in enumerate(ids) if (i in order[:k]) != deletes] for k in range(1, 6)]
        areas.append(np.mean(full - classifier.log_odds(kept, towards)))
    assert metric.bounds(classifier, sample, towards) == pytest.approx((min(areas), max(areas)), abs=1e-5)
    # every order of the tokens then lies inside them
    scores = {str(i): np.random.default_rng(i).normal(size=6) for i in range(50)}
    values = metric.score(classifier, sample, Explanation(scores, "0"), context()).values
    assert (values.pop("beyond"), values.pop("outside")) == (0.0, 0.0)
    assert 0.0 <= min(values.values()) < max(values.values()) <= 1.0


def test_a_ranking_that_beats_the_search_joins_the_bounds_and_is_counted(monkeypatch):
    classifier = Classifier(random_backend("bert", seed=3))
    sample = classifier.encode(Example("s", "w1 w5 w9 w2 w7 w3"))
    metric = DeletionNormalised(steps=3)
    good = Explanation({"x": np.arange(6.0), "y": -np.arange(6.0)}, "x")
    inside = metric.score(classifier, sample, good, context()).values
    assert inside["outside"] == inside["beyond"] == 0.0
    lower, upper = metric.bounds(classifier, sample, int(classifier.logits([sample.ids])[0].argmax()))
    # as if the search had found less: the range ends in the middle between its lower end and x
    found = lower, lower + inside["x"] * (upper - lower) / 2
    monkeypatch.setattr(DeletionNormalised, "bounds", lambda *_: found)
    values = metric.score(classifier, sample, good, context()).values
    assert (values["x"], values["outside"]) == (1.0, 1.0)
    assert values["beyond"] == pytest.approx(1.0)


def test_bounds_are_searched_once_for_each_model_text_and_removal_rule():
    classifier = Classifier(random_backend("bert"))
    sample = classifier.encode(Example("s", " ".join(f"w{i}" for i in range(40))))
    shared, costs = context(), []
    for seed in range(3):
        scores = np.random.default_rng(seed).normal(size=40)
        with classifier.work() as cost:
            DeletionNormalised().score(classifier, sample, Explanation({"x": scores}, "x"), shared)
        costs.append(cost.queries)
    # the full text and 10 deletions; the search asks for the full text, single and random sets, and both ways for two
    # beams (of at most 32 and 16 positions) and what comes beside; it is charged to each
    assert costs[0] == costs[1] == costs[2]
    assert costs[0] <= 12 + 40 + 256 + 2 * (10 * 2 * 32 + 3 * (40 + 10 * 8 * 16))
    assert len(shared.memo) == 1
    other = Classifier(classifier.backend, removal=Mask())
    DeletionNormalised().score(other, sample, Explanation({"x": scores}, "x"), shared)
    InsertionNormalised().score(classifier, sample, Explanation({"x": scores}, "x"), shared)
    DeletionNormalised(width=2).score(classifier, sample, Explanation({"x": scores}, "x"), shared)
    assert len({bounds for bounds, _ in shared.memo.values()}) == 4


def test_bounds_have_the_same_bits_whoever_comes_first():
    explanations = [Explanation({"x": np.random.default_rng(i).normal(size=20)}, "x") for i in range(3)]
    found = []
    for order in ([0, 1, 2], [2, 1, 0]):
        classifier, shared = Classifier(random_backend("bert")), context()
        sample = classifier.encode(Example("s", " ".join(f"w{i}" for i in range(20))))
        values = {}
        for i in order:
            with classifier.work():
                values[i] = DeletionNormalised().score(classifier, sample, explanations[i], shared).values["x"]
        found.append((values, [bounds for bounds, _ in shared.memo.values()]))
    assert found[0] == found[1]


# ---- all of them ----


def test_undefined_cases():
    for metric in (cls() for cls in (*RANKING, FaithfulnessCorrelation, FaithfulnessStrength)):
        assert scored(metric, text="a", scores=[1.0]).undefined == {"lin": undefined.TOO_SHORT}
        both = scored(metric, scores={"lin": SCORES, "flat": [1.0] * 4})
        assert both.undefined == {"flat": undefined.CONSTANT_SCORES}
        assert "lin" in both.values
    nothing = dict.fromkeys(WEIGHTS, 0.0)
    for metric in (DeletionNormalised(), InsertionNormalised()):
        assert scored(metric, weights=nothing).undefined == {"lin": undefined.NO_RANGE}
    score = scored(FaithfulnessCorrelation(), weights=nothing)
    assert score.undefined == {"lin": undefined.CONSTANT_REFERENCE}
    flat = scored(DecisionFlip(), scores={"lin": [1.0] * 4, "other": SCORES})
    assert flat.undefined == dict.fromkeys(["lin", "never"], undefined.CONSTANT_SCORES)


def test_of_three_classes_only_the_predicted_one_is_ranked():
    classifier = Classifier(random_backend("bert", classes=3))
    sample = classifier.encode(Example("s", "w1 w2 w3 w4"))
    predicted = int(classifier.logits([sample.ids])[0].argmax())
    for target in range(3):
        for cls in RANKING:
            score = cls().score(classifier, sample, Explanation({"lin": SCORES}, "lin", target=target), context())
            assert ("lin" in score.values) == (target == predicted)
            assert score.undefined == ({} if target == predicted else {"lin": undefined.OTHER_CLASS})


def test_both_protocols_give_the_same():
    classifier = Classifier(bag_of_words(WEIGHTS))
    sample = classifier.encode(Example("s", "a b c d d d"))
    explanation = Explanation({"lin": [*SCORES, 0.5, 0.25]}, "lin")
    for cls in (*RANKING, FaithfulnessCorrelation, FaithfulnessStrength):
        one, two = (cls().score(classifier, sample, explanation, context(p)) for p in ("bench", "paper"))
        assert one == two


def plain_log_odds(backend, ids, towards):
    """The log-odds of one text, straight from the module."""
    whole = torch.tensor([[*backend.tokens.prefix, *ids, *backend.tokens.suffix]])
    with torch.no_grad():
        logits = backend.module(input_ids=whole).logits[0].double()
    return float(logits[towards] - logits[1 - towards])


def plain_values(backend, ids, scores, unsigned):
    """Every metric of one score in a few lines of plain Python; the explained class is 1."""
    towards = int(plain_log_odds(backend, ids, 1) > 0)
    F = lambda kept: plain_log_odds(backend, kept, towards)  # noqa: E731
    signed = [s if unsigned or towards == 1 else -s for s in scores]
    n, order = len(ids), sorted(range(len(ids)), key=lambda i: (-signed[i], i))
    without = lambda some: F([ids[i] for i in range(n) if i not in some])  # noqa: E731
    only = lambda some: F([ids[i] for i in range(n) if i in some])  # noqa: E731
    ks = [int(np.ceil(n * q - 1e-9)) for q in (0.01, 0.05, 0.1, 0.2, 0.5)]
    cut = [k for k in range(1, n) if without(order[:k]) <= 0]
    stays = min(k for k in range(1, n + 1) if all(only(order[:j]) > 0 for j in range(k, n + 1)))
    return {
        "srg": np.mean([without(order[n - k :]) - without(order[:k]) for k in ks]),
        "deletion-log-odds": np.mean([F(ids) - without(order[:k]) for k in ks]),
        "insertion-log-odds": np.mean([F(ids) - only(order[:k]) for k in ks]),
        "decision-flip": min(cut, default=n) / n,
        "sufficient-share": stays / n,
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_transformer_recomputed_by_plain_code(seed):
    backend, rng = random_backend("bert", seed=seed), np.random.default_rng(seed)
    classifier = Classifier(backend)
    sample = classifier.encode(Example("s", " ".join(f"w{i}" for i in rng.integers(0, 60, 21))))
    scores = {"lin": rng.normal(size=21), "norm": rng.normal(size=21) ** 2, "ties": rng.integers(0, 4, 21) * 1.0}
    explanation = Explanation(scores, "lin", unsigned=frozenset({"norm"}))
    for name, values in scores.items():
        for metric, expected in plain_values(backend, sample.ids.tolist(), values.tolist(), name == "norm").items():
            found = registry.metrics.build(metric).score(classifier, sample, explanation, context()).values[name]
            assert found == pytest.approx(expected, abs=1e-4), (metric, name)


@pytest.mark.parametrize("seed", range(2))
def test_correlation_recomputed_by_plain_code(seed):
    backend, rng = random_backend("bert", seed=seed), np.random.default_rng(seed)
    classifier, shared = Classifier(backend), context()
    sample = classifier.encode(Example("s", " ".join(f"w{i}" for i in rng.integers(0, 60, 15))))
    scores = {"lin": rng.normal(size=15), "norm": rng.normal(size=15) ** 2}
    explanation = Explanation(scores, "lin", unsigned=frozenset({"norm"}))
    signed = FaithfulnessCorrelation(masks=40).score(classifier, sample, explanation, shared).values
    found = FaithfulnessStrength(masks=40).score(classifier, sample, explanation, shared).values
    (bits,) = shared.memo.values()
    full, ids = plain_log_odds(backend, sample.ids.tolist(), 1), sample.ids.tolist()
    sums, drops = {"lin": [], "norm": []}, []
    rows = np.unpackbits(bits, axis=1)[:, :15].tolist()
    for row in rows:
        gone = [i for i in range(15) if not row[i]]
        assert len(gone) == 3
        drops.append(full - plain_log_odds(backend, [ids[i] for i in range(15) if row[i]], 1))
        for name in sums:
            sums[name].append(sum(scores[name][i] for i in gone))
    sizes = [np.abs(scores["lin"])[[i for i in range(15) if not row[i]]].sum() for row in rows]
    assert signed["lin"] == pytest.approx(np.corrcoef(sums["lin"], drops)[0, 1], abs=1e-4)
    assert found["lin"] == pytest.approx(np.corrcoef(sizes, np.abs(drops))[0, 1], abs=1e-4)
    assert found["norm"] == pytest.approx(np.corrcoef(sums["norm"], np.abs(drops))[0, 1], abs=1e-4)


@pytest.mark.parametrize("cls", [*RANKING, FaithfulnessStrength])
def test_a_positive_rescaling_changes_nothing(cls):
    classifier, rng = Classifier(random_backend("distilbert")), np.random.default_rng(0)
    sample = classifier.encode(Example("s", " ".join(f"w{i}" for i in range(20))))
    scores, unsigned, shared = rng.normal(size=20), frozenset({"norm"}), context()
    both = [
        cls().score(
            classifier, sample, Explanation({"x": k * scores, "norm": k * scores**2}, "x", unsigned=unsigned), shared
        )
        for k in (1.0, 7.3, 1e-6)
    ]
    assert both[0].values.keys() >= {"x", "norm"}
    assert both[1].values == pytest.approx(both[0].values)
    assert both[2].values == pytest.approx(both[0].values)


def test_columns_stand_in_a_sensible_order():
    order = {entry.name: entry.order for entry in registry.metrics.entries()}
    expected = [
        *("srg", "deletion-log-odds", "insertion-log-odds", "deletion", "insertion", "deletion-normalised"),
        *("insertion-normalised", "decision-flip", "sufficient-share", "faithfulness-correlation"),
        *("faithfulness-strength", "nb-spearman", "nb-strength", "human-attention-auroc", "human-attention-auprc"),
    ]
    assert sorted(expected, key=order.__getitem__) == expected
    assert len({order[name] for name in expected}) == len(expected)
