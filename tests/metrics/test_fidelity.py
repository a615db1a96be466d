"""Fidelity law by law: recomputed by hand, on models that are known, and without what the explainer asked itself."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.halves import half_names, is_half
from slalom_bench.core.references import Ref
from slalom_bench.core.seeds import generator
from slalom_bench.core.types import DataSource, Example, Explanation, Sample, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.strict_fidelity import FidelityTop, reference_effects
from slalom_bench.numerics.masks import small_deletions
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.loading import LoadedTask, Subject
from slalom_bench.running.plan import make_cell
from slalom_bench.running.records import pack_asked, unpack_asked
from slalom_bench.running.suite import make_suite
from slalom_bench.running.work import CellWork
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

LAWS = ("few", "many", "spans", "sentences", "top")
WORDS = [f"w{i}." if i % 5 == 4 else f"w{i}" for i in range(40)]
VALUE = {word: float(np.sin(3 * i)) for i, word in enumerate(WORDS)}
IMPORTANCE = {word: float(np.cos(5 * i)) for i, word in enumerate(WORDS)}


def context(seed: int = 0) -> Context:
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [Example("e", "a")])
    return Context(task, "bench", seed)


@pytest.fixture(scope="module")
def slalom() -> Classifier:
    return Classifier(slalom_transformer(VALUE, IMPORTANCE))


@pytest.fixture(scope="module")
def sample(slalom: Classifier) -> Sample:
    return slalom.encode(Example("s", " ".join(WORDS)))


def said(surrogate, **more) -> Explanation:
    return Explanation({"x": np.zeros(len(surrogate))}, "x", surrogate=surrogate, **more)


def metric(law: str, **params):
    return registry.metrics.get(f"fidelity-{law}").build(params)


TRUTH = SlalomSurrogate(list(VALUE.values()), list(IMPORTANCE.values()))
ZERO = LinearSurrogate(np.zeros(40), 2.5)


def by_hand(keep: np.ndarray) -> float:
    """SLALOM's output of what is kept, in plain Python."""
    kept = [word for word, stays in zip(WORDS, keep, strict=True) if stays]
    weights = [np.exp(IMPORTANCE[word]) for word in kept]
    return sum(w * VALUE[word] for w, word in zip(weights, kept, strict=True)) / sum(weights)


@pytest.mark.parametrize("law", LAWS)
def test_the_right_surrogate_is_zero_and_predicting_no_change_is_one(law, slalom, sample):
    right = metric(law).score(slalom, sample, said(TRUTH), context())
    assert right.values["normalised"] == pytest.approx(0, abs=1e-9)
    assert right.values["raw"] == pytest.approx(0, abs=1e-9)
    nothing = metric(law).score(slalom, sample, said(ZERO), context())
    assert nothing.values["normalised"] == 1.0
    assert nothing.values["raw"] > 1e-4
    assert nothing.undefined == right.undefined == {"excluded": undefined.NOT_RECORDED}


@pytest.mark.parametrize("law", LAWS)
def test_values_recomputed_from_the_definition(law, slalom, sample):
    weights = np.random.default_rng(1).normal(size=40) / 10
    score = metric(law, masks=30).score(slalom, sample, said(LinearSurrogate(weights, 7.0)), context(seed=5))
    full = by_hand(np.ones(40, bool))
    effects = np.array([abs(full - by_hand(np.arange(40) != i)) for i in range(40)])
    drawn = registry.laws.build(law).draw(sample, 30, context(5).rng(f"fidelity-{law}", "s"), effects)
    assert len(drawn) == {"sentences": 8, "top": 26}.get(law, 30), "8 sentences, 26 subsets of 5 tokens"
    observed = np.array([by_hand(keep) - full for keep in drawn])
    predicted = np.array([-sum(weights[i] for i in range(40) if not keep[i]) for keep in drawn])
    raw = sum((predicted - observed) ** 2) / len(drawn)
    assert score.values["raw"] == pytest.approx(raw, rel=1e-4)
    assert score.values["normalised"] == pytest.approx(raw / (sum(observed**2) / len(drawn)), rel=1e-4)


def test_halves_are_of_every_other_mask_and_none_where_all_masks_were_taken(slalom, sample):
    explanation = said(LinearSurrogate(np.full(40, 0.05), 0.0))
    score = metric("many", masks=30).score(slalom, sample, explanation, context())
    drawn = registry.laws.build("many").draw(sample, 30, context().rng("fidelity-many", "s"))
    full = by_hand(np.ones(40, bool))
    for half, name in enumerate(half_names("normalised")):
        observed = np.array([by_hand(keep) - full for keep in drawn[half::2]])
        predicted = -(~drawn[half::2]).sum(axis=1) * 0.05
        expected = np.sum((predicted - observed) ** 2) / np.sum(observed**2)
        assert score.values[name] == pytest.approx(expected, rel=1e-4)
    exhausted = metric("sentences").score(slalom, sample, explanation, context())
    assert not any(is_half(name) for name in exhausted.values)


def test_a_change_within_rounding_is_no_change():
    """A model of float32 that says 20 for every text moves by a unit in the last place: that is no change."""
    handle = Classifier(bag_of_words({"a": 1e-7}, bias=20.0))
    text = handle.encode(Example("s", " ".join("a" * 20)))
    score = metric("few").score(handle, text, said(LinearSurrogate(np.zeros(20), 20.0)), context())
    assert score.undefined["normalised"] == undefined.NO_CHANGE
    assert handle.rounding(20.0) == pytest.approx(20 * 16 * 2.0**-23)
    assert "raw" in score.values


def test_masks_that_the_explainer_asked_for_do_not_count(slalom, sample):
    """Half of what is drawn is asked for beforehand: only the other half is scored."""
    few = metric("few", masks=40)
    drawn = registry.laws.build("few").draw(sample, 40, context().rng("fidelity-few", "s"))
    with slalom.work(), slalom.recording() as asked:
        slalom.masked_log_odds(sample, drawn[::2])
    weights = np.full(40, 0.05)
    score = few.score(slalom, sample, said(LinearSurrogate(weights, 0.0), asked=asked()), context())
    assert score.values["excluded"] == pytest.approx(0.5)
    observed = np.array([by_hand(keep) for keep in drawn[1::2]]) - by_hand(np.ones(40, bool))
    predicted = -(~drawn[1::2]).sum(axis=1) * 0.05
    assert score.values["raw"] == pytest.approx(np.mean((predicted - observed) ** 2), rel=1e-4)
    assert score.values["normalised"] == pytest.approx(
        np.sum((predicted - observed) ** 2) / np.sum(observed**2), rel=1e-4
    )
    with slalom.work(), slalom.recording() as asked:
        slalom.masked_log_odds(sample, drawn[:21])
    most = few.score(slalom, sample, said(LinearSurrogate(weights, 0.0), asked=asked()), context())
    assert most.undefined == {"normalised": undefined.ASKED, "raw": undefined.ASKED}
    assert most.values == {"excluded": pytest.approx(21 / 40)}


def test_the_masks_that_are_left_are_scored_down_to_half_and_two_of_them(slalom, sample):
    sentences = metric("sentences")
    drawn = registry.laws.build("sentences").draw(sample, 100, context().rng("fidelity-sentences", "s"))
    assert len(drawn) > 3
    for first, scored in ((1, True), (len(drawn) // 2, True), (len(drawn) // 2 + 1, False)):
        with slalom.recording() as asked:
            slalom.masked_log_odds(sample, drawn[:first])
        score = sentences.score(slalom, sample, said(TRUTH, asked=asked()), context())
        assert score.values["excluded"] == pytest.approx(first / len(drawn))
        assert ("raw" in score.values) == scored
        assert score.undefined == ({} if scored else dict.fromkeys(("normalised", "raw"), undefined.ASKED))
    two = registry.laws.build("few").draw(sample, 2, context().rng("fidelity-few", "s"))
    with slalom.recording() as asked:
        slalom.masked_log_odds(sample, two[:1])
    score = metric("few", masks=2).score(slalom, sample, said(TRUTH, asked=asked()), context())
    assert score.undefined["raw"] == undefined.ASKED


def test_single_deletions_are_training_error_for_leave_one_out_and_are_excluded():
    """As found: k1 of strict fidelity is exactly 0 for whoever asked for it. Gone: what was asked does not count."""
    handle = Classifier(random_backend("bert", seed=2))
    text = Sample("s", np.random.default_rng(3).integers(5, 60, 30))
    out = explain_sample(registry.explainers.build("leave-one-out"), handle, text, budget=31, seed=0).unwrap()
    old = registry.metrics.build("strict-fidelity").score(handle, text, out, context())
    assert old.values["k1"] == pytest.approx(0, abs=1e-12)
    assert old.values["k2"] > 1e-9

    class Singles:
        """Only single deletions, but for one pair."""

        ranked = False

        def undefined(self, sample):
            return None

        def draw(self, sample, count, rng, effects=None):
            keep = ~np.eye(30, dtype=bool)
            return np.vstack([keep[:20], keep[rng.permutation(29)[:20]] & keep[29]])

    with registry.laws.scratch(), registry.metrics.scratch():
        registry.law("singles", version=1)(Singles)
        declared = {"version": 1, "needs": (), "direction": "lower", "unit": "", "headline": "normalised"}
        singles = registry.metric("fidelity-singles", **declared)(type("One", (FidelityTop,), {"law": "singles"}))()
        score = singles.score(handle, text, out, context())
        assert score.values["excluded"] == pytest.approx(0.5)
        assert score.values["normalised"] > 1e-6
        unrecorded = singles.score(handle, text, replace(out, asked=None), context())
        assert unrecorded.undefined == {"excluded": undefined.NOT_RECORDED}
        assert unrecorded.values["raw"] == pytest.approx(score.values["raw"] / 2)
    # and none of the registered laws tests single deletions
    for law in ("few", "many", "spans", "top"):
        assert metric(law).score(handle, text, out, context()).values["excluded"] == 0.0


def test_the_same_sequence_from_another_mask_is_known_too():
    """`a a b` without the first `a` and without the second are one query."""
    handle = Classifier(bag_of_words({"a": 1.0, "b": -2.0}))
    text = handle.encode(Example("s", "a a b"))
    with handle.recording() as asked:
        handle.masked_log_odds(text, np.array([[False, True, True]]))
        handle.masked_log_odds(text, np.array([[True, True, True], [True, False, True]]))
    assert len(asked()) == 2
    assert (np.diff(asked().astype(object)) > 0).all()


def test_records_are_nested_and_end_with_their_block(slalom, sample):
    keep = ~np.eye(40, dtype=bool)
    with slalom.recording() as outer:
        slalom.masked_log_odds(sample, keep[:2])
        with slalom.targeting(0).recording() as inner:
            slalom.masked_log_odds(sample, keep[1:4])
        slalom.masked_log_odds(sample, keep[4:5])
    slalom.masked_log_odds(sample, keep[5:])
    assert len(inner()) == 3
    assert len(outer()) == 5
    assert set(inner()) < set(outer())


def test_keys_survive_the_store():
    asked = np.array([2**64 - 1, 0, 7], np.uint64)
    assert unpack_asked(pack_asked(asked)).tolist() == [0, 7, 2**64 - 1]
    assert unpack_asked(pack_asked(np.empty(0, np.uint64))).tolist() == []
    assert pack_asked(None) is unpack_asked(None) is None


def test_a_run_stores_what_was_asked_and_scores_without_it(lab, tmp_path, slalom):
    example = Example("s", " ".join(WORDS[:13]), label=1)
    data = TaskData("synthetic-slalom", DataSource("generated", "t", "c" * 64), ("no", "yes"), [example], [example])
    subject = Subject(LoadedTask(Ref.parse("synthetic-slalom"), data), "slalom-transformer", Classifier(slalom.backend))
    lab.run(
        tmp_path,
        subject,
        explainers=("linear-deletion", "zero"),
        metrics=("fidelity-few",),
        budgets=(300,),
        samples=1,
    )
    found = {}
    for name in ("linear-deletion", "zero"):
        (cell,) = tmp_path.glob(f"cells/*_{name}_*")
        row = json.loads((cell / "explanations.jsonl").read_text())
        assert "asked" not in row["explanation"]
        found[name] = unpack_asked(row["asked"]), json.loads((cell / "scores" / "fidelity-few@3.jsonl").read_text())
    text = subject.classifier.encode(example)
    drawn = registry.laws.build("few").draw(text, 100, Context(data, "bench", 0).rng("fidelity-few", "s"))
    own, _ = small_deletions(13, 300, generator(0, "explain", "s"))
    assert len(found["linear-deletion"][0]) == len(np.unique(own, axis=0))
    # the words differ, so that a mask and a sequence are one to one
    shared = np.mean([any((row == other).all() for other in own) for row in drawn])
    assert 0 < shared < 0.5
    assert found["linear-deletion"][1]["values"]["excluded"] == pytest.approx(shared)
    assert found["zero"][1]["values"]["excluded"] == 0.0
    assert found["zero"][1]["values"]["normalised"] == 1.0


def test_explanations_from_a_file_have_nothing_recorded(lab, tmp_path):
    subject = lab.subject()
    suite = make_suite(name="t", tasks=("synthetic-slalom",), models=("slalom-transformer",), explainers=("zero",))
    file = tmp_path / "file.jsonl"
    file.write_text(json.dumps({"id": "s3", "scores": [1.0, 2.0, 3.0], "surrogate": {"kind": "linear"}}) + "\n")
    cell = make_cell(suite, subject.planned(9), "mine:file=0", 10, 0, {})
    work = CellWork(cell.model_copy(update={"explanations": str(file)}), subject)
    row, _ = work.explain(subject.task.data.evaluation[3])
    assert row["explanation"]["scores"]["score"] == [1.0, 2.0, 3.0]
    assert "asked" not in row


def test_the_reference_ranking_is_asked_once_for_all_explainers_of_a_text(slalom, sample):
    handle, shared = Classifier(slalom.backend), context()
    queries = []
    for surrogate in (TRUTH, ZERO, ZERO):
        with handle.work() as cost:
            metric("top").score(handle, sample, said(surrogate), shared)
        queries.append(cost.queries)
    assert queries == [27 + 41] * 3, "26 subsets of 5 tokens and the full text; the ranking is charged to each"
    computed = handle.total.forwards - handle.total.shared
    assert computed <= 27 + 41, "and asked for once"
    effects = reference_effects(handle, sample, shared)
    assert effects[3] == pytest.approx(abs(by_hand(np.ones(40, bool)) - by_hand(np.arange(40) != 3)), abs=1e-5)
    other = Classifier(slalom_transformer({**VALUE, "w3": 50.0}, IMPORTANCE))
    assert reference_effects(other, sample, shared)[3] > 10 * effects[3], "another model has its own"


@pytest.mark.parametrize("law", LAWS)
def test_nothing_to_test_is_undefined_with_a_reason(law, slalom):
    short = slalom.encode(Example("s", "w0 w1"))
    reason = undefined.ONE_SENTENCE if law == "sentences" else undefined.TOO_SHORT
    score = metric(law).score(slalom, short, said(LinearSurrogate([0.0, 0.0], 0.0)), context())
    assert score.undefined == dict.fromkeys(("normalised", "raw", "excluded"), reason)
    silent = Explanation({"norm": np.ones(2)}, "norm", unsigned=frozenset({"norm"}))
    assert set(metric(law).score(slalom, short, silent, context()).undefined.values()) == {undefined.NO_SURROGATE}
    flat = Classifier(bag_of_words(dict.fromkeys(WORDS, 0.0)))
    text = flat.encode(Example("s", " ".join(WORDS)))
    still = metric(law).score(flat, text, said(LinearSurrogate(np.ones(40), 0.0)), context())
    assert still.undefined == {"normalised": undefined.NO_CHANGE, "excluded": undefined.NOT_RECORDED}
    assert still.values["raw"] >= 1.0


def test_bad_parameters_are_refused(slalom, sample):
    with pytest.raises(InvalidInput, match=r"masks must be int >= 1.*, not 0"):
        metric("few", masks=0).score(slalom, sample, said(ZERO), context())
