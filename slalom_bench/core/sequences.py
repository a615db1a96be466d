"""Many id sequences as one array, their hash keys, and which of them are distinct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import overload

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.types import Asked, Ints

Keys = NDArray[np.uint64]
"""A row of two numbers for each sequence."""


class Ragged(Sequence[Ints]):
    """Id sequences of any lengths laid end to end: a sequence of vectors, with arithmetic for all of them at once.

    Args:
        ids: all ids, sequence after sequence.
        lengths: of each sequence.

    >>> [row.tolist() for row in Ragged.of([np.array([5, 6]), np.array([7])])]
    [[5, 6], [7]]
    """

    __slots__ = ("ends", "ids", "lengths")

    def __init__(self, ids: Ints, lengths: Ints) -> None:
        self.ids = ids
        self.lengths = lengths
        self.ends: Ints = lengths.cumsum()

    @classmethod
    def of(cls, sequences: Sequence[Ints] | Ints) -> Ragged:
        """Any sequence of vectors, or the rows of a matrix; what is ragged already is returned as it is."""
        if isinstance(sequences, Ragged):
            return sequences
        if isinstance(sequences, np.ndarray) and sequences.ndim == 2:
            return cls(sequences.astype(np.int64, copy=False).reshape(-1), np.full(len(sequences), sequences.shape[1]))
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        if not len(lengths):
            return cls(np.empty(0, np.int64), lengths)
        return cls(np.concatenate(sequences, dtype=np.int64, casting="unsafe"), lengths)

    @property
    def starts(self) -> Ints:
        """Where each sequence begins in `ids`."""
        return self.ends - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Ints]:
        start = 0
        for end in self.ends.tolist():
            yield self.ids[start:end]
            start = end

    @overload
    def __getitem__(self, which: int) -> Ints: ...
    @overload
    def __getitem__(self, which: slice) -> Ragged: ...
    def __getitem__(self, which: int | slice) -> Ints | Ragged:
        if not isinstance(which, slice):
            return self.ids[self.ends[which] - self.lengths[which] : self.ends[which]]
        start, stop, step = which.indices(len(self))
        if step != 1 or start >= stop:
            return self.pick(which)
        return Ragged(self.ids[self.ends[start] - self.lengths[start] : self.ends[stop - 1]], self.lengths[start:stop])

    def pick(self, rows: Ints | slice, prefix: Sequence[int] = (), suffix: Sequence[int] = ()) -> Ragged:
        """The sequences of these rows, each between a prefix and a suffix."""
        lengths = self.lengths[rows] + (len(prefix) + len(suffix))
        ends = lengths.cumsum()
        starts = ends - lengths
        index = np.arange(lengths.sum())
        index += np.repeat(self.starts[rows] - starts - len(prefix), lengths)
        ids = self.ids.take(index, mode="clip") if len(self.ids) else np.empty(len(index), np.int64)
        for i, token in enumerate(prefix):
            ids[starts + i] = token
        for i, token in enumerate(reversed(suffix), start=1):
            ids[ends - i] = token
        return Ragged(ids, lengths)

    def positions(self) -> Ints:
        """Where each id stands in its sequence."""
        positions = np.arange(len(self.ids))
        positions -= np.repeat(self.starts, self.lengths)
        return positions

    def keys(self) -> Keys:
        """Two multilinear hashes modulo 2^64 of each sequence and its length, the same in every process.

        Over the draw of the multipliers, two sequences of ids below 2^18 share a key with a probability below 2^-93:
        among 4 million, any two do with one below 2^-50.
        """
        filled, positions, ids = np.flatnonzero(self.lengths), self.positions(), self.ids.view(np.uint64)
        lanes = _multipliers(int(self.lengths.max(initial=0)).bit_length())
        keys = np.multiply.outer(self.lengths.view(np.uint64), lanes[:, 0])
        if len(filled):
            for key, lane in zip(keys.T, lanes[:, 1:], strict=True):
                products = lane.take(positions)
                products *= ids
                key[filled] += np.add.reduceat(products, self.starts[filled])
        return keys


def short_keys(sequences: Ragged) -> Asked:
    """64 bits of the key of each sequence: enough to tell the thousands apart that one explanation asks for."""
    return np.ascontiguousarray(sequences.keys()[:, 0])


@cache
def _multipliers(bits: int) -> Keys:
    """For each of two hashes random multipliers of the length and of the first 2^bits positions."""
    drawn: Keys = np.random.PCG64(2024).random_raw(2 * (2**bits + 1))
    return np.ascontiguousarray(drawn.reshape(-1, 2).T)


def distinct(keys: Keys, lengths: Ints) -> tuple[Ints, Ints]:
    """A row of each distinct key, by falling length, then key; and for every row its index among these.

    The order depends on the set alone, however it was asked for.
    """
    order = np.lexsort((keys[:, 1], keys[:, 0], -lengths))
    ordered = keys.take(order, axis=0)
    changes = ordered[1:] != ordered[:-1]
    new = np.ones(len(keys), np.bool_)
    np.logical_or(changes[:, 0], changes[:, 1], out=new[1:])
    index = np.empty(len(keys), np.int64)
    index[order] = np.cumsum(new) - 1
    return order[new], index
