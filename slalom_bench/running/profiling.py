"""What an explanation costs: seconds in and outside the model, passes, tokens, memory, on a named machine (F.6)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slalom_bench.core.types import Cost, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.handle.device import synchroniser
from slalom_bench.interfaces import Explainer
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.provenance import cpu_name

COUNTS = ("queries", "forwards", "backwards", "batches", "tokens", "padding")


@dataclass(frozen=True)
class Spread:
    """Median and quartiles: a mean would be that of the worst interruption."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of some values."""
        low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
        return cls(float(median), float(low), float(high))


@dataclass(frozen=True)
class Timing:
    """Replicated runs of one piece of work."""

    runs: tuple[Cost, ...]

    def spread(self, part: Callable[[Cost], float] = lambda cost: cost.seconds) -> Spread:
        """The spread over the runs of one part of their cost."""
        return Spread.of([part(cost) for cost in self.runs])


def measure(
    work: Callable[[], Cost], *, warmup: int = 1, replicates: int = 5, synchronise: Callable[[], None] = lambda: None
) -> Timing:
    """Run `work` warmup + replicates times and keep the latter; the device is idle whenever the clock is read."""
    if warmup < 0 or replicates < 1:
        raise InvalidInput(f"replicates must be at least 1 and warmup at least 0, not {replicates} and {warmup}")
    runs = []
    for _ in range(warmup + replicates):
        synchronise()
        start = time.perf_counter()
        cost = work()
        synchronise()
        runs.append(Cost(**{**asdict(cost), "seconds": time.perf_counter() - start}))
    return Timing(tuple(runs[warmup:]))


@dataclass
class PeakMemory:
    """The highest memory use inside a block, and how far that is above its start."""

    kind: str
    """cuda: allocated on the device. process: resident. process-lifetime: resident, since the process started."""
    peak: int = 0
    increase: int = 0


@contextmanager
def peak_memory(device: str) -> Iterator[PeakMemory]:
    """Measure the device's memory for CUDA, else the process's."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats(torch.device(device))
        before = torch.cuda.memory_allocated(torch.device(device))
        found = PeakMemory("cuda")
        yield found
        found.peak = torch.cuda.max_memory_allocated(torch.device(device))
    else:
        found = PeakMemory("process" if _reset_high_water() else "process-lifetime")
        before = high_water()
        yield found
        found.peak = high_water()
    found.increase = max(0, found.peak - before)


def _reset_high_water() -> bool:
    """Linux can restart the process's high-water mark at its present size."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def high_water() -> int:
    """Bytes of resident memory at the mark."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def profile_explainer(
    classifier: Classifier,
    explainer: Explainer,
    samples: Sequence[Sample],
    budget: int,
    *,
    seed: int = 0,
    target: int | None = None,
    warmup: int = 1,
    replicates: int = 3,
) -> dict[str, Any]:
    """Explain every sample `replicates` times from an empty cache; spreads are over the samples' medians.

    Seconds outside the model are the method's own: sampling, fitting, packing.
    """
    if not samples:
        raise InvalidInput("nothing to profile: no samples")
    device = classifier.backend.device
    synchronise = synchroniser(device)
    load = os.getloadavg()[0]
    timings: list[Timing] = []
    with peak_memory(device) as memory:
        for i, sample in enumerate(samples):
            timings.append(
                measure(
                    lambda sample=sample: explain_once(classifier, explainer, sample, budget, seed, target),  # type: ignore[misc]
                    warmup=warmup if i == 0 else 0,
                    replicates=replicates,
                    synchronise=synchronise,
                )
            )
    parts: dict[str, Callable[[Cost], float]] = {
        "seconds": lambda cost: cost.seconds,
        "model_seconds": lambda cost: cost.model_seconds,
        "outside_seconds": lambda cost: cost.seconds - cost.model_seconds,
    }
    medians = {name: [timing.spread(part).median for timing in timings] for name, part in parts.items()}
    costs = [timing.runs[-1] for timing in timings]
    counts = {name: float(np.mean([getattr(cost, name) for cost in costs])) for name in COUNTS}
    return {
        "budget": budget,
        "samples": len(samples),
        "replicates": replicates,
        "warmup": warmup,
        "load": load,
        **{name: asdict(Spread.of(values)) for name, values in medians.items()},
        "replicate_spread": float(np.median([relative_range(timing.spread()) for timing in timings])),
        "model_share": sum(medians["model_seconds"]) / sum(medians["seconds"]),
        **counts,
        "padding_share": counts["padding"] / max(1.0, counts["tokens"] + counts["padding"]),
        "memory": asdict(memory),
        "per_sample": [
            {"id": sample.id, "length": len(sample), "seconds": [cost.seconds for cost in timing.runs]}
            for sample, timing in zip(samples, timings, strict=True)
        ],
    }


def relative_range(spread: Spread) -> float:
    """Quartile range over median: how much replicates of one and the same work differ."""
    return (spread.high - spread.low) / spread.median


def explain_once(
    classifier: Classifier, explainer: Explainer, sample: Sample, budget: int, seed: int, target: int | None = None
) -> Cost:
    """One explanation by a handle of its own, so that nothing is answered from an earlier run's cache."""
    handle = Classifier(classifier.backend, token_budget=classifier.token_budget, removal=classifier.removal)
    outcome = explain_sample(explainer, handle, sample, budget=budget, seed=seed, target=target)
    outcome.unwrap()
    return outcome.cost


def machine_fingerprint() -> dict[str, Any]:
    """What timings depend on, and an `id` that changes with any of it; timings of different ids never mix."""
    import torch

    facts = {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "ram_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "torch_threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    return {**facts, "id": hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]}


def pareto_front(points: Mapping[str, tuple[float, float]], direction: str) -> set[str]:
    """Names of the (cost, quality) points that no other point beats in one without losing in the other."""
    if direction not in ("higher", "lower"):
        raise InvalidInput(f"direction must be higher or lower, not {direction!r}")
    sign = 1.0 if direction == "lower" else -1.0
    both = {name: (cost, sign * quality) for name, (cost, quality) in points.items()}

    def beaten(name: str) -> bool:
        cost, loss = both[name]
        return any(c <= cost and x <= loss and (c, x) != (cost, loss) for c, x in both.values())

    return {name for name in both if not beaten(name)}
