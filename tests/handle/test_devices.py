"""What can be shown of other devices without one: no tensor stays behind, memory, clocks, half precision."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from slalom_bench import registry
from slalom_bench.backends import pruned_forward
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.removal import Removal
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.lime import Lime
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running import profiling
from slalom_bench.running.explaining import explain_sample

SAMPLE = Sample("a", np.arange(5, 17))
METHODS = ("lime", "integrated-gradients", "discretised-ig", "attnlrp", "deeplift", "attention-grad", "value-zeroing")


# ---- nothing stays behind ----


class _Copied(TorchFunctionMode):
    """Numbers that leave the pretended device: there are none, so they are zeros."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "allclose":
            return True
        if name in ("numpy", "tolist", "item", "__float__"):
            zeros = np.zeros(tuple(args[0].shape), str(args[0].dtype).removeprefix("torch."))
            return zeros if name == "numpy" else zeros.tolist()
        return func(*args, **(kwargs or {}))


class Elsewhere:
    """A pretended device: fake tensors of device meta, of which any that meets one of the CPU is an error.

    A CPU build of torch cannot index fake tensors of device cuda; those of meta go the same way through our code, which
    tells the CPU from all others and nothing else.
    """

    def __enter__(self) -> Elsewhere:
        self.modes = FakeTensorMode(allow_non_fake_inputs=True), _Copied()
        for mode in self.modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self.modes):
            mode.__exit__(*error)

    def moved(self, backend: HFBackend) -> HFBackend:
        """A backend on the device."""
        there = {id(p): torch.nn.Parameter(torch.empty(p.shape, device="meta")) for p in backend.module.parameters()}
        there |= {id(b): torch.empty(b.shape, dtype=b.dtype, device="meta") for b in backend.module.buffers()}
        module = copy.deepcopy(backend.module, there)
        return HFBackend(module.eval(), backend.tokens, name="elsewhere", class_names=backend.class_names)


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "modernbert", "llama"])
def test_no_tensor_stays_behind(architecture):
    here = random_backend(architecture, layers=2)
    with Elsewhere() as elsewhere:
        classifier = Classifier(elsewhere.moved(here))
        assert classifier.backend.device == "meta"
        assert (classifier.backend.pruned is None) == (here.pruned is None)
        short, keep = Sample("a", np.array([7, 8, 9])), np.array([[True, False, True], [True, True, False]])
        for rule in ("delete", "gap", "mask", "pad"):
            removal: Removal = registry.removals.get(rule).build()
            if registry.removals.get(rule).needs <= classifier.capabilities and not (
                rule == "mask" and classifier.tokens.mask_id is None
            ):
                assert classifier.under(removal).masked_log_odds(short, keep).shape == (2,)
        for name in METHODS:
            entry = registry.explainers.get(name)
            if entry.needs <= classifier.capabilities:
                explain_sample(entry.build(), classifier, short, budget=6, seed=0).unwrap()


@pytest.mark.parametrize("stray", ["position table", "head", "index"])
def test_a_tensor_that_stays_behind_is_found(stray, monkeypatch):
    here = random_backend("bert")
    with Elsewhere() as elsewhere:
        classifier = Classifier(elsewhere.moved(here))
        module = classifier.backend.module
        if stray == "position table":
            module.bert.embeddings.position_embeddings.weight = torch.nn.Parameter(torch.zeros(512, 32))
        elif stray == "head":
            module.classifier.weight = torch.nn.Parameter(torch.zeros(2, 32))
        else:
            classifier.backend.pruned.device = torch.device("cpu")
        with pytest.raises((RuntimeError, AssertionError)):
            classifier.masked_log_odds(SAMPLE, np.ones((1, len(SAMPLE)), np.bool_))


# ---- memory ----


@pytest.mark.parametrize("pruned", [True, False])
def test_torchs_out_of_memory_halves_the_batch(pruned, monkeypatch):
    model = random_backend("bert")
    backend = HFBackend(model.module, model.tokens, name="x", class_names=model.class_names, pruned=pruned)
    texts = [np.array([10, i]) for i in range(10, 26)]
    expected = Classifier(random_backend("bert")).log_odds(texts)
    owner, name = (pruned_forward.PrunedForward, "logits") if pruned else (HFBackend, "forward")
    real, sizes = getattr(owner, name), []

    def full(self: Any, *args: Any, **inputs: Any) -> Any:
        rows = len(args[0]) if pruned else len(inputs["input_ids"])
        sizes.append(rows)
        if rows > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return real(self, *args, **inputs)

    monkeypatch.setattr(owner, name, full)
    classifier = Classifier(backend, token_budget=10_000)
    np.testing.assert_allclose(classifier.log_odds(texts), expected, atol=1e-5)
    assert (max(sizes), sizes[-1]) == (16, 2)


@pytest.mark.parametrize("when", ["forward", "backward"])
def test_it_halves_batches_of_gradients_too_and_asks_once(when):
    backend = random_backend("bert")
    classifier = Classifier(backend)
    rows, sizes = classifier.embed(SAMPLE).repeat(8, 1, 1), []
    _, expected = Classifier(backend).gradients(rows)

    def through(words: torch.Tensor) -> torch.Tensor:
        sizes.append(len(words))
        logits = backend.logits_from_embeddings(words)
        if len(words) > 3:
            if when == "forward":
                raise torch.OutOfMemoryError("CUDA out of memory")
            logits.register_hook(_full)
        return logits

    with classifier.work(8) as cost:
        _, grads = classifier.gradients(rows, through)
    assert cost.queries == 8
    assert sizes[:2] == [8, 4]
    assert sizes[2:] == [2, 2, 2, 2]
    torch.testing.assert_close(grads, expected)


def _full(grad: torch.Tensor) -> torch.Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_one_sequence_too_large_is_an_error_with_a_remedy():
    classifier = Classifier(random_backend("bert"))

    def never(words: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(InvalidInput, match="single sequence of 14 tokens on cpu"):
        classifier.gradients(classifier.embed(SAMPLE)[None], never)


# ---- clocks ----


def test_a_profile_waits_for_the_device_and_asks_it_for_its_memory(monkeypatch):
    """torch.cuda as a stub: clocks are read when the device is idle, the peak is reset before and read after."""
    events: list[str] = []
    answers = {
        "synchronize": None,
        "reset_peak_memory_stats": None,
        "memory_allocated": 100,
        "max_memory_allocated": 350,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(
            torch.cuda, name, lambda device, name=name, answer=answer: events.append(f"{name} {device}") or answer
        )
    backend = random_backend("bert")
    backend.device = "cuda:1"
    clock = profiling.time.perf_counter
    monkeypatch.setattr(profiling.time, "perf_counter", lambda: events.append("clock") or clock())
    report = profiling.profile_explainer(Classifier(backend), Lime(), [SAMPLE], 20, warmup=0, replicates=2)
    assert report["memory"] == {"kind": "cuda", "peak": 350, "increase": 250}
    assert events[:2] == ["reset_peak_memory_stats cuda:1", "memory_allocated cuda:1"]
    assert events[-1] == "max_memory_allocated cuda:1"
    waits = [i for i, event in enumerate(events) if event == "synchronize cuda:1"]
    assert len(waits) == 4
    assert all(events[i + 1] == "clock" for i in waits)


def test_gradients_are_waited_for_before_their_seconds_are_counted(monkeypatch):
    waits: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: waits.append(str(device)))
    backend = random_backend("bert")
    backend.device = "cuda:0"
    classifier = Classifier(backend)
    classifier.gradients(classifier.embed(SAMPLE)[None])
    assert waits == ["cuda:0", "cuda:0"]


# ---- half precision ----


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_bfloat16_is_within_its_stated_rounding(architecture):
    """`Classifier.rounding`: 16 units of the last place, 0.125 for log-odds up to 1."""
    whole = random_backend(architecture)
    module = copy.deepcopy(whole.module).to(torch.bfloat16)
    half = Classifier(HFBackend(module, whole.tokens, name="half", class_names=whole.class_names))
    assert half.backend.dtype == "bfloat16"
    assert half.rounding(0.5) == 0.125
    keep = np.random.default_rng(0).random((60, len(SAMPLE))) < 0.6
    keep[:, 0] = True
    exact, rough = (handle.masked_log_odds(SAMPLE, keep) for handle in (Classifier(whole), half))
    assert 0 < np.abs(exact - rough).max() < half.rounding(float(np.abs(exact).max()))
    for name in METHODS:
        entry = registry.explainers.get(name)
        if entry.needs <= half.capabilities:
            explain_sample(entry.build(), half, SAMPLE, budget=30, seed=0).unwrap()
