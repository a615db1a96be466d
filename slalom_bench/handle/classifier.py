"""The classifier handle: the only way to query a model, the same answer whatever the batch, every query counted."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.removal import Delete, Removal
from slalom_bench.core.sequences import Keys, Ragged, distinct
from slalom_bench.core.tokens import Tokens, encode
from slalom_bench.core.types import Bools, Cost, Example, Floats, Ints, Sample
from slalom_bench.errors import BudgetExceeded, InvalidInput, Unsupported
from slalom_bench.handle.backend import Backend, Differentiable, OutOfMemory
from slalom_bench.handle.cache import QueryCache
from slalom_bench.handle.packing import pack
from slalom_bench.handle.threads import one_algebra_thread

if TYPE_CHECKING:
    import torch

Sequences = Sequence[Ints] | Ints
"""Vectors of ids, or the rows of a matrix of ids."""


class Classifier:
    """A backend with batching, a cache, counters, a removal rule and a target class."""

    def __init__(
        self, backend: Backend, *, token_budget: int | None = None, removal: Removal | None = None, cache: bool = True
    ) -> None:
        if token_budget is not None and token_budget < 1:
            raise InvalidInput(f"the token budget must be positive, not {token_budget}")
        self.backend = backend
        self.removal: Removal = removal or Delete()
        self.target = 1
        self.total = Cost()
        self._budgets: list[tuple[Cost, int | None]] = []
        self._cache = QueryCache() if cache else None
        self._packing = {"token_budget": token_budget or backend.token_budget}
        self._identity: str | None = None

    # ---- what it is ----

    @property
    def name(self) -> str:
        return self.backend.name

    @property
    def tokens(self) -> Tokens:
        return self.backend.tokens

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.backend.class_names

    @property
    def capabilities(self) -> frozenset[str]:
        return self.backend.capabilities

    @property
    def token_budget(self) -> int:
        """Padded tokens per batch, after any halving that memory made necessary."""
        return self._packing["token_budget"]

    @property
    def max_content(self) -> int | None:
        """How many content tokens fit between the special tokens."""
        if self.backend.max_length is None:
            return None
        return self.backend.max_length - len(self.tokens.prefix) - len(self.tokens.suffix)

    @property
    def content(self) -> slice:
        """Where the content tokens stand in a whole sequence."""
        return slice(len(self.tokens.prefix), -len(self.tokens.suffix) or None)

    @property
    def empty_allowed(self) -> bool:
        """Whether a sequence without content still has a token to classify."""
        return bool(self.tokens.prefix or self.tokens.suffix)

    def identity(self) -> str:
        if self._identity is None:
            self._identity = self.backend.identity()
        return self._identity

    def require(self, *capabilities: str) -> None:
        if missing := sorted(set(capabilities) - self.capabilities):
            raise Unsupported(f"model {self.name} gives no {' or '.join(missing)}")

    def targeting(self, target: int) -> Classifier:
        """The same handle (cache, counters, batches) explaining the log-odds of another class."""
        if not 0 <= target < len(self.class_names):
            raise InvalidInput(f"class {target} of {len(self.class_names)}: {', '.join(self.class_names)}")
        view = copy.copy(self)
        view.target = target
        return view

    def bare(self) -> Classifier:
        """The same handle (counters, batches, target) on content alone, as some methods were published.

        No special token is put round a sequence; answers are remembered apart, for as long as the view lives.
        """
        view = copy.copy(self)
        view.backend = copy.copy(self.backend)
        view.backend.tokens = copy.copy(self.tokens)
        view.backend.tokens.prefix = view.backend.tokens.suffix = ()
        view._cache = None if self._cache is None else QueryCache()
        view._identity = None
        return view

    def default_target(self, sample: Sample) -> int:
        """Class 1 of two; of more, the class the model predicts for the whole sample."""
        return 1 if len(self.class_names) == 2 else int(self.logits([sample.ids])[0].argmax())

    def encode(self, example: Example, max_tokens: int | None = None) -> Sample:
        """An example in this model's tokens, cut to what the model takes; the sample says by how much."""
        limits = [limit for limit in (max_tokens, self.max_content) if limit is not None]
        return encode(self.tokens, example, min(limits, default=None))

    # ---- counting ----

    @contextmanager
    def work(self, budget: int | None = None) -> Iterator[Cost]:
        """Count one piece of work from a fresh cache scope; more than `budget` queries is an error."""
        if self._cache is not None:
            self._cache.new_scope()
        cost = Cost()
        self._budgets.append((cost, budget))
        start = time.perf_counter()
        try:
            with one_algebra_thread():
                yield cost
        finally:
            cost.seconds = time.perf_counter() - start
            self._budgets.pop()
            if self._cache is not None:
                self._cache.new_scope()

    def _count(self, **amounts: float) -> None:
        for cost in (self.total, *(cost for cost, _ in self._budgets)):
            counters = vars(cost)
            for name, amount in amounts.items():
                counters[name] += amount

    def _ask(self, queries: int) -> None:
        self._count(queries=queries)
        for cost, budget in self._budgets:
            if budget is not None and cost.queries > budget:
                raise BudgetExceeded(f"{cost.queries} model queries for a budget of {budget}")

    # ---- log-odds and probabilities ----

    def log_odds(self, sequences: Sequences, target: int | None = None) -> Floats:
        """F_c = l_c - logsumexp of the other logits, for content sequences of any length and number."""
        logits = self.logits(sequences)
        c = self.target if target is None else target
        if logits.shape[1] == 2:
            return logits[:, c] - logits[:, (c + 1) % 2]
        return logits[:, c] - np.logaddexp.reduce(np.delete(logits, c, axis=1), axis=1)

    def probabilities(self, sequences: Sequences) -> Floats:
        logits = self.logits(sequences)
        return np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    def masked_log_odds(self, sample: Sample, keep: Bools) -> Floats:
        """Log-odds of what keep-masks leave of a sample under this handle's removal rule."""
        return self.log_odds(self.mask(sample, keep))

    def mask(self, sample: Sample, keep: Bools) -> Ragged:
        return self.removal.apply(sample.ids, keep, self.tokens)

    def logits(self, sequences: Sequences) -> Floats:
        """Logits (m x classes) in float64, each distinct sequence computed once."""
        contents = Ragged.of(sequences)
        self._ask(len(contents))
        if not len(contents):
            return np.empty((0, len(self.class_names)))
        keys = contents.keys()
        rows, places = distinct(keys, contents.lengths)
        keys = keys.take(rows, axis=0)
        known = {} if self._cache is None else self._cache.known(keys)
        self._count(hits=len(contents) - len(rows) + len(known))
        if not known:
            return self._answer(keys, contents, rows).take(places, axis=0)
        answers, unknown = np.empty((len(rows), len(self.class_names))), np.ones(len(rows), np.bool_)
        unknown[list(known)] = False
        answers[~unknown] = list(known.values())
        if len(known) < len(rows):
            answers[unknown] = self._answer(keys[unknown], contents, rows[unknown])
        return answers.take(places, axis=0)

    def _answer(self, keys: Keys, contents: Ragged, rows: Ints) -> Floats:
        if self._cache is None:
            return self._compute(self._whole(contents, rows))
        name = self._cache.name(keys)
        if (known := self._cache.get_set(name)) is not None:
            answers, seconds = known
            self._count(hits=len(keys), saved_seconds=seconds)
        else:
            before = self.total.model_seconds
            answers = self._compute(self._whole(contents, rows))
            self._cache.put_set(name, answers, self.total.model_seconds - before)
        self._cache.remember(keys, answers)
        return answers

    def _whole(self, contents: Sequences, rows: Ints | slice = slice(None)) -> Ragged:
        """The content sequences of these rows inside the tokenizer's special-token template."""
        whole = Ragged.of(contents).pick(rows, self.tokens.prefix, self.tokens.suffix)
        if not whole.lengths.min():
            raise InvalidInput(f"an empty sequence: model {self.name} adds no special token; keep at least one token")
        longest = int(whole.lengths.max())
        if self.backend.max_length is not None and longest > self.backend.max_length:
            raise InvalidInput(
                f"a sequence of {longest} tokens, special ones included; model {self.name} takes "
                f"{self.backend.max_length}: encode with max_tokens={self.max_content}"
            )
        return whole

    def _compute(self, sequences: Ragged) -> Floats:
        out = np.empty((len(sequences), len(self.class_names)))
        done = 0
        while done < len(sequences):
            rest = sequences[done:]
            for part in pack(rest.lengths, self.token_budget, pads=self.backend.pads):
                try:
                    out[done : done + part.stop - part.start] = self._batch(rest[part])
                except OutOfMemory as error:
                    self._halve(rest.lengths[part], error)
                    break
                done += part.stop - part.start
        return out

    def _batch(self, sequences: Ragged) -> NDArray[np.floating]:
        start = time.perf_counter()
        try:
            logits = self.backend.logits(sequences)
        finally:
            self._count(model_seconds=time.perf_counter() - start)
        if not np.isfinite(logits).all():
            raise InvalidInput(f"model {self.name} returned a logit that is not a finite number")
        count, real = len(sequences), len(sequences.ids)
        padding = count * int(sequences.lengths[0]) - real if self.backend.pads else 0
        self._count(forwards=count, batches=1, tokens=real, padding=padding)
        return logits

    def _halve(self, lengths: Ints, error: Exception) -> None:
        if len(lengths) == 1:
            raise InvalidInput(
                f"out of memory on a single sequence of {lengths[0]} tokens on {self.backend.device}; "
                "use a smaller model, shorter samples or another device"
            ) from error
        self._packing["token_budget"] = max(1, min(self.token_budget, int(lengths[0]) * len(lengths)) // 2)

    # ---- gradients and attention ----

    def embed(self, sample: Sample) -> torch.Tensor:
        """Word embeddings (length x width) of the sample inside its template; `content` says where it stands."""
        self.require("gradients")
        return self.backend.embed(*self._whole([sample.ids]))

    def log_odds_from_embeddings(self, words: torch.Tensor, through: Differentiable | None = None) -> torch.Tensor:
        """Differentiable log-odds (batch) of word embeddings (batch x length x width); one query per row.

        One batch, as given: `gradients` packs, and captum packs by its `internal_batch_size`. `through` takes the
        place of the backend's own logits, for a rewired twin of the model.
        """
        import torch

        self.require("gradients")
        self._ask(len(words))
        start = time.perf_counter()
        try:
            logits = (through or self.backend.logits_from_embeddings)(words).double()
        finally:
            self._count(model_seconds=time.perf_counter() - start)
        self._count(forwards=len(words), batches=1, tokens=words.shape[0] * words.shape[1])
        others = torch.cat([logits[:, : self.target], logits[:, self.target + 1 :]], dim=1)
        out = logits[:, self.target] - torch.logsumexp(others, dim=1)
        if out.requires_grad and words.requires_grad:
            self._watch_backward(words, out)
        return out

    def _watch_backward(self, words: torch.Tensor, out: torch.Tensor) -> None:
        """Count backward passes and their seconds, whoever starts them (captum does so itself)."""
        started: list[float] = []

        def begin(grad: torch.Tensor) -> None:
            started.append(time.perf_counter())
            self._count(backwards=len(grad))

        def end(grad: torch.Tensor) -> None:
            self._count(model_seconds=time.perf_counter() - started.pop())

        out.register_hook(begin)
        words.register_hook(end)

    def rows_per_batch(self, length: int) -> int:
        """How many sequences of one length a gradient batch holds (a backward pass needs about twice the memory)."""
        return max(1, min(self.token_budget, self.backend.gradient_budget) // (2 * length))

    def gradients(self, words: torch.Tensor, through: Differentiable | None = None) -> tuple[Floats, torch.Tensor]:
        """Log-odds (batch) and their gradients with respect to word embeddings (batch x length x width)."""
        import torch

        values, grads = [], []
        for part in words.detach().split(self.rows_per_batch(words.shape[1])):
            leaf = part.clone().requires_grad_(True)
            out = self.log_odds_from_embeddings(leaf, through)
            (grad,) = torch.autograd.grad(out.sum(), leaf)
            values.append(out.detach())
            grads.append(grad)
        return torch.cat(values).cpu().numpy().astype(np.float64), torch.cat(grads)

    def attentions(self, sample: Sample) -> Floats:
        """Attention maps (layers x heads x length x length), template included; one query."""
        self.require("attentions")
        self._ask(1)
        (whole,) = self._whole([sample.ids])
        start = time.perf_counter()
        maps = self.backend.attentions(whole)
        self._count(model_seconds=time.perf_counter() - start, forwards=1, batches=1, tokens=len(whole))
        return np.asarray(maps, np.float64)

    def read_position(self, sample: Sample) -> int:
        """The position, in the whole sequence, whose state is classified."""
        self.require("attentions")
        return self.backend.read_position(len(self._whole([sample.ids])[0]))
