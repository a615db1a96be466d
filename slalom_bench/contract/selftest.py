"""A device against the CPU: the same answers, gradients and explanations, and how fast it gives them."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slalom_bench import registry
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend, pick_device
from slalom_bench.core.extras import missing_extra
from slalom_bench.core.types import Floats, Sample
from slalom_bench.handle.classifier import Classifier
from slalom_bench.handle.device import synchroniser
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.profiling import peak_memory

ARCHITECTURES = ("bert", "distilbert", "gpt2", "roberta", "modernbert", "llama")
TOLERANCE = 1e-3
"""Of the largest entry: other kernels round otherwise, and fits enlarge it (as for batches in `invariance`)."""
TOKENS, BUDGET, MASKS = 24, 300, 64
WIDE = {"width": 256, "layers": 4}
"""The model of the throughput line, on 128 tokens."""


@dataclass(frozen=True)
class Line:
    """One thing that was compared: whether it held, and what was measured."""

    what: str
    passed: bool
    fact: str


def selftest(device: str, explainers: Sequence[str] | None = None) -> Iterator[Line]:
    """Compare a device with the CPU on small random models, line by line as they are done.

    Args:
        device: cpu, cuda, cuda:N, mps or auto.
        explainers: registered names; all that are installed unless given.
    """
    for architecture in ARCHITECTURES:
        here = Classifier(random_backend(architecture))
        there = Classifier(on_device(here, device))
        for what, part in PARTS.items():
            yield compared(f"{architecture}: {what}", part(here), part(there))
        alone = Classifier(there.backend, token_budget=1)
        yield compared(f"{architecture}: one sequence a batch", answers(there), answers(alone))
    here = Classifier(random_backend("bert"))
    there = Classifier(on_device(here, device))
    for name in explainers or registry.explainers.names():
        entry = registry.explainers.get(name)
        if not missing_extra(entry.extra) and entry.needs <= here.capabilities:
            yield explained(name, here, there)
    yield throughput(device)


def on_device(classifier: Classifier, device: str) -> HFBackend:
    """A copy of the model on the device."""
    own: Any = classifier.backend
    module = copy.deepcopy(own.module).to(pick_device(device))
    return HFBackend(module, own.tokens, name=own.name, class_names=own.class_names)


def compared(what: str, here: Floats, there: Floats) -> Line:
    """Two arrays that should be the same but for rounding."""
    off = float(np.abs(here - there).max() / max(float(np.abs(here).max()), 1e-12))
    return Line(what, off <= TOLERANCE, f"off by {off:.1e} of the largest (at most {TOLERANCE:g})")


def _sample() -> Sample:
    return Sample("selftest", np.random.default_rng(0).integers(5, 60, TOKENS))


def answers(classifier: Classifier) -> Floats:
    """Log-odds of random parts of a text."""
    keep = np.random.default_rng(1).random((MASKS, TOKENS)) < 0.7
    keep[:, 0] = True
    return Classifier(classifier.backend, token_budget=classifier.token_budget).masked_log_odds(_sample(), keep)


def gradients(classifier: Classifier) -> Floats:
    """Of the log-odds by word embeddings."""
    return classifier.gradients(classifier.embed(_sample())[None])[1].double().cpu().numpy()


def attentions(classifier: Classifier) -> Floats:
    """The maps of all layers."""
    return classifier.attentions(_sample())


PARTS: dict[str, Callable[[Classifier], Floats]] = {
    "answers": answers,
    "gradients": gradients,
    "attention maps": attentions,
}


def explained(name: str, here: Classifier, there: Classifier) -> Line:
    """An explainer's scores on both, and again on the device with the same seed."""
    build = registry.explainers.get(name).build
    found = []
    for classifier in (here, there, there):
        handle = Classifier(classifier.backend)  # nothing from a cache
        outcome = explain_sample(build(), handle, _sample(), budget=BUDGET, seed=0)
        if outcome.error is not None:
            return Line(f"explainer {name}", False, f"{handle.backend.device}: {outcome.error}")
        explanation = outcome.unwrap()
        found.append(explanation.scores[explanation.primary])
    if explanation.diagnostics.get("cancelled"):
        return Line(f"explainer {name}", True, "its scores cancel on this model: rounding is all there is to compare")
    line = compared(f"explainer {name}", found[0], found[1])
    again = "the same bits" if np.array_equal(found[1], found[2]) else "other bits"
    return Line(line.what, line.passed, f"{line.fact}; again on the device: {again}")


def throughput(device: str) -> Line:
    """Tokens per second of deletions of one text, and the peak of memory."""
    backend = on_device(Classifier(random_backend("bert", **WIDE)), device)
    sample = Sample("wide", np.random.default_rng(0).integers(5, 60, 128))
    count = 256 if backend.device == "cpu" else 4096
    keep = np.random.default_rng(1).random((count, 128)) < 0.9
    wait = synchroniser(backend.device)
    with peak_memory(backend.device) as memory:
        for masks in (keep[:32], keep):  # the first warms up
            handle = Classifier(backend)
            wait()
            start = time.perf_counter()
            handle.masked_log_odds(sample, masks)
            wait()
            seconds = time.perf_counter() - start
    rate = handle.total.tokens / seconds
    fact = f"{rate:,.0f} tokens a second ({WIDE['layers']} layers, {WIDE['width']} wide), "
    return Line("throughput", True, f"{fact}memory +{memory.increase / 1e6:.0f} MB ({memory.kind})")


def report(device: str, lines: Sequence[Line], provenance: dict[str, Any]) -> dict[str, Any]:
    """What is sent in: the machine, and every line."""
    return {"device": device, "passed": all(line.passed for line in lines), "provenance": provenance} | {
        "lines": [asdict(line) for line in lines]
    }
