"""Gradients of the log-odds with respect to word embeddings, packed and counted like every other query."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.types import Floats, Sample
from slalom_bench.handle.backend import Backend, Differentiable, OutOfMemory, attention_backend, gradient_backend
from slalom_bench.handle.device import single_sequence, synchroniser
from slalom_bench.handle.ledger import Ledger
from slalom_bench.handle.packing import TokenBudget
from slalom_bench.handle.template import whole

if TYPE_CHECKING:
    import torch


class Gradients:
    """Word embeddings of a sample, their log-odds, and the gradients of these. Shapes: see `Classifier`."""

    def __init__(self, backend: Backend, ledger: Ledger, budget: TokenBudget) -> None:
        self._backend = backend
        self._ledger = ledger
        self._budget = budget
        self._synchronise = synchroniser(backend.device)

    def embed(self, sample: Sample) -> torch.Tensor:
        """Word embeddings (length x width) of a sample inside its template."""
        backend = gradient_backend(self._backend)
        return backend.embed(*whole(backend, [sample.ids]))

    def log_odds(self, words: torch.Tensor, target: int, through: Differentiable | None = None) -> torch.Tensor:
        """Differentiable log-odds (batch) in float64 of word embeddings (batch x length x width): one batch."""
        self._ledger.ask(len(words))
        return self._computed(words, target, through)

    def _computed(self, words: torch.Tensor, target: int, through: Differentiable | None) -> torch.Tensor:
        """The same, of rows that were asked for already."""
        import torch

        backend = gradient_backend(self._backend)
        with self._ledger.model_time():
            logits = (through or backend.logits_from_embeddings)(words).double()
            self._synchronise()
        self._ledger.count(forwards=len(words), batches=1, tokens=words.shape[0] * words.shape[1])
        others = torch.cat([logits[:, :target], logits[:, target + 1 :]], dim=1)
        out = logits[:, target] - torch.logsumexp(others, dim=1)
        if out.requires_grad and words.requires_grad:
            self._watch_backward(words, out)
        return out

    def _watch_backward(self, words: torch.Tensor, out: torch.Tensor) -> None:
        """Count backward passes and their seconds, whoever starts them (captum does so itself)."""
        started: list[float] = []

        def begin(grad: torch.Tensor) -> None:
            started.append(time.perf_counter())
            self._ledger.count(backwards=len(grad))

        def end(grad: torch.Tensor) -> None:
            self._synchronise()
            self._ledger.count(model_seconds=time.perf_counter() - started.pop())

        out.register_hook(begin)
        words.register_hook(end)

    def rows_per_batch(self, length: int) -> int:
        """How many sequences of one length a batch holds (a backward pass needs about twice the memory)."""
        limit = gradient_backend(self._backend).gradient_budget
        return max(1, min(self._budget.tokens, limit) // (2 * length))

    def gradients(
        self, words: torch.Tensor, target: int, through: Differentiable | None = None
    ) -> tuple[Floats, torch.Tensor]:
        """Log-odds (batch) and their gradients (batch x length x width), in batches that fit."""
        import torch

        self._ledger.ask(len(words))
        length, values, grads, done = words.shape[1], [], [], 0
        while done < len(words):
            leaf = words[done : done + self.rows_per_batch(length)].detach().clone().requires_grad_(True)
            try:
                out = self._computed(leaf, target, through)
                (grad,) = torch.autograd.grad(out.sum(), leaf)
            except (OutOfMemory, torch.OutOfMemoryError) as error:
                if len(leaf) == 1:
                    raise single_sequence(length, self._backend.device) from error
                self._budget.halve([2 * length] * len(leaf))
                continue
            values.append(out.detach())
            grads.append(grad)
            done += len(leaf)
        return torch.cat(values).cpu().numpy().astype(np.float64), torch.cat(grads)

    def of_attention(self, sample: Sample, target: int) -> tuple[Floats, Floats]:
        """Attention maps (layers x heads x length x length) of a sample, and the gradients of its log-odds by them."""
        import torch

        backend = attention_backend(self._backend)
        maps: list[torch.Tensor] = []

        def through(words: torch.Tensor) -> torch.Tensor:
            logits, found = backend.attended_logits(words)
            maps.extend(found)
            return logits

        leaf = self.embed(sample)[None].requires_grad_(True)
        out = self.log_odds(leaf, target, through)
        *grads, _ = torch.autograd.grad(out.sum(), [*maps, leaf])  # down to the words, where its seconds are counted
        text = (..., slice(leaf.shape[1]), slice(leaf.shape[1]))
        found, slopes = (torch.cat(tuple(each))[text].detach().double().cpu().numpy() for each in (maps, grads))
        return found, slopes


class LargestLogit:
    """Logits for the handle whose log-odds are the largest logit of `through`: what published gradients explain.

    Given to `Classifier.gradients` as `through` by explainers in the paper protocol. `classes` says which class had
    the largest logit, for every row asked for so far.

    Args:
        target: the class whose log-odds the handle will take.
        through: the model's own differentiable logits, or a rewired twin's.
    """

    def __init__(self, target: int, through: Differentiable) -> None:
        self.target = target
        self.through = through
        self.classes: list[int] = []

    def __call__(self, words: torch.Tensor) -> torch.Tensor:
        """Logits (batch x classes) of word embeddings (batch x length x width)."""
        logits = self.through(words)
        largest, which = logits.max(dim=1)
        self.classes += which.tolist()
        # l_c - logsumexp of K-1 others is l_c where each of them is -log(K-1)
        out = logits.new_full(logits.shape, -math.log(logits.shape[1] - 1))
        out[:, self.target] = largest
        return out
