"""slalom-eff against `slalom-explanations` 0.1.2 (Adam, 60 epochs, its default rate) on the same sampled sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Sample
from slalom_bench.explainers import slalom
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics.designs import Design

helpers = pytest.importorskip("slalom_explanations.slalom_helpers")
SAMPLES = 1600


class Recorder(torch.nn.Module):
    """The handle as the package calls a model; it keeps what was asked and answered."""

    def __init__(self, handle: Classifier) -> None:
        super().__init__()
        self.handle = handle
        self.asked: list[np.ndarray] = []
        self.answers: list[np.ndarray] = []

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        sequences = list(input_ids.numpy())
        answers = self.handle.log_odds(sequences)
        self.asked += sequences
        self.answers.append(answers)
        logits = np.stack([np.zeros_like(answers), answers], axis=1)
        return {"logits": torch.tensor(logits, dtype=torch.float32)}


def reference_fit(recorder: Recorder, vocabulary: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The package's own sampling (two tokens, as published) and fit; the API's other settings at their defaults."""
    model = helpers.MyLittleSLALOM(vocabulary)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        value, importance, _ = helpers.fit_sgd_rand(
            model,
            recorder,
            vocabulary,
            vocabulary,
            num_eps=60,
            lr=5e-3,
            batch_size=128,
            seq_len=2,
            use_cls=False,
            offline_ds_size=SAMPLES,
        )
    return value.double().numpy(), importance.double().numpy()


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
def test_training_error_at_or_below_the_reference(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Classifier(random_backend(architecture, seed=4))
    ids = np.arange(5, 45)
    recorder = Recorder(handle)
    value, importance = reference_fit(recorder, torch.from_numpy(ids))
    asked, answers = np.stack(recorder.asked), np.concatenate(recorder.answers)
    counts = (asked[:, :, None] == ids).sum(axis=1).astype(float)
    weights = np.exp(importance)
    reference = np.mean((counts @ (weights * value) / (counts @ weights) - answers) ** 2)

    def same_samples(*_: Any) -> slalom.ShortSequences:
        return slalom.ShortSequences(asked, Design.of_counts(counts), np.ones(len(asked)), 1)

    monkeypatch.setattr(slalom, "short_sequences", same_samples)
    ours = slalom.SlalomEff().explain(handle, Sample("s", ids), SAMPLES, np.random.default_rng(0))
    assert ours.diagnostics["converged"]
    assert ours.diagnostics["mse"] <= reference
    surrogate = ours.surrogate
    assert isinstance(surrogate, slalom.SlalomSurrogate)
    w = np.exp(surrogate.importance)
    again = np.mean((counts @ (w * surrogate.value) / (counts @ w) - answers) ** 2)
    assert again == pytest.approx(ours.diagnostics["mse"])
    print(f"{architecture}: ours {again:.3e}, reference {reference:.3e}, variance {answers.var():.3e}")
