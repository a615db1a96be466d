"""The pruned forward pass: a classifier without the arithmetic that perturbed texts repeat or that nobody reads.

A query set is one text with tokens missing, so four things can be saved without changing an answer:

- the first layer's input, queries, keys and values depend on a token and its position alone: each distinct pair is
  computed once per batch (200 tokens with up to 5 deletions make 1,200 pairs);
- a classifier reads one position: of the last layer only that one is computed, and its attention is taken over the
  layer's input itself (q.(Wx) = (W'q).x, and a mean of Wx is W times a mean of x), so that no key and no value is
  (where positions turn keys, as in ModernBERT, both are);
- where tokens attend to earlier ones only (GPT-2, BLOOM), what stands before the first deletion is the same in every
  sequence: each distinct beginning is computed once a chunk, and attention alone sees it in every sequence that has it;
- sequences lie end to end, without padding; only attention sees where each begins, a group of equal length at a time.

For two layers of BERT's kind and width d that leaves 9 of 24 d^2 multiplications per token. The innermost modules are
the model's own, but for maps of which a part alone is needed: of those the weights are taken. Architectures say where
they are (`architectures.base.ForwardParts`: BERT, DistilBERT, ModernBERT without windows, GPT-2, BLOOM). A model of
another kind, with hooks, or whose probed answers differ, keeps its own forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from slalom_bench.backends.architectures import architecture_of
from slalom_bench.backends.architectures.base import ForwardParts
from slalom_bench.core.removal import HIDDEN
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.types import Bools, Ints
from slalom_bench.handle.packing import pack

VERSION = "lean 2"
"""Part of a model's identity; changes when the pass below would round otherwise, and only then: stored results and
published submissions are filed under it, so the pass's former name stays in it."""
PREFIXES = "prefixes 1"
"""The same for models that share beginnings."""
WIDE = "chunks by width 1"
"""The same for wide models that share none."""
CHUNK, NARROW = 2048, 384
"""Tokens that a CPU computes together, of a model up to so wide: few enough for its caches. Of wider ones it takes
fewer, but where beginnings are shared: there more together share more. Other devices take a batch whole."""


class _Layout(NamedTuple):
    """How sequences lie end to end."""

    runs: list[tuple[int, int]]
    """Sequences of equal length, one after another: their length, and how many they are."""
    kept: Bools | None
    """Which rows are not hidden; None for all."""


class _Beginnings(NamedTuple):
    """Which rows of a chunk are the same, since what stands before and at them is."""

    first: Tensor
    """A row of each distinct beginning."""
    of: Tensor
    """The number of each row's beginning."""

    @classmethod
    def found(cls, names: NDArray[np.uint64], lengths: Ints, device: torch.device) -> _Beginnings | None:
        """By sums of random names of the (token, position) pairs up to each row; None where nothing is shared."""
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(names, dtype=np.uint64)])
        starts = np.repeat(sums[lengths.cumsum() - lengths], lengths)
        _, first, of = np.unique(sums[1:] - starts, return_index=True, return_inverse=True)
        if len(first) == len(names):
            return None
        return cls(*(torch.from_numpy(part).to(device) for part in (first, of)))


class PrunedForward:
    """The pruned forward pass of one model.

    Args:
        parts: the model's modules.
        device: where they all lie.
        pad_id: the id that stands for hidden positions, which nobody attends to.
    """

    def __init__(self, parts: ForwardParts, device: torch.device, pad_id: int) -> None:
        self.parts, self.device, self.pad_id = parts, device, pad_id
        width = parts.model.config.hidden_size
        self._narrowness = 1.0 if parts.causal else min(1.0, NARROW / width)
        own = [PREFIXES] if parts.causal else [WIDE] if width > NARROW else []
        self.version = ", ".join([VERSION, *own])
        """Part of the model's identity."""

    def logits(self, sequences: Sequence[Ints]) -> Tensor:
        """Logits of whole sequences, chunk after chunk from one table of (token, position) pairs."""
        laid = Ragged.of(sequences)
        ids, span = laid.ids, int(laid.spans.max())
        hidden = ids == HIDDEN
        positions = laid.positions()
        pairs, rows = np.unique(np.where(hidden, self.pad_id, ids) * span + positions, return_inverse=True)
        token, position = (torch.from_numpy(part).to(self.device) for part in np.divmod(pairs, span))
        table = self._projected(self.parts.embed(self.parts.words(token), position), position)
        names = np.random.default_rng(0).integers(2**64, size=len(pairs), dtype=np.uint64)
        most = max(1, int(CHUNK * self._narrowness)) if self.device.type == "cpu" else len(ids)
        out = []
        for part in pack(laid.lengths, most, pads=False):
            chunk = slice(laid.starts[part.start], laid.ends[part.stop - 1])
            index = torch.from_numpy(rows[chunk]).to(self.device)
            kept = ~hidden[chunk] if hidden[chunk].any() else None
            shared = None
            if self.parts.causal and kept is None:
                shared = _Beginnings.found(names[rows[chunk]], laid.lengths[part], self.device)
            index = index if shared is None else index.index_select(0, shared.first)
            columns = (column.index_select(0, index) for column in table)
            out.append(self._layers(laid.lengths[part], kept, *columns, shared=shared))
        return torch.cat(out)

    def logits_from_words(self, words: Tensor) -> Tensor:
        """Differentiable logits of word embeddings (batch x length x width)."""
        batch, length, width = words.shape
        positions = torch.arange(length, device=words.device).repeat(batch)
        x = self.parts.embed(words.reshape(-1, width), positions)
        return self._layers(np.full(batch, length), None, *self._projected(x, positions))

    def _projected(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Positions (rows), and the first layer's input, queries, keys and values (rows x width)."""
        first = self.parts.layers[0]
        return positions, x, *self._asking(first, self.parts.normed(first, x), positions)

    def _asking(self, layer: Any, normed: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A layer's queries, keys and values (rows x width) of what its projections read."""
        query, key, value = self.parts.query_key_value(layer, normed)
        return self.parts.turned(layer, query, positions), self.parts.turned(layer, key, positions), value

    def _layers(
        self,
        lengths: Ints,
        kept: Bools | None,
        positions: Tensor,
        x: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        shared: _Beginnings | None = None,
    ) -> Tensor:
        """From positions, the first layer's input and projections (rows x width) to logits (sequences x classes).

        With `shared` the rows are the distinct beginnings, which attention alone has as often as they occur.
        """
        parts, (first, last) = self.parts, (self.parts.layers[0], self.parts.layers[-1])
        read = torch.from_numpy(_read_rows(lengths, kept, last=parts.causal)).to(x.device)
        layout = _Layout([(length, len(list(group))) for length, group in groupby(lengths.tolist())], kept)

        def every(part: Tensor) -> Tensor:
            return part if shared is None else part.index_select(0, shared.of)

        for layer in parts.layers[:-1]:
            if layer is not first:
                q, k, v = self._asking(layer, parts.normed(layer, x), positions)
            attended = self._attend(layout, every(q), every(k), every(v), parts.scale(layer), parts.heads)
            x = parts.finish(layer, x, attended if shared is None else attended.index_select(0, shared.first))
        if last is first:
            q = every(q).index_select(0, read)
            attended = self._attend(layout, q, every(k), every(v), parts.scale(last), parts.heads, 1)
        elif parts.turns:
            normed = parts.normed(last, x)
            q = parts.turned(last, parts.query(last, normed.index_select(0, read)), positions.index_select(0, read))
            k, v = parts.key_value(last, normed)
            k = parts.turned(last, k, positions)
            attended = self._attend(layout, q, k, v, parts.scale(last), parts.heads, 1)
        else:
            attended = self._attend_from_one(layout, every(parts.normed(last, x)), read)
        return parts.classify(parts.finish(last, every(x).index_select(0, read), attended))

    def _attend_from_one(self, layout: _Layout, normed: Tensor, read: Tensor) -> Tensor:
        """What the last layer's read positions gather, a head's query being taken to where its keys come from."""
        parts, layer, heads = self.parts, self.parts.layers[-1], self.parts.heads
        key, value, bias = parts.key_value_weights(layer)
        width = normed.shape[-1]
        q = parts.query(layer, normed.index_select(0, read)).reshape(len(read), heads, -1).transpose(0, 1)
        asked = torch.bmm(q, key.reshape(heads, -1, width)).transpose(0, 1).reshape(-1, width)
        mixed = self._attend(layout, asked, normed, normed, parts.scale(layer), 1, heads)
        mixed = mixed.reshape(len(read), heads, width).transpose(0, 1)
        gathered = torch.bmm(mixed, value.reshape(heads, -1, width).transpose(1, 2))
        gathered = gathered.transpose(0, 1).reshape(len(read), -1)
        return gathered if bias is None else gathered + bias

    def _attend(
        self, layout: _Layout, q: Tensor, k: Tensor, v: Tensor, scale: float, heads: int, alone: int = 0
    ) -> Tensor:
        """Attention inside each sequence, equal lengths together.

        Every token asks, or only the position that is read, `alone` times.
        """
        out, start, asked = [], 0, 0
        for length, count in layout.runs:
            rows = slice(start, start + count * length)
            queries = slice(asked, asked + count * (alone or length))
            start, asked = rows.stop, queries.stop
            causal = self.parts.causal and not alone
            mask = None if layout.kept is None else self._mask(layout.kept[rows].reshape(count, length), causal)
            if (bias := self.parts.place_bias(length)) is not None:
                mask = _biased(bias.reshape(1, heads, -1, length), mask, causal=causal)
            query, key, value = (
                part.reshape(count, len(part) // count, heads, -1).transpose(1, 2)
                for part in (q[queries], k[rows], v[rows])
            )
            attended = scaled_dot_product_attention(
                query, key, value, mask, is_causal=causal and mask is None, scale=scale
            )
            out.append(attended.transpose(1, 2).reshape(count * (alone or length), -1))
        return torch.cat(out) if len(out) > 1 else out[0]

    def _mask(self, kept: Bools, causal: bool) -> Tensor:
        """Who may attend to whom. A hidden token sees itself: nobody reads it, but it must stay a number."""
        allowed = kept[:, None, None, :]
        if causal:
            n = kept.shape[1]
            allowed = np.tril(np.broadcast_to(allowed, (len(kept), 1, n, n))) | np.eye(n, dtype=np.bool_)
        return torch.from_numpy(allowed).to(self.device)


def _biased(bias: Tensor, allowed: Tensor | None, *, causal: bool) -> Tensor:
    """What is added to the scores: the bias where a token may attend, else minus infinity."""
    if allowed is None and causal:
        allowed = torch.ones((bias.shape[-1],) * 2, dtype=torch.bool, device=bias.device).tril()
    return bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))


def _read_rows(lengths: Ints, kept: Bools | None, *, last: bool) -> Ints:
    """The row of each sequence that the classifier reads: its first, or its last that is not hidden."""
    ends = lengths.cumsum()
    starts: Ints = ends - lengths
    if not last:
        return starts
    if kept is None:
        return ends - 1
    return np.array([max([*np.flatnonzero(kept[a:b])], default=0) + a for a, b in zip(starts, ends, strict=True)])


def pruned_forward(module: nn.Module, pad_id: int) -> PrunedForward | None:
    """The pruned pass of a model of transformers' own that has one, reads both ways (BERT) and lies on one device."""
    architecture = architecture_of(module.config)
    kind, devices = type(module), {parameter.device for parameter in module.parameters()}
    own = kind.__module__.startswith("transformers.") and kind.__name__ == architecture.classifier
    if architecture.parts is None or not own or len(devices) != 1 or getattr(module.config, "is_decoder", False):
        return None
    if any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in module.modules()):
        return None  # not every module is called: a hook of its owner's would be passed by
    try:
        return PrunedForward(architecture.parts(module), devices.pop(), pad_id)
    except AttributeError:  # a version that keeps its parts elsewhere
        return None
