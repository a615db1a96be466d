"""What must not change an explanation, and what an explanation must not change. Each rule returns its measured fact."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from slalom_bench.contract.candidate import Candidate
from slalom_bench.contract.fingerprint import differences, fingerprint
from slalom_bench.contract.harness import (
    NotApplicable,
    Violation,
    distance,
    explained,
    handle,
    require_reproducible,
    run,
    same_bits,
    text,
)

TOLERANCE = 1e-3
"""Batching changes answers in their last float32 bits (about 1e-6); fits may enlarge that, but not beyond this."""


def same_seed(candidate: Candidate) -> str:
    """The same seed gives the same bits."""
    first, second = explained(candidate), explained(candidate)
    if not same_bits(first, second):
        size, name = distance(first.scores, second.scores)
        raise Violation(f"two runs with one seed differ by {size:.1g} of the largest {name}")
    return "two runs with one seed are bit-identical"


def other_seed(candidate: Candidate) -> str:
    """Another seed gives another result if, and only if, the explainer is declared stochastic."""
    if not isinstance(candidate.stochastic, bool):
        raise NotApplicable("not declared stochastic or deterministic")
    first, second = explained(candidate), explained(candidate, seed=1)
    same = same_bits(first, second)
    if not same:
        require_reproducible(candidate)
    if same and candidate.stochastic:
        raise Violation("declared stochastic, but another seed gives the same bits")
    if not same and not candidate.stochastic:
        size, name = distance(first.scores, second.scores)
        raise Violation(f"declared deterministic, but another seed moves {name} by {size:.1g} of its largest entry")
    return "another seed gives " + ("the same bits" if same else "another result") + ", as declared"


def batching(candidate: Candidate) -> str:
    """One sequence at a time or many at once: the same scores up to float32 noise."""
    together, alone = explained(candidate), explained(candidate, token_budget=1)
    size, name = distance(together.scores, alone.scores)
    if size > TOLERANCE:
        require_reproducible(candidate)
        raise Violation(f"one sequence a batch moves {name} by {size:.1g} of its largest entry (at most {TOLERANCE:g})")
    return f"one sequence a batch moves scores by {size:.1g} of their largest entry (at most {TOLERANCE:g})"


def order(candidate: Candidate) -> str:
    """Two texts on one handle: which one comes first changes no bit."""
    examples = [text(), text(name="another")]
    results = []
    for direction in (examples, examples[::-1]):
        classifier = handle()
        results.append({example.id: run(candidate, classifier, example)[0] for example in direction})
    for name in results[0]:
        if not same_bits(results[0][name], results[1][name]):
            require_reproducible(candidate)
            size, score = distance(results[0][name].scores, results[1][name].scores)
            raise Violation(f"explaining another text first moves {score} by {size:.1g} of its largest entry")
    return "two texts in either order are bit-identical"


def untouched(candidate: Candidate) -> str:
    """Weights, module classes, hooks, modes, gradients and answers of the model are what they were."""
    classifier = handle()
    backend: Any = classifier.backend
    probe = [backend.tokens.encode(example.text)[0] for example in (text(7, "a"), text(5, "b"))]
    before, answers = fingerprint(backend.module), backend.logits(probe)
    run(candidate, classifier, text())
    if changed := differences(before, fingerprint(backend.module)):
        raise Violation(f"explaining changed the model's {', '.join(changed)}")
    if not np.array_equal(answers, backend.logits(probe)):
        raise Violation("the model answers differently after explaining")
    return "weights, classes, hooks, flags and gradients as before; answers bit-identical"


def global_random(candidate: Candidate) -> str:
    """random, numpy.random and torch's generator are neither read nor moved."""
    results = []
    with restored_random():
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            before = random_states()
            results.append(explained(candidate))
            if moved := [name for name, state in random_states().items() if state != before[name]]:
                raise Violation(f"moves the global state of {', '.join(moved)}; use the rng that is passed in")
    if not same_bits(*results):
        require_reproducible(candidate)
        raise Violation("the result depends on global seeds; use the rng that is passed in")
    return "random, numpy and torch states unmoved; other global seeds change nothing"


def random_states() -> dict[str, Any]:
    """The states of the global generators, comparable."""
    state = np.random.get_state()  # noqa: NPY002
    numpy_state = tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in state)
    return {"random": random.getstate(), "numpy": numpy_state, "torch": torch.get_rng_state().numpy().tobytes()}


@contextmanager
def restored_random() -> Iterator[None]:
    """Whoever calls `check` finds the global states as they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
