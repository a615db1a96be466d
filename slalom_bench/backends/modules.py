"""Copies of torch modules that share what they do not change: twins to be rewired, cascades of randomised ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from slalom_bench.core.seeds import generator


def twin(module: nn.Module) -> nn.Module:
    """A structural copy that shares every parameter and buffer: free to be rewired, the original never changes."""
    shared = {id(t): t for t in (*module.parameters(), *module.buffers())}
    return copy.deepcopy(module, shared)


def parts_from_the_top(module: nn.Module) -> list[list[str]]:
    """Names of the parameters of each part, in the order in which a cascade randomises them.

    Of a module with a list of layers (the `nn.ModuleList` with the most parameters): what was registered behind them
    (head, pooler, last norm), each layer from the last to the first, what was registered before them (embeddings). Of
    any other: its direct children, last to first.

    >>> parts_from_the_top(nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 1)))
    [['1.weight', '1.bias'], ['0.weight']]
    """
    names = [name for name, _ in module.named_parameters()]
    every = [(name, found) for name, found in module.named_modules() if isinstance(found, nn.ModuleList)]
    lists = [(name, found) for name, found in every if any(True for _ in found.parameters())]
    if not lists:
        children = dict.fromkeys(name.partition(".")[0] for name in names)
        return [[name for name in names if name.partition(".")[0] == child] for child in reversed(children)]
    prefix, layers = max(lists, key=lambda item: sum(p.numel() for p in item[1].parameters()))
    inside = [f"{prefix}.{i}." for i in range(len(layers))]
    found = [[name for name in names if name.startswith(start)] for start in inside]
    blocks = [block for block in found if block]
    first, last = names.index(blocks[0][0]), names.index(blocks[-1][-1])
    return [part for part in (names[last + 1 :], *reversed(blocks), names[:first]) if part]


def cascade(module: nn.Module, seed: int) -> Iterator[nn.Module]:
    """Twins of a module whose top 1, 2, ... all parts have parameters drawn anew (Adebayo et al. 2018, section 3).

    A parameter is drawn from the normal law of its own mean and standard deviation over its entries, so that nothing
    that was learnt is left but the scale, and activations keep their size whatever the architecture. Its draw depends
    on seed and name alone; all twins share it. A tensor of one entry has no spread and stays.

    Args:
        module: never changed.
        seed: of the draws.
    """
    drawn: dict[str, nn.Parameter] = {}
    parameters = dict(module.named_parameters())
    for part in parts_from_the_top(module):
        drawn |= {name: _redrawn(parameters[name], seed, name) for name in part}
        made = twin(module)
        for name, parameter in drawn.items():
            owner, _, last = name.rpartition(".")
            setattr(made.get_submodule(owner), last, parameter)
        yield made


def _redrawn(parameter: nn.Parameter, seed: int, name: str) -> nn.Parameter:
    values = parameter.detach().float()
    noise = generator(seed, "randomise", name).standard_normal(tuple(parameter.shape), np.float32)
    spread = float(values.std(correction=0))
    new = float(values.mean()) + spread * torch.from_numpy(np.asarray(noise, np.float32))
    return nn.Parameter(new.to(parameter.device, parameter.dtype), requires_grad=parameter.requires_grad)
