"""What a device asks of those that use it: waiting for its work, and what is said when its memory is full."""

from __future__ import annotations

from collections.abc import Callable

from slalom_bench.errors import InvalidInput


def synchroniser(device: str) -> Callable[[], None]:
    """Waits until the device has done everything it was given; nothing to wait for on a CPU."""
    if not device.startswith(("cuda", "mps")):
        return lambda: None
    import torch

    if device.startswith("mps"):
        return torch.mps.synchronize
    return lambda: torch.cuda.synchronize(torch.device(device))


def single_sequence(length: int, device: str) -> InvalidInput:
    """The error that nothing is left to be halved: memory ran out on a batch of one."""
    return InvalidInput(
        f"out of memory on a single sequence of {length} tokens on {device}; "
        "use a smaller model, shorter samples or another device"
    )
