"""Seeds, and what a metric may know beside the explanation it scores."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, *names: str) -> np.random.Generator:
    """One generator per (seed, names); order, sharding, batch size and resume never change it."""
    words = np.frombuffer(hashlib.sha256("\0".join(names).encode()).digest(), np.uint32)
    return np.random.default_rng(np.random.SeedSequence([seed, *(int(word) for word in words)]))
