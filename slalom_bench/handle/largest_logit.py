"""The largest logit as the explained quantity: what the published gradients and relevances explain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from slalom_bench.handle.backend import Differentiable


class LargestLogit:
    """Logits for the handle whose log-odds are the largest logit of `through`: what published gradients explain.

    `classes` says which class that was, for every row asked for so far.
    """

    def __init__(self, target: int, through: Differentiable) -> None:
        self.target = target
        self.through = through
        self.classes: list[int] = []

    def __call__(self, words: torch.Tensor) -> torch.Tensor:
        logits = self.through(words)
        largest, which = logits.max(dim=1)
        self.classes += which.tolist()
        # l_c - logsumexp of K-1 others is l_c where each of them is -log(K-1)
        out = logits.new_full(logits.shape, -math.log(logits.shape[1] - 1))
        out[:, self.target] = largest
        return out
