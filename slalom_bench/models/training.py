"""One training loop for every torch classifier: seeded, resumable at any time, the best checkpoint kept, no pickles."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench.core.options import Say
from slalom_bench.core.sequences import Places, Ragged
from slalom_bench.core.tokens import Tokens, encode_all
from slalom_bench.core.types import Example, Ints
from slalom_bench.data.splits import text_hash
from slalom_bench.errors import InvalidInput
from slalom_bench.models.training_progress import estimate_of, progress

if TYPE_CHECKING:
    import torch

    from slalom_bench.backends.torch_backend import TorchBackend
    from slalom_bench.models.training_state import Trained, TrainingReport

VERSION = 2
"""Part of every cache key: goes up when the loop below would give other weights."""
_SAVE_EVERY = 60.0
"""Seconds between saved states inside an epoch."""


@dataclass(frozen=True)
class Recipe:
    """Hyper-parameters of a training; all of them are part of the trained model's cache key."""

    epochs: int = 2
    learning_rate: float = 5e-5
    batch_size: int = 16
    max_tokens: int = 256
    seed: int = 0
    validation: float = 0.05
    """Share of the training texts, chosen by a hash of the text, that picks the best epoch and is not trained on."""
    warmup: float = 0.1
    weight_decay: float = 0.01
    token_drop: float = 0.0
    """Share of the tokens deleted at random from a training text: robustness to the deletions explainers make."""
    window: float = 0.0
    """Share of the too long training texts that are cut at a random place instead of at their start."""
    long_share: float = 0.0
    """Share of the training texts that are read up to `long_tokens`, so that late positions are trained too."""
    long_tokens: int = 510
    short_epochs: int = 0
    """How many first epochs read texts of half the length: cheap, and enough to learn the words."""
    position_jitter: float = 0.0
    """Share of the training texts whose tokens stand at random positions, in order: a place by itself says nothing."""
    position_rate: float = 1.0
    """Learning rate of the table of positions, as a share of the others': each row learns from few texts, so that what
    it learns at the full rate is noise, other than its neighbours'."""
    prefix_loss: float = 0.0
    """Weight of the loss at every earlier position of a last-token classifier: each prefix predicts the label."""
    averaged: float = 0.0
    """Share of the steps, the last ones, whose mean of weights is what the last epoch leaves: it errs less than the
    weights of any one step."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_tokens"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise InvalidInput(f"learning_rate must be positive, not {self.learning_rate}")
        if not 0 < self.validation < 1:
            raise InvalidInput(f"validation must be a share between 0 and 1, not {self.validation}")
        if not 0 <= self.averaged <= 1:
            raise InvalidInput(f"averaged must be a share from 0 to 1, not {self.averaged}")

    def recorded(self) -> dict[str, Any]:
        """As it stands in records and cache keys: without `averaged` where nothing is, as before there was such."""
        return {name: value for name, value in asdict(self).items() if name != "averaged" or value}


@dataclass(frozen=True)
class Labelled:
    """Content id sequences (no special tokens) and their classes."""

    sequences: Sequence[Ints]
    labels: Ints

    def __len__(self) -> int:
        return len(self.labels)


# ---- data ----


def labelled(tokens: Tokens, examples: Sequence[Example], limit: int) -> Labelled:
    """Examples in a model's tokens; every one needs a label."""
    for example in examples:
        if example.label is None:
            raise InvalidInput(f"example {example.id} has no label; training and accuracy need one")
    sequences = [ids[:limit] for ids in encode_all(tokens, [example.text for example in examples])]
    kept = [i for i, sequence in enumerate(sequences) if len(sequence)]
    labels = np.array([examples[i].label for i in kept], np.int64)
    return Labelled([sequences[i] for i in kept], labels)


def split_validation(examples: Sequence[Example], share: float) -> tuple[list[Example], list[Example]]:
    """(training, validation) by a hash of the text: seed-free, and equal texts fall on one side."""
    parts: tuple[list[Example], list[Example]] = ([], [])
    for example in examples:
        digest = hashlib.sha256(f"validation {text_hash(example.text)}".encode()).digest()
        parts[int.from_bytes(digest[:8], "big") < share * 2**64].append(example)
    if not parts[0] or not parts[1]:
        raise InvalidInput(f"{len(examples)} training examples are too few to hold out a share of {share}")
    return parts


def with_special_tokens(tokens: Tokens, sequence: Ints) -> Ints:
    """A content sequence between the special tokens of the template."""
    return np.concatenate([np.asarray(tokens.prefix, np.int64), sequence, np.asarray(tokens.suffix, np.int64)])


def perturbed(sequence: Ints, recipe: Recipe, epoch: int, rng: np.random.Generator) -> Ints:
    """A training view of a text: its start or a random window, some tokens deleted, never empty."""
    if epoch < recipe.short_epochs:
        limit = max(1, recipe.max_tokens // 2)
    else:
        limit = recipe.long_tokens if rng.random() < recipe.long_share else recipe.max_tokens
    spare = len(sequence) - limit
    start = int(rng.integers(spare + 1)) if spare > 0 and rng.random() < recipe.window else 0
    view = sequence[start : start + limit]
    if not recipe.token_drop:
        return view
    keep = rng.random(len(view)) >= recipe.token_drop
    return view[keep] if keep.any() else view[:1]


def placed(views: Sequence[Ints], recipe: Recipe, rng: np.random.Generator) -> Ragged:
    """Training views, a share of them (`position_jitter`) at a sorted random choice of a random number of positions."""
    laid = Ragged.of(views)
    if not recipe.position_jitter:
        return laid
    spans, places = laid.lengths.copy(), []
    for i, length in enumerate(laid.lengths):
        if rng.random() < recipe.position_jitter:
            spans[i] = rng.integers(length, max(length, recipe.long_tokens) + 1)
        places.append(np.sort(rng.choice(spans[i], length, replace=False)))
    return Ragged(laid.ids, laid.lengths, Places(np.concatenate(places), spans))


def batches(data: Labelled, recipe: Recipe, epoch: int, rng: np.random.Generator) -> Iterator[tuple[Ragged, Ints]]:
    """One shuffled epoch in batches of similar length (sorted within chunks of 50 batches)."""
    views = [perturbed(sequence, recipe, epoch, rng) for sequence in data.sequences]
    order = rng.permutation(len(data))
    chunk = 50 * recipe.batch_size
    lengths = np.array([len(view) for view in views])
    rows: list[Ints] = []
    for start in range(0, len(order), chunk):
        part = order[start : start + chunk]
        part = part[np.argsort(lengths[part], kind="stable")]
        rows += [part[i : i + recipe.batch_size] for i in range(0, len(part), recipe.batch_size)]
    for i in rng.permutation(len(rows)):
        yield placed([views[j] for j in rows[i]], recipe, rng), data.labels[rows[i]]


# ---- the loop ----


def batch_loss(backend: TorchBackend, sequences: Ragged, labels: Ints, prefix_loss: float) -> torch.Tensor:
    """Cross-entropy of a batch, plus that of every prefix for last-token classifiers if asked for."""
    import torch
    from torch.nn.functional import cross_entropy

    from slalom_bench.backends.torch_backend import pad_batch, two_columns

    laid = sequences.pick(slice(None), backend.tokens.prefix, backend.tokens.suffix)
    padded, mask = pad_batch(laid, backend.tokens.pad_id)
    device = next(backend.module.parameters()).device
    ids, attended = torch.from_numpy(padded).to(device), torch.from_numpy(mask).to(device)
    more = {name: torch.from_numpy(array).to(device) for name, array in backend.more_inputs(laid).items()}
    target = torch.from_numpy(labels).to(device)
    if not prefix_loss:
        logits = backend.forward(backend.module, None if mask.all() and not more else attended, input_ids=ids, **more)
        return cross_entropy(two_columns(logits), target)
    module: Any = backend.module
    hidden = module.base_model(input_ids=ids, attention_mask=attended, use_cache=False, **more)[0]
    last = attended.sum(dim=1) - 1
    loss = cross_entropy(two_columns(module.score(hidden[torch.arange(len(ids), device=device), last])), target)
    every = cross_entropy(
        two_columns(module.score(hidden).flatten(0, 1)), target.repeat_interleave(ids.shape[1]), reduction="none"
    )
    # a long prefix says more than a short one: weigh it by its length
    weight = (attended * torch.arange(1, ids.shape[1] + 1, device=device)).flatten()
    return loss + prefix_loss * (every * weight).sum() / weight.sum()


def evaluate(backend: TorchBackend, data: Labelled, batch_tokens: int = 16384) -> tuple[float, float]:
    """(accuracy, mean cross-entropy) of content sequences."""
    from scipy.special import logsumexp

    from slalom_bench.handle.packing import pack

    order = np.argsort([-len(sequence) for sequence in data.sequences], kind="stable")
    sequences = [with_special_tokens(backend.tokens, data.sequences[i]) for i in order]
    logits = np.concatenate(
        [backend.logits(sequences[part]) for part in pack([len(s) for s in sequences], batch_tokens)]
    ).astype(np.float64)
    labels = data.labels[order]
    loss = logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels]
    return float((logits.argmax(axis=1) == labels).mean()), float(loss.mean())


def rate(step: int, steps: int, recipe: Recipe) -> float:
    """Linear warm-up, then linear decay to zero."""
    warm = max(1, round(recipe.warmup * steps))
    share = (step + 1) / warm if step < warm else (steps - step) / max(1, steps - warm)
    return recipe.learning_rate * share


def _adamw(backend: TorchBackend, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW, with weight decay for matrices only; a group's `share` is that of the learning rate."""
    import torch

    trained = [p for p in backend.module.parameters() if p.requires_grad]
    table = backend.position_table()
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p.dim() > 1 and p is not table], "weight_decay": recipe.weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [{**group, "share": 1.0} for group in groups]
    if table is not None:
        groups.append({"params": [table], "weight_decay": recipe.weight_decay, "share": recipe.position_rate})
    return torch.optim.AdamW(groups, lr=recipe.learning_rate)


def best_of(history: Sequence[Mapping[str, float]], texts: int) -> int:
    """Which epoch is kept: the last one whose accuracy is within a standard error of the best, or the least loss.

    A smaller difference says nothing, and the later epoch has learnt more at a lower rate.

    Args:
        history: of the epochs, with their accuracy and loss.
        texts: that the accuracy is of; 0 for the least loss.

    >>> best_of([{"accuracy": 0.8}, {"accuracy": 0.885}, {"accuracy": 0.884}], 1000)
    2
    >>> best_of([{"accuracy": 0.9}, {"accuracy": 0.885}], 1000)
    0
    """
    if not texts:
        return min(range(len(history)), key=lambda epoch: history[epoch]["loss"])
    best = max(row["accuracy"] for row in history)
    near = best - float(np.sqrt(best * (1 - best) / texts))
    return max(epoch for epoch, row in enumerate(history) if row["accuracy"] >= near)


def fit(
    backend: TorchBackend,
    train: Callable[[int], Labelled],
    validation: Labelled,
    recipe: Recipe,
    state: Path,
    say: Say = print,
    by_loss: bool = False,
) -> TrainingReport:
    """Train `backend.module` in place and leave it at its best epoch, in evaluation mode.

    The best epoch is that of `best_of`; with `by_loss` (labels drawn at random from the true log-odds, so that accuracy
    says little) that of the lowest validation loss. `train(epoch)` gives an epoch's data (always
    the same, or fresh). `state` holds what was done a minute ago at most: a killed training continues from it with the
    very result of an undisturbed one.

    Args:
        backend: whose module is trained.
        train: the data of an epoch.
        validation: the data that choose the best epoch.
        recipe: hyper-parameters.
        state: a directory for what a killed training continues from.
        say: takes lines of progress.
        by_loss: whether the best epoch is that of the lowest validation loss.
    """
    from torch.optim.swa_utils import AveragedModel

    from slalom_bench.models.training_state import Trained, read_weights

    module = backend.module
    trained = Trained(module, _adamw(backend, recipe), AveragedModel(module) if recipe.averaged else None)
    report = trained.restore(state)
    if report.history or report.losses:
        batch = f" and batch {len(report.losses)} of the next" if report.losses else ""
        say(f"continuing after epoch {len(report.history)} of {recipe.epochs}{batch}")
    for epoch in range(len(report.history), recipe.epochs):
        row = _epoch(backend, trained, train(epoch), recipe, say, report, state)
        if trained.mean is not None and epoch == recipe.epochs - 1:
            module.load_state_dict(trained.mean.module.state_dict())
        row["accuracy"], row["loss"] = evaluate(backend, validation)
        report.history.append(row)
        report.losses, report.spent = [], 0.0
        # short epochs only count until there is one that has trained every position
        first = recipe.short_epochs if epoch >= recipe.short_epochs else 0
        report.best_epoch = first + best_of(report.history[first:], 0 if by_loss else len(validation))
        say(
            f"epoch {epoch + 1}/{recipe.epochs}: train loss {row['train_loss']:.4f}, validation accuracy "
            f"{row['accuracy']:.4f}, loss {row['loss']:.4f} ({row['seconds']:.0f} s)"
        )
        trained.save(report, state)
    read_weights(module, state / "best.safetensors")
    module.eval()
    return report


def _epoch(
    backend: TorchBackend,
    trained: Trained,
    data: Labelled,
    recipe: Recipe,
    say: Say,
    report: TrainingReport,
    state: Path,
) -> dict[str, float]:
    """One pass, or the rest of one; all randomness comes from (seed, epoch), so that a resumed training repeats it."""
    import torch

    from slalom_bench.models.training_state import restore_generators

    module, epoch, losses, optimizer = backend.module, len(report.history), report.losses, trained.optimizer
    rng = np.random.default_rng(np.random.SeedSequence([recipe.seed, epoch]))
    per_epoch = sum(
        -(-min(50 * recipe.batch_size, len(data) - i) // recipe.batch_size)
        for i in range(0, len(data), 50 * recipe.batch_size)
    )
    steps, begun = per_epoch * recipe.epochs, len(losses)
    start = saved = time.perf_counter()
    module.train()
    with torch.random.fork_rng(), progress(f"epoch {epoch + 1}/{recipe.epochs}", per_epoch, begun, say) as advance:
        torch.manual_seed(int(rng.integers(2**31)))
        if begun:
            restore_generators(state)
        estimate = estimate_of(steps, say) if epoch == begun == 0 else None
        for i, (sequences, labels) in enumerate(batches(data, recipe, epoch, rng)):
            if i < begun:  # drawn again, so that the generator stands where it stood
                continue
            for group in optimizer.param_groups:
                group["lr"] = group["share"] * rate(epoch * per_epoch + i, steps, recipe)
            loss = batch_loss(backend, sequences, labels, recipe.prefix_loss)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            if trained.mean is not None and epoch * per_epoch + i >= round((1 - recipe.averaged) * (steps - 1)):
                trained.mean.update_parameters(module)
            losses.append(loss.item())
            advance(float(np.mean(losses[-50:])))
            if estimate is not None:
                estimate(i + 1)
            if (now := time.perf_counter()) - saved > _SAVE_EVERY:
                report.spent, start, saved = report.spent + now - start, now, now
                trained.save(report, state)
    module.eval()
    return {"train_loss": float(np.mean(losses)), "seconds": report.spent + time.perf_counter() - start}
