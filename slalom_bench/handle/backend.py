"""What the handle needs of a model, and the parts that only some models have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.tokens import Tokens
from slalom_bench.core.types import Ints
from slalom_bench.errors import Unsupported

if TYPE_CHECKING:
    import torch

Differentiable: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"
"""Word embeddings (batch x length x width) to logits (batch x classes)."""


class OutOfMemory(Exception):
    """A backend could not hold a batch; the handle halves the token budget and tries again."""


class Backend(Protocol):
    """A model as the handle sees it. Sequences are whole: the special-token template is already round them.

    `capabilities` are out of queries, gradients, attentions, positions, lrp, values, deeplift. One that names gradients
    is a `GradientBackend`, one that names attentions an `AttentionBackend`; one that names positions answers sequences
    whose ids do not stand at 0, 1, 2, ...; one that names lrp or values is a transformer whose layers' maps are known,
    for relevance propagation and for value zeroing, one that names deeplift one whose words may be zero; one whose
    queries cost money is a `MeteredBackend`.
    """

    name: str
    tokens: Tokens
    class_names: tuple[str, ...]
    max_length: int | None
    """The most tokens of a sequence, special ones included; None where there is no limit."""
    capabilities: frozenset[str]
    device: str
    dtype: str
    token_budget: int
    """Tokens of a batch, before memory makes it less."""
    pads: bool
    """Whether a batch is padded to its longest sequence."""

    def identity(self) -> str:
        """A hash of everything that shapes the answers: weights, configuration, tokenizer, dtype."""
        ...

    def logits(self, sequences: Sequence[Ints]) -> NDArray[np.floating]:
        """Answer one batch.

        Args:
            sequences: id vectors (a `core.sequences.Ragged`); ids of `core.removal.HIDDEN` get no attention. Only a
                backend that names positions is given `Ragged.places`.

        Returns:
            Logits (batch x classes), two columns at least: a one-logit model gives 0 and its logit.
        """
        ...


class GradientBackend(Backend, Protocol):
    """A backend whose `capabilities` include gradients."""

    gradient_budget: int
    """Tokens of a batch whose activations a backward pass will need, before halving."""

    def embed(self, sequence: Ints) -> torch.Tensor:
        """Word embeddings (length x width) of a whole sequence."""
        ...

    def vocabulary(self) -> torch.Tensor:
        """The table of word embeddings (words x width), a row for each id."""
        ...

    def logits_from_embeddings(self, words: torch.Tensor) -> torch.Tensor:
        """Differentiable logits (batch x classes) of word embeddings (batch x length x width)."""
        ...


class AttentionBackend(Backend, Protocol):
    """A backend whose `capabilities` include attentions."""

    def attentions(self, sequence: Ints) -> NDArray[np.floating]:
        """Attention maps (layers x heads x length x length) of one sequence."""
        ...

    def attended_logits(self, words: torch.Tensor) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        """Differentiable logits of word embeddings, and each layer's attention maps on the way to them.

        Only asked of a backend whose `capabilities` include gradients as well.

        Args:
            words: batch x length x width.

        Returns:
            Logits (batch x classes), and for each layer maps (batch x heads x length x length) of the same graph;
            larger ones of a model that attends to empty positions behind the text.
        """
        ...

    def read_position(self, length: int) -> int:
        """The position whose state is classified: the first for encoders, the last for decoders."""
        ...


@runtime_checkable
class RandomisableBackend(Backend, Protocol):
    """A backend that can give copies of its model with parameters that were never trained."""

    def cascade(self, seed: int) -> Sequence[Backend]:
        """Copies whose top part, top two parts, ... all parts have parameters drawn anew; the model itself stays.

        Args:
            seed: of the draws; a parameter's draw is the same in every copy.

        Returns:
            One backend for each number of parts, from the head down to the embeddings.
        """
        ...


@runtime_checkable
class MeteredBackend(Backend, Protocol):
    """A backend whose queries cost money or are limited: it can say what they will cost, and what they did."""

    def estimate(self, queries: int, sequences: Sequence[Ints]) -> Mapping[str, int]:
        """Upper bounds, by name, of what so many queries on such sequences cost."""
        ...

    def report(self) -> Mapping[str, Any]:
        """What was spent so far."""
        ...


def require(backend: Backend, *capabilities: str) -> None:
    """Refuse, by name, what a backend's `capabilities` do not include."""
    if missing := sorted(set(capabilities) - backend.capabilities):
        raise Unsupported(f"model {backend.name} gives no {' or '.join(missing)}")


def gradient_backend(backend: Backend) -> GradientBackend:
    """The same backend as one that gives gradients, or `Unsupported`."""
    require(backend, "gradients")
    return cast(GradientBackend, backend)


def attention_backend(backend: Backend) -> AttentionBackend:
    """The same backend as one that gives attentions, or `Unsupported`."""
    require(backend, "attentions")
    return cast(AttentionBackend, backend)
