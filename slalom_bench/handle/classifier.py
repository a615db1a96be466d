"""The classifier handle: the only way to query a model, the same answer whatever the batch, every query counted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.removal import Delete, Removal
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.tokens import Tokens, encode
from slalom_bench.core.types import Asked, Bools, Cost, Example, Floats, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.answering import Answering, log_odds
from slalom_bench.handle.attention import Attention
from slalom_bench.handle.backend import Backend, Differentiable, require
from slalom_bench.handle.cache import QueryCache
from slalom_bench.handle.gradients import Gradients
from slalom_bench.handle.ledger import Ledger
from slalom_bench.handle.packing import TokenBudget
from slalom_bench.handle.template import Contents, content_places, max_content
from slalom_bench.handle.threads import one_algebra_thread

if TYPE_CHECKING:
    import torch

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number, by dtype."""
ROUNDING = 16
"""Other batches move the log-odds of the minis by up to 3 units in the last place."""


def class_number(target: int | str, names: Sequence[str]) -> int:
    """A class by its number or its name, out of the names of all.

    >>> class_number("pos", ("neg", "pos"))
    1
    """
    if isinstance(target, str) and target in names:
        return names.index(target)
    if isinstance(target, str) and not target.isdecimal():
        raise InvalidInput(f"no class {target!r}; one of {', '.join(names)} or its number")
    _check_class(int(target), names)
    return int(target)


def _check_class(target: int, names: Sequence[str]) -> None:
    if not 0 <= target < len(names):
        raise InvalidInput(f"class {target} of {len(names)}: {', '.join(names)}")


class Classifier:
    """A model with batching, a cache, counters, a removal rule and a target class.

    Sequences that a caller gives are *content*: the ids of a text, without special tokens. The handle puts the
    tokenizer's template ([CLS] .. [SEP], for instance) round them. What comes back per position (embeddings, gradients,
    attention maps) has the *whole* length, template included; `content` is the slice of the text in it.

    Its parts: `Ledger` counts, `Answering` gives logits, `Gradients` and `Attention` what their names say.

    Args:
        backend: the model.
        token_budget: tokens of a batch, padding included; by default what the backend proposes. Halved for good when
            memory runs out.
        removal: how masked tokens are taken out of a text; by default they are deleted.
        cache: whether answers are remembered.

    >>> from slalom_bench.backends.closed_forms import bag_of_words
    >>> classifier = Classifier(bag_of_words({"good": 1.5, "bad": -2.0}))
    >>> sample = classifier.encode(Example("a", "good bad"))
    >>> classifier.masked_log_odds(sample, [[True, True], [True, False]]).tolist()
    [-0.5, 1.5]
    >>> classifier.total.queries
    2
    """

    target: int
    """The class whose log-odds are explained."""

    def __init__(
        self, backend: Backend, *, token_budget: int | None = None, removal: Removal | None = None, cache: bool = True
    ) -> None:
        self.removal: Removal = removal or Delete()
        self.target = 1
        self._ledger = Ledger()
        self._budget = TokenBudget(backend.token_budget if token_budget is None else token_budget)
        self._remembers = cache
        self._attach(backend)

    def _attach(self, backend: Backend) -> None:
        """Ask this backend from now on: counters and batch sizes stay, what was remembered does not."""
        self.backend = backend
        self._identity: str | None = None
        self._answering = Answering(backend, self._ledger, self._budget, QueryCache() if self._remembers else None)
        self._gradients = Gradients(backend, self._ledger, self._budget)
        self._attention = Attention(backend, self._ledger)

    # ---- what it is ----

    @property
    def name(self) -> str:
        """The model's name, for messages."""
        return self.backend.name

    @property
    def tokens(self) -> Tokens:
        """The model's tokenizer."""
        return self.backend.tokens

    @property
    def class_names(self) -> tuple[str, ...]:
        """One name for each class, two at least."""
        return self.backend.class_names

    @property
    def capabilities(self) -> frozenset[str]:
        """What the model gives, out of queries, gradients, attentions, positions, lrp, values, deeplift."""
        return self.backend.capabilities

    @property
    def token_budget(self) -> int:
        """Tokens per batch, padding included, after any halving that memory made necessary."""
        return self._budget.tokens

    @token_budget.setter
    def token_budget(self, tokens: int) -> None:
        """For all views of the handle, from the next call on."""
        self._budget.tokens = tokens

    @property
    def max_content(self) -> int | None:
        """How many content tokens fit between the special tokens; None where there is no limit."""
        return max_content(self.backend)

    @property
    def content(self) -> slice:
        """Where the content tokens stand in a whole sequence: `embed(sample)[content]` are those of the text.

        Of a batch of gradients (batch x length x width) it is `grads[:, content]`.
        """
        return content_places(self.tokens)

    @property
    def empty_allowed(self) -> bool:
        """Whether a sequence without content still has a token to classify."""
        return bool(self.tokens.prefix or self.tokens.suffix)

    def rounding(self, answer: float) -> float:
        """What an answer of this size may be off by rounding: ROUNDING units in the last place of the model's dtype.

        Log-odds that differ by less are the same. An answer is a difference of logits: one near 0 has their rounding.
        """
        return ROUNDING * EPSILON.get(self.backend.dtype, EPSILON["float32"]) * max(1.0, abs(answer))

    def identity(self) -> str:
        """A hash of everything that shapes the model's answers; part of every result's key."""
        if self._identity is None:
            self._identity = self.backend.identity()
        return self._identity

    def require(self, *capabilities: str) -> None:
        """Raise `Unsupported`, with the names, for capabilities that the model lacks."""
        require(self.backend, *capabilities)

    def targeting(self, target: int) -> Classifier:
        """The same handle (cache, counters, batches) explaining the log-odds of another class."""
        _check_class(target, self.class_names)
        view = copy.copy(self)
        view.target = target
        return view

    def under(self, removal: Removal) -> Classifier:
        """The same handle (cache, counters, batches, target) taking masked tokens out by another rule."""
        view = copy.copy(self)
        view.removal = removal
        return view

    def bare(self) -> Classifier:
        """The same handle (counters, batches, target) on content alone, as some methods were published.

        No special token is put round a sequence; answers are remembered apart, for as long as the view lives.
        """
        backend = copy.copy(self.backend)
        backend.tokens = copy.copy(self.tokens)
        backend.tokens.prefix = backend.tokens.suffix = ()
        return self.on(backend)

    def on(self, backend: Backend) -> Classifier:
        """The same handle (counters, batches, target, removal rule) on another model of the same tokens and classes."""
        view = copy.copy(self)
        view._attach(backend)
        return view

    def class_number(self, target: int | str) -> int:
        """A class by its number or its name."""
        return class_number(target, self.class_names)

    def says_target(self, target: int | str | None) -> str:
        """Which class is explained, in words: the one that was asked for, or what `default_target` takes."""
        names = self.class_names
        if target is None and len(names) > 2:
            return f"the predicted one of {len(names)} classes (--target names one)"
        number = 1 if target is None else self.class_number(target)
        return f"class {number} ({names[number]}{'; --target names another' if target is None else ''})"

    def default_target(self, sample: Sample) -> int:
        """Class 1 of two; of more, the class the model predicts for the whole sample (one query)."""
        return 1 if len(self.class_names) == 2 else int(self.logits([sample.ids])[0].argmax())

    def encode(self, example: Example, max_tokens: int | None = None) -> Sample:
        """An example in this model's tokens, cut to what the model takes; the sample says by how much."""
        limits = [limit for limit in (max_tokens, self.max_content) if limit is not None]
        return encode(self.tokens, example, min(limits, default=None))

    # ---- counting ----

    @property
    def total(self) -> Cost:
        """What all queries so far have cost."""
        return self._ledger.total

    @contextmanager
    def work(self, budget: int | None = None) -> Iterator[Cost]:
        """Count one piece of work from a fresh cache scope; more than `budget` queries is an error.

        Args:
            budget: how many sequences may be asked for, duplicates included; None for any number.

        Returns:
            A context manager whose value is the cost of the work inside it.
        """
        self._answering.new_scope()
        try:
            with self._ledger.work(budget) as cost, one_algebra_thread():
                yield cost
        finally:
            self._answering.new_scope()

    def charge(self, cost: Cost) -> None:
        """Count a piece of work (`work`) that was done before as if it were done again now."""
        self._answering.new_scope()
        self._ledger.repeat(cost)

    @contextmanager
    def recording(self) -> Iterator[Callable[[], Asked]]:
        """Record which content sequences are asked for inside the block.

        Returns:
            A context manager whose value is a function that gives their keys so far, sorted, each once.
        """
        with self._ledger.recording() as asked:
            yield asked

    # ---- answers ----

    def logits(self, sequences: Contents) -> Floats:
        """Answer content sequences of any length and number, each distinct one computed once.

        Args:
            sequences: m vectors of content ids, or a matrix of them; one query each.

        Returns:
            Logits (m x classes) in float64.
        """
        return self._answering.logits(sequences)

    def log_odds(self, sequences: Contents, target: int | None = None) -> Floats:
        """The explained quantity, F_c = l_c - logsumexp of the other logits: with two classes l_c - l_other.

        Args:
            sequences: m vectors of content ids, or a matrix of them; one query each.
            target: the class c; by default the handle's own.

        Returns:
            Log-odds (m) in float64.
        """
        return log_odds(self.logits(sequences), self.target if target is None else target)

    def probabilities(self, sequences: Contents) -> Floats:
        """The softmax of `logits` (m x classes)."""
        logits = self.logits(sequences)
        return np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    def masked_log_odds(self, sample: Sample, keep: Bools) -> Floats:
        """Log-odds (m) of what keep-masks (m x n, True where a token stays) leave of a sample of n tokens."""
        return self.log_odds(self.mask(sample, keep))

    def mask(self, sample: Sample, keep: Bools) -> Ragged:
        """The content sequences that keep-masks (m x n) leave of a sample under this handle's removal rule."""
        return self.removal.apply(sample.ids, keep, self.tokens)

    # ---- gradients and attention ----

    def embed(self, sample: Sample) -> torch.Tensor:
        """Word embeddings of a sample: rows of the model's embedding table, without positions or token types.

        Args:
            sample: n content tokens.

        Returns:
            A new tensor (length x width) without gradient, on the model's device and in its dtype. The length is that
            of the whole sequence: the template's embeddings stand round those of the text, which are `[content]`.
            Not a query.
        """
        return self._gradients.embed(sample)

    def gradients(self, words: torch.Tensor, through: Differentiable | None = None) -> tuple[Floats, torch.Tensor]:
        """Log-odds of word embeddings, and their gradients with respect to these: one query for each row.

        Args:
            words: a batch of any size (batch x length x width), template included: `embed(sample)[None]`, or changed
                copies of it. It is split into batches that fit.
            through: differentiable logits to be used in the place of the model's own, for a rewired twin of it.

        Returns:
            Log-odds of `target` (batch) in float64, and gradients like `words` (batch x length x width).

        SmoothGrad (Smilkov et al. 2017; times input) with noise on the text and none on the template is:

        >>> import torch
        >>> from slalom_bench.backends.random_models import random_backend
        >>> classifier, rng = Classifier(random_backend("bert")), np.random.default_rng(0)
        >>> sample = classifier.encode(Example("a", "w1 w2 w3"))
        >>> words, content = classifier.embed(sample), classifier.content
        >>> points = words.repeat(20, 1, 1)
        >>> noise = rng.normal(scale=0.1, size=points[:, content].shape)
        >>> points[:, content] += torch.as_tensor(noise).to(points)
        >>> _, grads = classifier.gradients(points)
        >>> scores = (grads.double().mean(dim=0) * words)[content].sum(dim=1).cpu().numpy()
        >>> len(words), scores.shape, classifier.total.queries
        (5, (3,), 20)
        """
        return self._gradients.gradients(words, self.target, through)

    def log_odds_from_embeddings(self, words: torch.Tensor, through: Differentiable | None = None) -> torch.Tensor:
        """Differentiable log-odds of word embeddings, for a package that takes gradients itself.

        One batch, as given: `gradients` packs, and captum packs by its `internal_batch_size`. Backward passes are
        counted whoever starts them.

        Args:
            words: a batch that fits (batch x length x width), template included; at most `rows_per_batch(length)`.
            through: as for `gradients`.

        Returns:
            Log-odds of `target` (batch) in float64; one query for each row.
        """
        return self._gradients.log_odds(words, self.target, through)

    def rows_per_batch(self, length: int) -> int:
        """How many sequences of one whole length a gradient batch holds."""
        return self._gradients.rows_per_batch(length)

    def attentions(self, sample: Sample) -> Floats:
        """Attention maps of a sample; one query.

        Returns:
            layers x heads x length x length in float64: row i is how position i attends to all, template included.
        """
        return self._attention.maps(sample)

    def attention_gradients(self, sample: Sample) -> tuple[Floats, Floats]:
        """Attention maps of a sample, and the gradients of the log-odds of `target` with respect to them; one query.

        Returns:
            Two arrays, layers x heads x length x length, in float64.
        """
        return self._gradients.of_attention(sample, self.target)

    def read_position(self, sample: Sample) -> int:
        """The position, in the whole sequence, whose state is classified: 0 for BERT, the last one for GPT-2."""
        return self._attention.read_position(sample)
