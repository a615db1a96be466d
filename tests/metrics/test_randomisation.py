"""Parameter randomisation against its definition written out again, and what it says of methods that see no weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from slalom_bench import registry
from slalom_bench.backends.callable_backend import wrap
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core import undefined
from slalom_bench.core.context import Context
from slalom_bench.core.seeds import generator
from slalom_bench.core.types import DataSource, Example, Explanation, Sample, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.randomisation import Randomisation
from slalom_bench.results.reading import read_run
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.plan import Planned, usable_metrics
from slalom_bench.running.suite import make_suite

TASK = TaskData("text", DataSource("file", "x", "0" * 64), ("neg", "pos"), (Example("a", "x"),))
SAMPLE = Sample("a", np.random.default_rng(0).permutation(np.arange(5, 35)))


def again(name: str):
    explainer = registry.explainers.get(name).build()

    def explain(classifier: Classifier, sample: Sample) -> Explanation:
        return explain_sample(explainer, classifier, sample, budget=64, seed=0, target=classifier.target).unwrap()

    return explain


def score(name: str, classifier: Classifier):
    explain = again(name)
    return Randomisation().score(classifier, SAMPLE, explain(classifier, SAMPLE), Context(TASK, explain=explain))


@pytest.mark.parametrize("name", ["grad-x-input", "grad-l2", "leave-one-out"])
def test_recomputed_from_the_definition(name):
    """By scipy, with handles of their own; grad-l2 is unsigned."""
    backend = random_backend("bert", scale=3.0)
    found = score(name, Classifier(backend)).values
    seed = int(generator(0, "metric", "randomisation").integers(2**31))
    explain = again(name)
    before = explain(Classifier(backend), SAMPLE).scores["attribution"]
    after = [explain(Classifier(copy), SAMPLE).scores["attribution"] for copy in backend.cascade(seed)]
    rho = [spearmanr(before, scores).statistic for scores in after]
    assert [found[f"k{i}"] for i in range(1, len(rho) + 1)] == pytest.approx(np.abs(rho))
    assert found["similarity"] == pytest.approx(np.mean(np.abs(rho)))
    assert found["signed"] == pytest.approx(np.mean(rho))
    assert found["all"] == pytest.approx(abs(rho[-1]))
    assert found["similarity"] < 0.9


def test_what_does_not_look_at_the_weights_scores_one():
    found = score("random", Classifier(random_backend("bert"))).values
    assert list(found.values()) == [pytest.approx(1.0)] * 7
    assert {"k1", "k4", "similarity", "all"} <= set(found)


def test_without_a_ranking_an_explainer_or_parameters_it_is_undefined_with_the_reason():
    classifier = Classifier(random_backend("bert"))
    assert set(score("zero", classifier).undefined.values()) == {undefined.CONSTANT_SCORES}
    explanation = Explanation({"attribution": np.arange(30.0)}, "attribution")
    found = Randomisation().score(classifier, SAMPLE, explanation, Context(TASK))
    assert found.undefined["similarity"] == undefined.NO_EXPLAINER
    black = wrap(lambda texts: np.zeros(len(texts)))
    found = Randomisation().score(black, SAMPLE, explanation, Context(TASK, explain=again("random")))
    assert found.undefined["similarity"] == undefined.NOT_RANDOMISABLE


def test_scores_that_become_constant_leave_the_means_undefined():
    explanation = Explanation({"attribution": np.arange(30.0)}, "attribution")
    calls = []

    def explain(classifier: Classifier, sample: Sample) -> Explanation:
        calls.append(classifier.backend.identity())
        return Explanation({"attribution": np.arange(30.0) * (len(calls) != 2)}, "attribution")

    context = Context(TASK, explain=explain)
    found = Randomisation().score(Classifier(random_backend("bert")), SAMPLE, explanation, context)
    assert len(set(calls)) == len(calls) == 4
    assert found.undefined == dict.fromkeys(("k2", "similarity", "signed"), undefined.CONSTANT_SCORES)
    assert found.values == dict.fromkeys(("k1", "k3", "k4", "all"), pytest.approx(1.0))


def test_its_queries_are_counted_and_held_to_the_budget_one_explanation_at_a_time():
    classifier = Classifier(random_backend("bert"))
    explain = again("leave-one-out")
    explanation = explain(classifier, SAMPLE)
    with classifier.work() as cost:
        Randomisation().score(classifier, SAMPLE, explanation, Context(TASK, explain=explain))
    assert cost.queries == 4 * 31


def test_it_is_computed_only_where_it_is_asked_for(lab, tmp_path):
    planned = Planned(task="text", model="mini-bert", samples=1, gives=frozenset({"train"}))
    named = {"name": "x", "tasks": ("text",), "models": ("mini-bert",), "explainers": ("zero",)}
    usual = usable_metrics(make_suite(**named), planned, [])
    assert "deletion" in usual
    assert "randomisation" not in usual
    assert usable_metrics(make_suite(**named, metrics=("randomisation",)), planned, []) == ("randomisation",)
    path = lab.run(
        tmp_path / "run", metrics=("randomisation",), explainers=("random", "grad-x-input"), budgets=(30,), samples=3
    )
    rows = {cell.identity.explainer.name: next(iter(cell.scores.values())) for cell in read_run(path).cells}
    assert [row["values"].get("similarity") for row in rows["random"].values()] == [pytest.approx(1.0)] * 3
    assert all(row["values"]["similarity"] < 0.999 for row in rows["grad-x-input"].values())
