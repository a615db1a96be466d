"""How the contract runs an explainer: its own copy of a model every time, counted and seeded as in a benchmark run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from slalom_bench.backends.torch_backend import TorchBackend
from slalom_bench.contract import models as models
from slalom_bench.contract.candidate import Candidate
from slalom_bench.core.types import Cost, Example, Explanation, Floats, Sample
from slalom_bench.errors import Unsupported
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.explaining import explain_sample

BUDGET = 300
LENGTH = 12

Make = Callable[[], TorchBackend]


class Violation(Exception):
    """The rule does not hold; the message is the measured fact."""


class NotApplicable(Exception):
    """The rule does not apply; the message is the reason."""


def handle(make: Make = models.random_bert, **options: Any) -> Classifier:
    """A handle on a fresh copy of a test model."""
    return Classifier(models.copy_of(make), **options)


def text(length: int = LENGTH, name: str = "text") -> Example:
    """A random text of so many words, the same for the same name."""
    return models.random_example(name, length)


def run(
    candidate: Candidate, classifier: Classifier, example: Example, *, seed: int = 0, budget: int = BUDGET
) -> tuple[Explanation, Cost, Sample]:
    """One explanation, as the runner would make it."""
    if candidate.instance is None:
        raise Violation(f"cannot be built without arguments ({candidate.problem})")
    sample = classifier.encode(example)
    outcome = explain_sample(candidate.instance, classifier, sample, budget=budget, seed=seed, target=classifier.target)
    return outcome.unwrap(), outcome.cost, sample


def explained(candidate: Candidate, *, seed: int = 0, make: Make = models.random_bert, **options: Any) -> Explanation:
    """The explanation of one text by a fresh model."""
    return run(candidate, handle(make, **options), text(), seed=seed)[0]


def supported(candidate: Candidate, *makes: Make) -> Iterator[tuple[Make, Classifier]]:
    """Those of the models that the explainer takes; one that none of them suits breaks the contract."""
    refusals = []
    for make in makes:
        classifier = handle(make)
        try:
            run(candidate, classifier, text(2))
        except Unsupported as error:
            refusals.append(f"{classifier.name}: {error}")
            continue
        yield make, handle(make)
    if len(refusals) == len(makes):
        raise Violation("supports none of the test models (" + "; ".join(refusals) + ")")


def same_bits(a: Explanation, b: Explanation) -> bool:
    """Whether two explanations have the same scores to the last bit."""
    return a.scores.keys() == b.scores.keys() and all(np.array_equal(a.scores[k], b.scores[k]) for k in a.scores)


def distance(a: Mapping[str, Floats], b: Mapping[str, Floats]) -> tuple[float, str]:
    """The largest difference relative to the largest entry of its score, and that score's name."""
    found = [(float(np.abs(a[k] - b[k]).max() / max(np.abs(a[k]).max(), 1e-12)), k) for k in a]
    return max(found)


def require_reproducible(candidate: Candidate) -> None:
    """Where one seed does not even repeat itself, a comparison of two runs says nothing more."""
    if not same_bits(explained(candidate), explained(candidate)):
        raise NotApplicable("two runs with one seed differ already (see same-seed)")
