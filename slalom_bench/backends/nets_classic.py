"""Classifiers that are not pretrained transformers: attention only, TF-IDF, and fully connected."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from slalom_bench.backends.torch_backend import DifferentiableBackend, TorchBackend, two_columns
from slalom_bench.core.removal import HIDDEN
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.types import Ints
from slalom_bench.errors import InvalidInput

ROWS = 128
"""Sequences that go through an attention classifier at a time: each is padded to T_max, whatever its length."""
WIDTH, HEADS, D_ATT, D_OUT, T_MAX = 128, 6, 64, 64, 256
"""The attention classifier's sizes in its paper: d_e, K, d_att, d_out and T_max."""


class EnglishWords:
    """Lower-case words and punctuation marks over the vocabulary of a training split, with offsets.

    Unknown words, padding and masked positions are one token, [UNK], as in the attention classifier's paper.
    """

    pattern = re.compile(r"<br\s*/?>|(\w+(?:'\w+)*|[^\w\s])")
    suffix: tuple[int, ...] = ()
    pad_id = 0

    def __init__(self, vocabulary: Sequence[str], *, cls: bool = False) -> None:
        self.strings = ["[UNK]", *(["[CLS]"] if cls else []), *vocabulary]
        self.index = {word: i for i, word in enumerate(self.strings)}
        if len(self.index) < len(self.strings):
            raise InvalidInput(f"{len(self.strings) - len(self.index)} vocabulary words are used twice")
        self.prefix: tuple[int, ...] = (1,) if cls else ()
        self.mask_id: int | None = 0

    @classmethod
    def split(cls, text: str) -> list[re.Match[str]]:
        """The words and marks of a text, line breaks in HTML left out."""
        return [match for match in cls.pattern.finditer(text) if match.group(1)]

    @classmethod
    def vocabulary(cls, texts: Iterable[str], size: int) -> list[str]:
        """The most frequent words, ties in alphabetical order."""
        counts = Counter(match.group().lower() for text in texts for match in cls.split(text))
        return sorted(counts, key=lambda word: (-counts[word], word))[:size]

    def __len__(self) -> int:
        return len(self.strings)

    def encode(self, text: str) -> tuple[Ints, Ints | None]:
        """Ids and (start, end) offsets; unknown words are [UNK]."""
        found = self.split(text)
        ids = np.array([self.index.get(match.group().lower(), 0) for match in found], np.int64)
        return ids, np.array([match.span() for match in found], np.int64).reshape(-1, 2)

    def words(self, ids: Ints) -> list[str]:
        """One string for each id."""
        return [self.strings[int(i)] for i in ids]

    def decode(self, ids: Ints) -> str:
        """The words with a space between any two."""
        return " ".join(self.words(ids))

    def identity(self) -> str:
        """The pattern, the vocabulary and the template."""
        return f"english words {self.pattern.pattern} {self.strings} {self.prefix}"


# ---- the attention classifier (Lopardo et al.) ----


def sinusoids(length: int, width: int) -> torch.Tensor:
    """Fixed positions W_p(t), t = 1..length (equation 3: sine and cosine of t / T_max^(2i/d_e))."""
    t = torch.arange(1, length + 1, dtype=torch.float64)[:, None]
    angles = t / float(length) ** (2 * torch.arange(1, width // 2 + 1, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def each_head(states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """States (batch x length x d_e) through the matrices of every head: batch x heads x length x outputs."""
    return (states @ weights.flatten(0, 1).T).unflatten(-1, weights.shape[:2]).transpose(1, 2)


class Heads(nn.Module):
    """Queries, keys and values of every head, without biases (equations 5 to 7)."""

    def __init__(self, width: int, heads: int, d_att: int, d_out: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(heads, d_att, width).uniform_(-0.1, 0.1))
        self.key = nn.Parameter(torch.empty(heads, d_att, width).uniform_(-0.1, 0.1))
        self.value = nn.Parameter(torch.empty(heads, d_out, width).uniform_(-0.1, 0.1))

    def maps(self, states: torch.Tensor) -> torch.Tensor:
        """Attention of every position to every position (batch x heads x length x length; equation 8)."""
        q, k = each_head(states, self.query), each_head(states, self.key)
        return (q @ k.transpose(2, 3) / math.sqrt(self.key.shape[1])).softmax(dim=-1)

    def pooled(self, states: torch.Tensor) -> torch.Tensor:
        """What the first position attends to, in values (batch x heads x d_out; equation 9).

        Keys and values are linear, so they move outside the sums over positions: 60 times less to compute.
        """
        q = torch.einsum("bd,kad->bka", states[:, 0], self.query)
        probe = torch.einsum("bka,kad->bkd", q, self.key) / math.sqrt(self.key.shape[1])
        attention = (probe @ states.transpose(1, 2)).softmax(dim=-1)
        return torch.einsum("bkd,kod->bko", attention @ states, self.value)


class Mixing(Heads):
    """A layer below the last one: every position attends, the heads' values side by side are mapped back to d_e."""

    def __init__(self, width: int, heads: int, d_att: int, d_out: int) -> None:
        super().__init__(width, heads, d_att, d_out)
        self.out = nn.Parameter(torch.empty(width, heads * d_out).uniform_(-0.1, 0.1))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States (batch x length x d_e) of the next layer."""
        q, k, v = (each_head(states, weights) for weights in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return mixed.transpose(1, 2).flatten(2) @ self.out.T


class AttentionNet(nn.Module):
    """f = 1/K sum over heads of W_l times what [CLS] attends to (equation 1), over T_max positions.

    Empty positions hold the [UNK] embedding (row 0) and are attended to. `layers` above 1 stack attention alone:
    the paper names six layers but neither skip connections nor non-linearities.
    """

    def __init__(self, vocabulary: int, *, outputs: int = 1, layers: int = 1) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, WIDTH)
        self.below = nn.ModuleList(Mixing(WIDTH, HEADS, D_ATT, D_OUT) for _ in range(layers - 1))
        self.last = Heads(WIDTH, HEADS, D_ATT, D_OUT)
        self.head = nn.Parameter(torch.empty(HEADS, outputs, D_OUT).uniform_(-0.1, 0.1))
        self.register_buffer("positions", sinusoids(T_MAX, WIDTH).to(torch.get_default_dtype()), persistent=False)

    def embedded(self, words: torch.Tensor) -> torch.Tensor:
        """e_t of all T_max positions (equations 2 and 4) from the word embeddings of the first ones."""
        positions: torch.Tensor = self.positions  # type: ignore[assignment]
        empty = self.words.weight[0].expand(len(words), len(positions) - words.shape[1], -1)
        return torch.cat([words, empty], dim=1) + positions

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Logits (batch x outputs) of the word embeddings of the first positions (batch x length x d_e)."""
        states = self.embedded(words)
        for layer in self.below:
            states = layer(states)
        return torch.einsum("bko,kco->bc", self.last.pooled(states), self.head) / len(self.head)

    def attended(self, words: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The same logits by way of each layer's maps (batch x heads x T_max x T_max), and these."""
        states, maps = self.embedded(words), []
        for layer in (*self.below, self.last):
            maps.append(layer.maps(states))
            mixed = maps[-1] @ each_head(states, layer.value)
            states = mixed.transpose(1, 2).flatten(2) @ layer.out.T if isinstance(layer, Mixing) else states
        return torch.einsum("bko,kco->bc", mixed[:, :, 0], self.head) / len(self.head), maps


class AttentionNetBackend(DifferentiableBackend):
    """The attention classifier, read at [CLS]. Hidden and empty positions are one: they hold [UNK], attended to."""

    module: AttentionNet
    capabilities = frozenset({"queries", "gradients", "attentions", "positions"})

    def settings(self) -> str:
        """The kind and T_max."""
        return f"attention classifier, T_max {self.max_length}"

    def forward(self, module: nn.Module, mask: torch.Tensor | None, **inputs: torch.Tensor) -> torch.Tensor:
        """From ids or word embeddings; the mask says nothing: see `TorchBackend.forward`."""
        return module(inputs["inputs_embeds"] if "inputs_embeds" in inputs else self.module.words(inputs["input_ids"]))

    def logits(self, sequences: Sequence[Ints]) -> NDArray[np.floating]:
        """Logits (batch x classes), `ROWS` sequences at a time."""
        laid = Ragged.of(sequences).spread(HIDDEN)
        parts = [laid[i : i + ROWS] for i in range(0, len(laid), ROWS)]
        return np.concatenate([super(AttentionNetBackend, self).logits(part) for part in parts])

    def word_embeddings(self) -> nn.Module:
        """The table of words."""
        return self.module.words

    def attended_logits(self, words: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Differentiable logits and each layer's maps, empty positions included."""
        logits, maps = self.module.attended(words)
        return two_columns(logits), maps

    def attentions(self, sequence: Ints) -> NDArray[np.floating]:
        """Cut to the sequence: what is missing of 1 in a row went to empty positions."""
        n = len(sequence)
        with torch.inference_mode():
            _, maps = self.module.attended(self.embed(sequence)[None])
        return torch.cat(maps)[:, :, :n, :n].numpy(force=True)

    def read_position(self, length: int) -> int:
        """That of [CLS]."""
        return 0


# ---- TF-IDF perceptron (appendix F.5) ----


def inverse_document_frequencies(sequences: Sequence[Ints], vocabulary: int) -> NDArray[np.float64]:
    """log((1 + n)/(1 + df)) + 1 of every id, and 0 for [UNK], which is no feature."""
    frequencies = np.zeros(vocabulary)
    for sequence in sequences:
        frequencies[np.unique(sequence)] += 1
    idf = np.log((1 + len(sequences)) / (1 + frequencies)) + 1
    idf[0] = 0.0
    return idf


class TfidfNet(nn.Module):
    """A three-layer ReLU perceptron on L2-normalised TF-IDF, read from ids without a vocabulary-wide vector."""

    def __init__(self, idf: NDArray[np.float64], outputs: int, hidden: tuple[int, int] = (128, 64)) -> None:
        super().__init__()
        self.register_buffer("idf", torch.as_tensor(idf, dtype=torch.get_default_dtype()))
        self.first = nn.Embedding(len(idf), hidden[0])
        nn.init.normal_(self.first.weight, std=1 / math.sqrt(hidden[0]))
        self.bias = nn.Parameter(torch.zeros(hidden[0]))
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(hidden[0], hidden[1])
        self.third = nn.Linear(hidden[1], outputs)

    def weights(self, ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """The TF-IDF of each position's word, shared out over the positions that hold it."""
        idf: torch.Tensor = self.idf  # type: ignore[assignment]
        terms = idf[ids] if mask is None else idf[ids] * mask
        order = ids.argsort(dim=1)
        ranked = ids.gather(1, order)
        word = nn.functional.pad((ranked[:, 1:] != ranked[:, :-1]).long().cumsum(dim=1), (1, 0))
        totals = torch.zeros_like(terms).scatter_add(1, word, terms.gather(1, order))
        norms = totals.square().sum(dim=1, keepdim=True).sqrt()
        return terms / torch.where(norms > 0, norms, 1.0)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Logits (batch x outputs) of ids (batch x length)."""
        shares = self.weights(ids, mask)
        summed = nn.functional.embedding_bag(ids, self.first.weight, per_sample_weights=shares, mode="sum")
        return self.third(self.second(self.drop((summed + self.bias).relu())).relu())


class TfidfBackend(TorchBackend):
    """The TF-IDF perceptron: a function of counts, so it has neither embeddings of positions nor attention."""

    def forward(self, module: nn.Module, mask: torch.Tensor | None, **inputs: torch.Tensor) -> torch.Tensor:
        """From ids only: see `TorchBackend.forward`."""
        return module(inputs["input_ids"], mask)


# ---- fully connected model of figure 3 ----


class SlotNet(nn.Module):
    """Fixed random embeddings of all positions side by side, one hidden ReLU layer: what learns a linear task.

    [UNK] and free slots are zero.
    """

    def __init__(
        self, vocabulary: int, *, outputs: int = 1, slots: int = 32, width: int = 32, hidden: int = 400
    ) -> None:
        super().__init__()
        table = torch.randn(vocabulary, width)
        table[0] = 0.0
        self.words = nn.Embedding.from_pretrained(table, freeze=True)
        self.slots = slots
        self.first = nn.Linear(slots * width, hidden)
        self.second = nn.Linear(hidden, outputs)

    def forward(self, words: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Logits (batch x outputs) of word embeddings (batch x length x width)."""
        kept = words if mask is None else words * mask[..., None]
        filled = nn.functional.pad(kept, (0, 0, 0, self.slots - words.shape[1]))
        return self.second(self.first(filled.flatten(1)).relu())


class SlotBackend(DifferentiableBackend):
    """The fully connected model: gradients with respect to its fixed embeddings, no attention. Empty slots are zero."""

    module: SlotNet
    capabilities = frozenset({"queries", "gradients", "positions"})

    def logits(self, sequences: Sequence[Ints]) -> NDArray[np.floating]:
        """Logits (batch x classes) of whole sequences."""
        return super().logits(Ragged.of(sequences).spread(HIDDEN))

    def forward(self, module: nn.Module, mask: torch.Tensor | None, **inputs: torch.Tensor) -> torch.Tensor:
        """From ids or word embeddings: see `TorchBackend.forward`."""
        words = inputs["inputs_embeds"] if "inputs_embeds" in inputs else self.module.words(inputs["input_ids"])
        return module(words, mask)

    def word_embeddings(self) -> nn.Module:
        """The table of words."""
        return self.module.words
