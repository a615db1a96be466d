"""What the model says of a text, on models in closed form; the theorems on a random attention classifier."""

import numpy as np
import pytest
import torch

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.nets_classic import AttentionNet, AttentionNetBackend, EnglishWords
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Explanation, TaskData
from slalom_bench.explainers.lime import Lime
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.attention_theorems import GradientTheorem, LimeTheorem
from slalom_bench.metrics.model_output import Accuracy, LogOdds
from slalom_bench.metrics.recovery import GlobalRecovery
from slalom_bench.registry import removals

WEIGHT = {"a": 1.0, "b": -2.0, "c": 0.5}
LINEAR = {"kind": "linear", "weight": WEIGHT | {"c": 1.5}}
ANY = Explanation({"x": [0.0]}, "x", 1)


def scored(metric, classifier, text, truth=None, label=None, explanation=ANY, train=()):
    example = Example("s", text, label)
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [example], train, truth or {})
    return metric.score(classifier, classifier.encode(example), explanation, Context(task))


def test_log_odds_of_model_and_truth():
    model = Classifier(bag_of_words(WEIGHT, 0.25))
    assert scored(LogOdds(), model, "a b c", LINEAR).values == pytest.approx({"model": -0.25, "truth": 0.5})
    towards_no = Explanation({"x": [0.0]}, "x", 0)
    assert scored(LogOdds(), model, "a b c", LINEAR, explanation=towards_no).values == pytest.approx(
        {"model": 0.25, "truth": -0.5}
    )
    assert scored(LogOdds(), model, "a").undefined == {"truth": undefined.NO_TRUTH}
    assert scored(LogOdds(), model, "a", {"kind": "linear", "weight": {}}).undefined == {
        "truth": undefined.UNKNOWN_TOKEN
    }


def test_accuracy_is_one_where_the_label_is_predicted():
    model = Classifier(bag_of_words(WEIGHT))
    assert scored(Accuracy(), model, "a", label=1).values == {"correct": 1.0}
    assert scored(Accuracy(), model, "b", label=1).values == {"correct": 0.0}
    assert scored(Accuracy(), model, "b").undefined == {"correct": undefined.NO_LABEL}


def test_a_slalom_is_recovered_whole_and_a_wrong_truth_by_its_errors():
    value, importance = {"a": 1.5, "b": -1.0, "c": 0.3}, {"a": 1.0, "b": 0.0, "c": -1.0}
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list(value), rng.integers(1, 6))) for _ in range(200)]
    train = [Example(str(i), text, i % 2) for i, text in enumerate(texts)]
    model = Classifier(slalom_transformer(value, importance))
    truth = {"kind": "slalom", "value": value, "importance": importance}
    found = scored(GlobalRecovery(300), model, "a b c", truth, train=train).values
    assert found == pytest.approx({"logit": 0.0, "value": 0.0, "importance": 0.0}, abs=1e-5)
    moved = truth | {"value": {word: v + 0.5 for word, v in value.items()}}
    found = scored(GlobalRecovery(300), model, "a b c", moved, train=train).values
    assert found == pytest.approx({"logit": 0.25, "value": 0.25, "importance": 0.0}, abs=5e-3)


WORDS = [f"w{i}" for i in range(60)]


@pytest.fixture(scope="module")
def attention():
    torch.manual_seed(0)
    net = AttentionNet(len(WORDS) + 2).eval()
    tokens = EnglishWords(WORDS, cls=True)
    backend = AttentionNetBackend(net, tokens, name="attention", class_names=["no", "yes"], max_length=256)
    return Classifier(backend).under(removals.build("mask"))


def test_theorem_4_1_is_exact_and_undefined_elsewhere(attention):
    assert scored(GradientTheorem(), attention, " ".join(WORDS[:30])).values["distance"] < 1e-4
    other = Classifier(bag_of_words(WEIGHT))
    assert scored(GradientTheorem(), other, "a").undefined == {"distance": undefined.OTHER_MODEL}


def test_lime_tends_to_its_limit_and_not_to_theorem_5_1_as_printed(attention):
    text = " ".join(WORDS[:40])
    lime = Lime(tie="token").explain(attention, attention.encode(Example("s", text)), 3000, np.random.default_rng(0))
    found = scored(LimeTheorem(), attention, text, explanation=lime).values
    assert found["limit"] < 0.06  # what 3,000 samples and the ridge leave
    assert found["limit"] < 0.5 * found["first-order"] < 0.1
    assert found["printed"] > 2 * found["first-order"]
    assert found["limit-pearson"] > 0.99
    against = Explanation({"x": -lime.scores[lime.primary]}, "x", 0)
    assert scored(LimeTheorem(), attention, text, explanation=against).values == pytest.approx(found)
    assert scored(LimeTheorem(1.0), attention, text, explanation=lime).values["limit"] > found["limit"]


def test_theorem_5_1_adds_up_the_positions_of_a_word(attention):
    text = " ".join(WORDS[:20] * 2)
    lime = Lime(tie="token").explain(attention, attention.encode(Example("s", text)), 2000, np.random.default_rng(0))
    assert scored(LimeTheorem(), attention, text, explanation=lime).values["limit"] < 0.06


def test_theorem_5_1_is_undefined_for_constant_scores_and_other_models(attention):
    constant = Explanation({"x": np.ones(40)}, "x", 1)
    reasons = scored(LimeTheorem(), attention, " ".join(WORDS[:40]), explanation=constant).undefined
    assert set(reasons.values()) == {undefined.CONSTANT_SCORES}
    other = scored(LimeTheorem(), Classifier(bag_of_words(WEIGHT)), "a").undefined
    assert set(other.values()) == {undefined.OTHER_MODEL}
