"""What a cell costs does not depend on which cell came before it."""

from __future__ import annotations

import pytest

from slalom_bench.api import build_suite
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core.context import Context
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.runner import run_suite
from slalom_bench.running.store import RunStore

COUNTED = ("queries", "forwards", "backwards", "hits", "batches", "tokens", "padding")


def counts(path):
    return {
        (cell.identity.key, name): [row[field] for field in COUNTED]
        for cell in RunStore(path).cells()
        for name, row in cell.costs.rows.items()
    }


def test_counts_are_the_same_in_any_order_of_the_cells(tmp_path):
    """Reference effects, bounds of a search and surrogates are asked for once, and charged to all that use them."""
    found = []
    for order in (("zero", "leave-one-out", "linear-deletion"), ("linear-deletion", "zero", "leave-one-out")):
        spec = build_suite(
            task=["synthetic-linear"],
            model=["bag-of-words"],
            explainer=order,
            metric=["fidelity-top", "deletion-normalised", "surrogate-fit:count=200", "nb-spearman", "strict-fidelity"],
            budget=[30],
            samples=2,
        )
        out = tmp_path / order[0]
        assert run_suite(spec, out, ModelOptions(device="cpu")).failed == 0
        found.append(counts(out))
    assert found[0] == found[1]
    fits = [row for (_, name), row in found[0].items() if name.startswith("surrogate-fit")]
    assert len(fits) == 6
    assert all(row[0] == 201 for row in fits)


def test_what_was_made_before_is_charged_with_its_time():
    classifier = Classifier(bag_of_words({"good": 1.0, "bad": -1.0}))
    example = Example("a", "good bad good")
    context = Context(TaskData("t", DataSource("generated", "t", "c" * 64), ("n", "p"), (example,), ()))
    sample = classifier.encode(example)

    def make() -> float:
        """Asks for three sequences, one of them twice."""
        return float(classifier.log_odds([sample.ids, sample.ids[:1], sample.ids[1:], sample.ids])[0])

    costs = []
    for _ in range(2):
        with classifier.work() as cost:
            assert context.once(("x",), make, asking=classifier) == 1.0
        costs.append(cost)
    first, second = costs
    assert (first.queries, first.forwards, first.hits, first.shared) == (4, 3, 1, 0)
    assert (second.queries, second.forwards, second.hits, second.shared) == (4, 3, 1, 3)
    assert second.model_seconds == pytest.approx(first.model_seconds)
    assert second.seconds >= first.model_seconds
    assert second.saved_seconds == pytest.approx(first.model_seconds)
