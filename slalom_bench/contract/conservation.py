"""What layer-wise relevance propagation promises: relevance is passed on, neither made nor lost."""

from __future__ import annotations

import torch

from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import TorchBackend
from slalom_bench.contract.candidate import Candidate
from slalom_bench.contract.harness import NotApplicable, Violation, run, text
from slalom_bench.errors import Unsupported
from slalom_bench.handle.classifier import Classifier

DECODERS = {"bloom": "dense", "gpt2": "c_proj"}
"""Without special tokens, so that all relevance arrives at words; and their map behind attention."""
EXACTLY = 1e-4
"""The share of the log-odds that a sum in float32 may miss."""


def unbiased(architecture: str, *, attention: bool) -> TorchBackend:
    """A random decoder without biases and positions, with or without what its attention adds."""
    backend = random_backend(architecture, scale=4.0)
    with torch.no_grad():
        for name, parameter in backend.module.named_parameters():
            behind_attention = ("attn" in name or "attention" in name) and DECODERS[architecture] in name
            if name.endswith("bias") or "wpe" in name or (behind_attention and not attention):
                parameter.zero_()
    return backend


def missing(candidate: Candidate, architecture: str, *, attention: bool) -> tuple[float, float]:
    """The shares of the log-odds by which scores miss it, and by which the diagnostics say that they do."""
    classifier = Classifier(unbiased(architecture, attention=attention))
    explanation, _, sample = run(candidate, classifier, text())
    (full,) = classifier.log_odds([sample.ids])
    gap = float(explanation.scores[explanation.primary].sum() - full)
    return gap / abs(full), float(explanation.diagnostics.get("conservation_gap", 0.0)) / abs(full)


def conservation(candidate: Candidate) -> str:
    """Words' relevance adds up to the log-odds where it can go nowhere else; what a softmax keeps is told.

    Without attention all of it must arrive. Published rules for attention may leave some in the constant part of a
    softmax: that must be the `conservation_gap` (sum of relevance - log-odds) of the diagnostics.
    """
    if candidate.family != "lrp":
        raise NotApplicable("no relevance propagation (family lrp)")
    facts = []
    for architecture in DECODERS:
        try:
            plain, _ = missing(candidate, architecture, attention=False)
            gap, told = missing(candidate, architecture, attention=True)
        except Unsupported:
            continue
        fact = f"{architecture}: {plain:.1g} of the log-odds without attention, {gap:.2g} with it ({told:.2g} told)"
        if abs(plain) > EXACTLY or abs(gap - told) > EXACTLY:
            raise Violation(f"relevance is made or lost, {fact}; at most {EXACTLY:g}, or told")
        facts.append(fact)
    if not facts:
        raise NotApplicable(f"takes none of {', '.join(DECODERS)}: special tokens and positions would take a share")
    return "made or lost, " + "; ".join(facts)
