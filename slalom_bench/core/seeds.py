"""Seeds: one random generator for each thing that is drawn, whatever else is drawn before or beside it."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, *names: str) -> np.random.Generator:
    """The generator of (seed, names); order, sharding, batch size and resume never change it.

    Args:
        seed: the seed of a run.
        *names: what is drawn, e.g. a cell's key and a sample's id.

    >>> generator(0, "a").random() == generator(0, "a").random() != generator(0, "b").random()
    True
    """
    words = np.frombuffer(hashlib.sha256("\0".join(names).encode()).digest(), np.uint32)
    return np.random.default_rng(np.random.SeedSequence([seed, *(int(word) for word in words)]))
