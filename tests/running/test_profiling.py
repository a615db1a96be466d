"""Profiling: replicates really run, counts are the handle's, the front is the front."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core.types import Cost, Example, Explanation
from slalom_bench.errors import BudgetExceeded, InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running import profiling

WORDS = {f"w{i}": 0.1 * i for i in range(8)}


class Stub:
    """Asks for every single deletion, twice, and sleeps outside the model."""

    def __init__(self, pause=0.0):
        self.pause = pause
        self.seen = []

    def explain(self, classifier, sample, budget, rng):
        self.seen.append((sample.id, rng.random()))
        keep = ~np.eye(len(sample), dtype=bool)
        for _ in range(2):
            classifier.masked_log_odds(sample, keep)
        time.sleep(self.pause)
        return Explanation({"lin": np.zeros(len(sample))}, "lin")


@pytest.fixture
def classifier():
    return Classifier(bag_of_words(WORDS))


def samples(classifier):
    return [classifier.encode(Example("a", "w0 w1 w2 w3")), classifier.encode(Example("b", "w4 w5 w6 w7"))]


def test_profile_counts_every_replicate_from_an_empty_cache(classifier):
    stub = Stub()
    found = profiling.profile_explainer(classifier, stub, samples(classifier), 8, warmup=1, replicates=3)
    # warm-up on the first sample only; each run the same seed
    assert [name for name, _ in stub.seen] == ["a"] * 4 + ["b"] * 3
    assert len(set(stub.seen)) == 2
    # 2 x 4 queries, 4 of them from the run's own cache: 4 sequences of 3 tokens go through the model
    counts = {name: found[name] for name in profiling.COUNTS}
    assert counts == {"queries": 8, "forwards": 4, "backwards": 0, "batches": 1, "tokens": 12, "padding": 0}
    assert found["padding_share"] == 0.0
    assert [row["id"] for row in found["per_sample"]] == ["a", "b"]
    assert all(len(row["seconds"]) == 3 for row in found["per_sample"])
    assert classifier.total.queries == 0


def test_time_is_split_into_inside_and_outside_the_model(classifier):
    found = profiling.profile_explainer(classifier, Stub(pause=0.05), samples(classifier), 8, replicates=2)
    assert found["outside_seconds"]["median"] >= 0.05
    assert found["seconds"]["median"] >= found["outside_seconds"]["median"]
    assert 0 < found["model_share"] < 0.5
    total = found["model_seconds"]["median"] + found["outside_seconds"]["median"]
    assert found["seconds"]["median"] == pytest.approx(total, rel=0.2)


def test_profile_respects_the_budget_and_refuses_nothing(classifier):
    with pytest.raises(BudgetExceeded):
        profiling.profile_explainer(classifier, Stub(), samples(classifier), 7)
    with pytest.raises(InvalidInput, match="no samples"):
        profiling.profile_explainer(classifier, Stub(), [], 7)


def test_padding_share(classifier):
    def explain(handle, sample, budget, rng):
        handle.log_odds([sample.ids, sample.ids[:1]])
        return Explanation({"x": np.zeros(len(sample))}, "x")

    found = profiling.profile_explainer(classifier, SimpleNamespace(explain=explain), samples(classifier)[:1], 2)
    # 4 + 1 tokens in a batch of 2 x 4
    assert (found["tokens"], found["padding"], found["padding_share"]) == (5, 3, 3 / 8)


def test_measure_drops_the_warm_up_and_synchronises_round_the_clock():
    events = []

    def work():
        events.append("work")
        if len([event for event in events if event == "work"]) == 1:
            time.sleep(0.2)
        return Cost(forwards=1)

    timing = profiling.measure(work, warmup=1, replicates=3, synchronise=lambda: events.append("wait"))
    assert events == ["wait", "work", "wait"] * 4
    assert len(timing.runs) == 3
    assert timing.spread().high < 0.2
    with pytest.raises(InvalidInput, match="replicates"):
        profiling.measure(work, replicates=0)


def test_spread_by_hand():
    assert profiling.Spread.of([1.0, 2.0, 3.0, 4.0, 100.0]) == profiling.Spread(3.0, 2.0, 4.0)
    assert profiling.relative_range(profiling.Spread(2.0, 1.0, 4.0)) == 1.5


def test_peak_memory_sees_an_allocation():
    with profiling.peak_memory("cpu") as memory:
        block = np.ones(8_000_000)
        del block
    assert memory.kind.startswith("process")
    assert memory.peak > 64_000_000
    if memory.kind == "process":
        assert memory.increase > 50_000_000
        with profiling.peak_memory("cpu") as nothing:
            pass
        assert nothing.increase < 50_000_000


def test_machine_fingerprint_is_stable_and_names_what_timings_depend_on():
    import torch

    found = profiling.machine_fingerprint()
    assert found == profiling.machine_fingerprint()
    assert found["cores"] >= found["usable_cores"] >= 1
    assert found["ram_bytes"] > 2**28
    assert found["cpu"]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert profiling.machine_fingerprint()["id"] != found["id"]
    finally:
        torch.set_num_threads(threads)


def test_pareto_front_by_hand():
    points = {"fast": (1.0, 0.5), "good": (9.0, 0.1), "beaten": (9.5, 0.2), "middle": (5.0, 0.3), "twin": (5.0, 0.3)}
    assert profiling.pareto_front(points, "lower") == {"fast", "good", "middle", "twin"}
    # where higher is better, the fastest of them all is also the best
    assert profiling.pareto_front(points, "higher") == {"fast"}
    assert profiling.pareto_front({}, "lower") == set()
    with pytest.raises(InvalidInput, match="up"):
        profiling.pareto_front(points, "up")
