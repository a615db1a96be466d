"""What is measured: models on one text of 200 tokens, and what the machine can do at that moment."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from slalom_bench import registry
from slalom_bench.backends.torch_backend import HFBackend
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.tokens import Tokens
from slalom_bench.core.types import Cost, Explanation, Sample, TaskData
from slalom_bench.data.loading import data_directory, load_task
from slalom_bench.handle.classifier import Classifier
from slalom_bench.models.loading import load_model
from slalom_bench.running.profiling import explain_once

WIDE = {"bert-768": (2, 768), "bert-384": (6, 384), "bert-12": (12, 768)}
"""Layers and width of models with random weights: two layers of BERT's, MiniLM's size, BERT itself."""
MODELS = ("mini-bert", "mini-gpt2", *WIDE)
TOKENS = 200


@dataclass(frozen=True)
class Subject:
    """A model, and texts of about 200 of its tokens."""

    name: str
    backend: HFBackend
    samples: tuple[Sample, ...]

    @property
    def sample(self) -> Sample:
        return self.samples[0]

    def handle(self) -> Classifier:
        """A handle of its own, so that nothing is answered from a cache."""
        return Classifier(self.backend)

    def explain(self, explainer: str, budget: int, seed: int = 0, sample: Sample | None = None) -> Explanation:
        handle = self.handle()
        with handle.work(budget):
            rng = np.random.default_rng(seed)
            found: Explanation = (
                registry.explainers.get(explainer).build().explain(handle, sample or self.sample, budget, rng)
            )
        return found

    def cost(self, explainer: str, budget: int) -> Cost:
        return explain_once(self.handle(), registry.explainers.get(explainer).build(), self.sample, budget, 0)

    def plain(self) -> HFBackend:
        """The backend with the model's own forward pass, as models without a pruned one have it."""
        own = self.backend
        return HFBackend(own.module, own.tokens, name=own.name, class_names=own.class_names, pruned=False)

    def flops(self, lengths: np.ndarray) -> float:
        """Multiplications and additions of the model's own forward pass over sequences of these lengths."""
        config = self.backend.module.config
        width, inner = config.hidden_size, config.intermediate_size
        dense = 2 * (4 * width**2 + 2 * width * inner) * lengths
        return float(config.num_hidden_layers * (dense + 4 * width * lengths**2).sum())


@cache
def imdb() -> TaskData:
    return load_task("imdb", data_dir=data_directory(None))


@cache
def subject(name: str) -> Subject:
    """A mini as shipped, or one of `WIDE` with mini-bert's vocabulary."""
    mini = "mini-bert" if name in WIDE else name
    shipped = load_model(mini, imdb(), ModelOptions(data_dir=data_directory(None), progress=False))
    backend = wide(shipped.tokens, name) if name in WIDE else shipped
    handle, found = Classifier(backend), []
    for example in imdb().evaluation:
        sample = handle.encode(example)
        if abs(len(sample) - TOKENS) <= 5:
            found.append(sample)
        if len(found) == 4:
            break
    return Subject(name, backend, tuple(found))


def wide(tokens: Tokens, name: str) -> HFBackend:
    import transformers as hf

    layers, width = WIDE[name]
    config = hf.BertConfig(
        vocab_size=8000, num_hidden_layers=layers, hidden_size=width, intermediate_size=4 * width, num_labels=2
    )

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = hf.BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2.0)  # so that tokens matter
    return HFBackend(module.eval(), tokens, name=name, class_names=("negative", "positive"))


def peak() -> float:
    """Floating point operations per second of the best of a few large single-precision matrix products."""
    best = 0.0
    for rows, inner, columns in ((2048, 768, 3072), (2048, 3072, 768), (2048, 2048, 2048)):
        a, b = torch.randn(rows, inner), torch.randn(inner, columns)
        for _ in range(6):
            start = time.perf_counter()
            torch.mm(a, b)
            best = max(best, 2 * rows * inner * columns / (time.perf_counter() - start))
    return best


def others_busy(seconds: float = 1.0) -> float:
    """The share of the processors that others use while this process sleeps; 0 where the system does not say."""

    def used() -> float:
        ticks = [float(part) for part in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
        return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") - time.process_time()

    if not Path("/proc/stat").exists():
        return 0.0
    before = used()
    time.sleep(seconds)
    return max(0.0, (used() - before) / seconds / (os.cpu_count() or 1))
