"""What a plan runs, runs: on every architecture and closed form a method works, or its plan says what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Sample
from slalom_bench.errors import Unsupported
from slalom_bench.handle.backend import Backend
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.loading import Planned
from slalom_bench.running.plan import make_plan
from slalom_bench.running.suite import Suite

WORDS = [f"w{i}" for i in range(60)]
SAMPLE = Sample("a", np.random.default_rng(0).integers(5, 60, 9))
METHODS = tuple(
    entry.name for entry in registry.explainers.entries() if entry.family in ("gradient", "lrp", "attention")
)
ARCHITECTURES = (
    *("bert", "distilbert", "roberta", "xlm-roberta", "electra", "albert", "deberta-v2", "modernbert"),
    *("gpt2", "bloom", "llama", "mistral", "qwen2", "mamba"),
)
LACKING = {
    "albert": {"value-zeroing"},
    "deberta-v2": {"attnlrp", "attnlrp-cp", "deeplift", "value-zeroing"},
    "slalom-transformer": {"attnlrp", "attnlrp-cp", "deeplift", "value-zeroing"},
}
"""Methods that a plan skips, for some models."""


def backend_of(name: str) -> Backend:
    if name == "bag-of-words":
        return bag_of_words({word: float(i % 5) for i, word in enumerate(WORDS)})
    if name == "slalom-transformer":
        return slalom_transformer({w: float(i % 5) for i, w in enumerate(WORDS)}, dict.fromkeys(WORDS, 0.0))
    return random_backend(name)


@pytest.mark.parametrize("name", [*ARCHITECTURES, "bag-of-words", "slalom-transformer"])
def test_what_is_planned_works_and_what_does_not_is_skipped_before_the_run(name: str) -> None:
    backend = backend_of(name)
    planned = Planned("imdb", name, 2, frozenset(), backend.capabilities)
    plan = make_plan(Suite(name="s", tasks=("imdb",), models=(name,), explainers=METHODS), [planned])
    planned_for = {cell.explainer for cell in plan.cells}
    skipped = {skip.what.rpartition(" ")[2] for skip in plan.skips if skip.reason.startswith("needs ")}
    assert planned_for | skipped == set(METHODS)
    assert skipped == LACKING.get(name, skipped)
    assert {"grad-x-input", "gradient-shap", "discretised-ig"} <= planned_for
    classifier = Classifier(backend)
    for method in METHODS:
        entry = registry.explainers.get(method)
        out = explain_sample(entry.build(), classifier, SAMPLE, budget=60, seed=0, needs=entry.needs)
        if method in skipped:
            assert isinstance(out.error, Unsupported), method
        else:
            found = out.unwrap()
            assert np.isfinite(found.scores[found.primary]).all(), method
            assert 0 < out.cost.queries <= 60, method
