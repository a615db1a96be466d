"""The state of a training: weights, optimizer, generators and report, in safetensors and JSON."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch.optim.swa_utils import AveragedModel


@dataclass
class TrainingReport:
    """What a training says of itself."""

    history: list[dict[str, float]] = field(default_factory=list)
    """One row an epoch: train loss, validation accuracy and loss, seconds."""
    best_epoch: int = -1
    losses: list[float] = field(default_factory=list)
    """Of the batches done of the epoch that is under way."""
    spent: float = 0.0
    """Seconds of these."""

    @property
    def best(self) -> dict[str, float]:
        """The row of the best epoch."""
        return self.history[self.best_epoch]

    @property
    def seconds(self) -> float:
        """Of all epochs."""
        return sum(row["seconds"] for row in self.history)


def _write_weights(module: torch.nn.Module, path: Path) -> None:
    """The weights as safetensors."""
    from safetensors.torch import save_file

    save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in module.state_dict().items()}, path)


def read_weights(module: torch.nn.Module, path: Path) -> None:
    """The weights of `save` into a module of the same shape."""
    from safetensors.torch import load_file

    module.load_state_dict(load_file(path))


@dataclass
class Trained:
    """What changes from step to step: a module, its optimizer, and the mean of its weights where one is taken."""

    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    mean: AveragedModel | None = None

    def save(self, report: TrainingReport, state: Path) -> None:
        """A whole directory, put in place by renames so that a kill leaves the old or the new; also inside an epoch."""
        from safetensors.torch import save_file

        fresh = state.with_name(state.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        _write_weights(self.module, fresh / "weights.safetensors")
        if self.mean is not None:
            _write_weights(self.mean, fresh / "mean.safetensors")
        tensors = {
            f"{i}.{key}": tensor.cpu().contiguous()
            for i, entry in self.optimizer.state_dict()["state"].items()
            for key, tensor in entry.items()
        }
        save_file(tensors, fresh / "optimizer.safetensors")
        if report.losses:
            save_file(_generators(), fresh / "generators.safetensors")
        if report.history:
            newest = not report.losses and report.best_epoch == len(report.history) - 1
            best = fresh / "weights.safetensors" if newest else state / "best.safetensors"
            shutil.copyfile(best, fresh / "best.safetensors")
        (fresh / "report.json").write_text(json.dumps(asdict(report)))
        old = state.with_name(state.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        if state.exists():
            state.rename(old)
        fresh.rename(state)
        shutil.rmtree(old, ignore_errors=True)

    def restore(self, state: Path) -> TrainingReport:
        """What was saved last, or an empty report; a kill between the two renames left it in `.old`."""
        from safetensors.torch import load_file

        old = state.with_name(state.name + ".old")
        if not state.exists() and old.exists():
            old.rename(state)
        if not (state / "report.json").exists():
            return TrainingReport()
        read_weights(self.module, state / "weights.safetensors")
        if self.mean is not None:
            read_weights(self.mean, state / "mean.safetensors")
        entries: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in load_file(state / "optimizer.safetensors").items():
            index, key = name.split(".", 1)
            entries.setdefault(int(index), {})[key] = tensor
        self.optimizer.load_state_dict({"state": entries, "param_groups": self.optimizer.state_dict()["param_groups"]})
        return TrainingReport(**json.loads((state / "report.json").read_text()))


def _generators() -> dict[str, torch.Tensor]:
    """The states of torch's generators, of the CPU and of every CUDA device."""
    import torch

    devices = {str(i): torch.cuda.get_rng_state(i) for i in range(torch.cuda.device_count())}
    return {"cpu": torch.get_rng_state(), **devices}


def restore_generators(state: Path) -> None:
    """Set torch's generators to where they stood when an epoch under way was saved."""
    import torch
    from safetensors.torch import load_file

    for name, found in load_file(state / "generators.safetensors").items():
        if name == "cpu":
            torch.set_rng_state(found)
        else:
            torch.cuda.set_rng_state(found, int(name))
