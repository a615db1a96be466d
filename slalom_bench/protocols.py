"""The two protocols of an explainer: `bench` (one explained quantity for all) and `paper` (as it was published).

An explainer that was published otherwise takes a parameter `protocol`; a run in the paper protocol sets it.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.errors import InvalidInput

if TYPE_CHECKING:
    import torch

    from slalom_bench.classifier import Differentiable
    from slalom_bench.specs import Ref

PROTOCOLS = ("bench", "paper")


def is_paper(protocol: str) -> bool:
    """Whether to work as published; a protocol that does not exist is refused."""
    if protocol not in PROTOCOLS:
        raise InvalidInput(f"unknown protocol {protocol!r}; one of {', '.join(PROTOCOLS)}")
    return protocol == "paper"


def build_explainer(ref: Ref, protocol: str) -> Any:
    """The explainer with its parameters, told of the paper protocol if it knows one and was not told otherwise.

    The protocol is part of a cell's identity already, so it is added here and not to the parameters of the suite.
    """
    entry = registry.get("explainer", ref.name)
    told = is_paper(protocol) and "protocol" in inspect.signature(entry.factory).parameters
    return entry.build({"protocol": protocol, **ref.params} if told else ref.params)


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
