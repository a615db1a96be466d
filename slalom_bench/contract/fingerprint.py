"""What a torch model is made of, down to the functions it calls, to prove that nothing changed it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from slalom_bench.backends.torch_backend import weights_hash

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
)
FUNCTIONS = ("softmax", "layer_norm", "gelu", "linear", "embedding", "scaled_dot_product_attention", "dropout")
"""Functions of torch.nn.functional that methods with changed backward rules are known to replace."""


def fingerprint(module: nn.Module) -> dict[str, Any]:
    """Comparable facts by name: weights, structure, classes, hooks, modes, gradients, torch's own functions."""
    parts = list(module.named_modules())
    return {
        "weights": weights_hash(module),
        "module classes": [(name, type(part)) for name, part in parts],
        "module methods": [(name, type(part).forward, vars(part).get("forward")) for name, part in parts],
        "configuration": str(getattr(module, "config", "")),
        "hooks": [(name, [len(getattr(part, kind)) for kind in HOOKS]) for name, part in parts],
        "training flags": [(name, part.training) for name, part in parts],
        "requires_grad flags": [(name, p.requires_grad) for name, p in module.named_parameters()],
        "gradients": [(name, p.grad is None) for name, p in module.named_parameters()],
        "torch functions": [getattr(torch.nn.functional, name) for name in FUNCTIONS],
        "torch modes": (torch.is_grad_enabled(), torch.get_default_dtype()),
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of the facts that changed."""
    return [name for name in before if before[name] != after[name]]
