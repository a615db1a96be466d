"""Explaining one sample: what it costs is charged as if every method had run alone."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench import registry
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Cost, Sample
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.profiling import explain_once
from slalom_bench.showing.explaining import explain

COUNTED = ("queries", "forwards", "batches", "tokens", "padding")
SAMPLE = Sample("s", np.array([7, 9, 11, 13]))
METHODS = ("zero", "random", "leave-one-out")


def handle(classes: int) -> Classifier:
    return Classifier(random_backend("bert", classes=classes))


def counted(classifier: Classifier, name: str, target: int | None = None) -> dict[str, int]:
    found = explain_sample(registry.explainers.build(name), classifier, SAMPLE, budget=5, seed=0, target=target)
    found.unwrap()
    return spent(found.cost)


def spent(cost: Cost) -> dict[str, int]:
    return {name: getattr(cost, name) for name in COUNTED}


@pytest.mark.parametrize("name", METHODS)
def test_finding_the_class_of_three_is_charged_and_of_two_costs_nothing(name):
    """Whole texts here have six tokens, with [CLS] and [SEP]; the budget of 5 is leave-one-out's own minimum."""
    finding = {"queries": 1, "forwards": 1, "batches": 1, "tokens": 6, "padding": 0}
    predicted = handle(3).default_target(SAMPLE)
    own = counted(handle(3), name, target=predicted)
    assert counted(handle(3), name) == {key: own[key] + finding[key] for key in COUNTED}
    assert counted(handle(2), name) == counted(handle(2), name, target=1)


@pytest.mark.parametrize("order", [METHODS, METHODS[::-1]])
def test_it_is_charged_alike_whoever_comes_first(order):
    shared = handle(3)
    assert {name: counted(shared, name) for name in order} == {name: counted(handle(3), name) for name in METHODS}
    assert shared.total.shared > 0, "the class was found once"


def test_runs_profiles_and_single_texts_count_alike():
    classifier, method = handle(3), registry.explainers.build("leave-one-out")
    assert spent(explain_once(classifier, method, SAMPLE, 5, 0)) == counted(handle(3), "leave-one-out")
    text = "w1 w2 w3 w4"
    (asked,) = explain(text, model=classifier, explainer="leave-one-out", budget=5).results
    (given,) = explain(text, model=classifier, explainer="leave-one-out", budget=5, target=0).results
    assert asked.cost is not None
    assert given.cost is not None
    assert asked.cost.queries == given.cost.queries + 1 == 6
