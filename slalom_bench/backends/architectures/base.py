"""What the backends may know of an architecture; everything but its name is optional."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from slalom_bench.core.tokens import WordTokens
from slalom_bench.errors import Unsupported

Hook = Callable[[Any, tuple[Tensor, ...], Tensor], Tensor]
"""A forward hook: module, arguments and output to the output that takes its place."""


class ForwardParts(ABC):
    """Where a classifier keeps what the pruned forward pass calls. Rows are tokens, whatever sequence they are of.

    A version of transformers that keeps a part elsewhere raises AttributeError; the model then runs its own pass.

    Args:
        model: the sequence classifier.
    """

    causal: ClassVar[bool] = False
    """Whether a token attends to earlier ones only, and the last one is classified."""
    turns: ClassVar[bool] = False
    """Whether queries and keys are rotated by their positions (`turned`); of those that are not causal."""

    def __init__(self, model: Any) -> None:
        self.model, self.base = model, model.base_model
        self.heads, self.layers = model.config.num_attention_heads, self.blocks()

    @abstractmethod
    def blocks(self) -> list[Any]:
        """The layers, first to last."""

    def words(self, ids: Tensor) -> Tensor:
        """Word embeddings (rows x width)."""
        return self.base.get_input_embeddings()(ids)

    @abstractmethod
    def embed(self, words: Tensor, positions: Tensor) -> Tensor:
        """The first layer's input, from word embeddings (rows x width) and positions (rows)."""

    @abstractmethod
    def scale(self, layer: Any) -> float:
        """What attention scores are multiplied by."""

    def place_bias(self, length: int) -> Tensor | None:
        """What a key's place adds to the scores of each head (heads x length); None where it adds nothing."""
        return None

    def normed(self, layer: Any, x: Tensor) -> Tensor:
        """What the layer's projections read of its input."""
        return x

    def query_key_value(self, layer: Any, normed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All three (rows x width each)."""
        return self.query(layer, normed), *self.key_value(layer, normed)

    @abstractmethod
    def query(self, layer: Any, normed: Tensor) -> Tensor:
        """Queries (rows x width), all heads side by side."""

    @abstractmethod
    def key_value(self, layer: Any, normed: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (rows x width), all heads side by side."""

    def turned(self, layer: Any, rows: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (rows x width), rotated by their positions (rows); by default as they are."""
        return rows

    @abstractmethod
    def key_value_weights(self, layer: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """The key's and the value's matrix (rows: outputs), and the value's bias; the key's shifts all scores alike."""

    @abstractmethod
    def finish(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        """The layer's output, from its input and what attention gathered."""

    @abstractmethod
    def classify(self, x: Tensor) -> Tensor:
        """Logits (sequences x classes) of the last layer's output at the positions that are read."""


def identity_rule(x: Tensor, y: Tensor) -> Tensor:
    """y = f(x), with f(x)/x for its derivative; where x is 0 no relevance arrives and none is passed on."""
    return x * torch.where(x == 0, 0.0, y / x).detach()


@dataclass(frozen=True)
class LayerMaps:
    """Where a model's layers map to queries, keys and values, for relevance propagation and for value zeroing.

    Maps are called by the last part of their module's name.
    """

    layers: str
    """The base model's list of layers; empty where layers share their modules, so that values cannot be zeroed."""
    embedding_sum: str
    """The module of the base model that is given the sum of word, position and type embeddings."""
    queries_and_keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()
    """Maps to all queries, then all keys, then all values, side by side."""
    fused_by_head: tuple[str, ...] = ()
    """Maps to each head's query, key and value, head after head."""
    gated: tuple[str, ...] = ()
    """Maps to the factors of a product of two activations outside attention (GeGLU, SwiGLU)."""
    rewritten: Mapping[str, Hook] = field(default_factory=dict)
    """By class name, modules with a function inside that no hook can see, and what computes them instead."""

    @property
    def per_layer(self) -> int:
        """How many maps a layer has."""
        return len((*self.queries_and_keys, *self.values, *self.fused, *self.fused_by_head, *self.gated))

    def factors(self, name: str, heads: int, *, query_key: float, value: float, gate: float) -> tuple[float, ...]:
        """One factor for each equal part of a module's output, by what it is; none where it is no map."""
        fused = (query_key, query_key, value)
        kinds = {
            self.queries_and_keys: (query_key,),
            self.values: (value,),
            self.fused: fused,
            self.fused_by_head: fused * heads,
            self.gated: (gate,),
        }
        return next((factors for names, factors in kinds.items() if name in names), ())


@dataclass(frozen=True)
class Size:
    """The shape of a randomly initialised classifier."""

    vocabulary: int
    pad_id: int
    classes: Sequence[str]
    """Names; a single one makes a one-logit classifier."""
    layers: int
    width: int
    positions: int
    """The longest sequence, special tokens included, for architectures with a table of positions."""
    dropout: float = 0.0
    """Behind embeddings and layers, in training; attention has none."""
    heads: int = 4
    inner: int | None = None
    """Width inside the feed-forward layers; by default twice `width`."""

    @property
    def feed_forward(self) -> int:
        """Width inside the feed-forward layers."""
        return 2 * self.width if self.inner is None else self.inner

    def shared(self) -> dict[str, Any]:
        """The configuration that all architectures name alike."""
        labels = dict(enumerate(self.classes))
        return {
            "vocab_size": self.vocabulary,
            "pad_token_id": self.pad_id,
            "num_labels": len(self.classes),
            "id2label": labels,
            "label2id": {name: i for i, name in labels.items()},
        }

    def shared_by_decoders(self) -> dict[str, Any]:
        """The same for decoders, whose texts begin and end with the padding token if with any."""
        return {"bos_token_id": self.pad_id, "eos_token_id": self.pad_id, **self.shared()}


class Architecture:
    """One of transformers' architectures, and all that the backends know of it. The base class knows nothing special.

    To add one: a subclass in a file of its own, and an entry in `architectures.KNOWN`. A sequence classifier of any
    other architecture works as well, with its own forward pass and without relevance propagation.
    """

    model_type: str = ""
    """As in the configuration of a checkpoint."""
    classifier: str = ""
    """The class of transformers that the forward parts are of."""
    parts: type[ForwardParts] | None = None
    """For the pruned forward pass."""
    maps: LayerMaps | None = None
    """For layer-wise relevance propagation and value zeroing."""
    prefix: tuple[str, ...] = ()
    suffix: tuple[str, ...] = ()
    """The special-token template of a model over a list of words."""
    position_table: str = ""
    """The module of the base model that holds the embeddings of absolute positions, if there is one."""
    deeplift: bool = False
    """Whether DeepLIFT from the zero embedding is sound: no norm is given the word alone, so that nothing explodes."""
    random_scale: float = 8.0
    """What enlarges the random weights of test models, so that tokens matter."""

    def max_length(self, config: Any) -> int | None:
        """The most tokens of a sequence, special ones included; None where there is no limit."""
        limits = [getattr(config, key, None) for key in ("max_position_embeddings", "n_positions")]
        return next((int(value) for value in limits if isinstance(value, int) and value > 0), None)

    def first_position(self, config: Any) -> int | None:
        """The position id of a sequence's first token, where the forward pass takes absolute `position_ids`.

        None where it does not (or where that is not known): then no token can keep its position when others go.
        """
        return None

    def spreads(self, config: Any) -> bool:
        """Whether tokens keep their positions only if hidden ones fill the gaps: where layers count places themselves.

        A window of attention is an example.
        """
        return False

    def keeping_places(self, model: nn.Module) -> nn.Module:
        """The module that answers queries: the model itself, or a twin that counts hidden places where it does not."""
        return model

    def capabilities(self, config: Any) -> frozenset[str]:
        """What a classifier gives.

        Attention maps only with attention heads, positions only with absolute ones, relevance (`lrp`) and zeroed values
        only where its layers' maps are known, `deeplift` only where zero is a baseline.
        """
        found = {"queries", "gradients"}
        if getattr(config, "num_attention_heads", None):
            found.add("attentions")
        if self.first_position(config) is not None:
            found.add("positions")
        if self.maps is not None:
            found |= {"lrp", "values"} if self.maps.layers else {"lrp"}
        if self.deeplift:
            found.add("deeplift")
        return frozenset(found)

    def stored_layers(self, config: Any) -> int:
        """How many layers have modules of their own."""
        return int(config.num_hidden_layers)

    def reads_last(self, model: nn.Module) -> bool:
        """Whether a classifier reads the last position: transformers calls the head of every decoder `score`."""
        return isinstance(getattr(model, "score", None), nn.Module)

    def register(self) -> None:
        """Tell transformers of a classifier that it lacks."""

    def word_tokens(self, words: Sequence[str]) -> WordTokens:
        """A tokenizer over a list of words, with this architecture's template."""
        return WordTokens(words, prefix=self.prefix, suffix=self.suffix)

    def random_classifier(self, size: Size) -> Any:
        """A randomly initialised classifier in training mode; draws from torch's generator, which the caller seeds."""
        raise Unsupported(f"no random models of architecture {self.model_type!r}")
