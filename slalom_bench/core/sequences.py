"""Many id sequences as one array, their hash keys, and which of them are distinct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.types import Asked, Ints

Keys = NDArray[np.uint64]
"""A row of two numbers for each sequence."""


class Places(NamedTuple):
    """Positions that sequences say themselves: ids may stand further back than their number in the sequence."""

    of_ids: Ints
    """Of every id, sequence after sequence; rising inside a sequence."""
    spans: Ints
    """Of each sequence: the position of whatever comes behind it."""


class Ragged(Sequence[Ints]):
    """Id sequences of any lengths laid end to end: a sequence of vectors, with arithmetic for all of them at once.

    Args:
        ids: all ids, sequence after sequence.
        lengths: of each sequence.
        places: the positions of the ids; None for 0, 1, 2, ... in every sequence.

    >>> [row.tolist() for row in Ragged.of([np.array([5, 6]), np.array([7])])]
    [[5, 6], [7]]
    """

    __slots__ = ("ends", "ids", "lengths", "places")

    def __init__(self, ids: Ints, lengths: Ints, places: Places | None = None) -> None:
        self.ids = ids
        self.lengths = lengths
        self.places = places
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
        part = slice(self.ends[start] - self.lengths[start], self.ends[stop - 1])
        places = self.places
        if places is not None:
            places = Places(places.of_ids[part], places.spans[start:stop])
        return Ragged(self.ids[part], self.lengths[start:stop], places)

    def pick(self, rows: Ints | slice, prefix: Sequence[int] = (), suffix: Sequence[int] = ()) -> Ragged:
        """The sequences of these rows, each between a prefix and a suffix, which stands behind its span."""
        lengths = self.lengths[rows] + (len(prefix) + len(suffix))
        ends = lengths.cumsum()
        starts = ends - lengths
        index = np.arange(lengths.sum())
        index += np.repeat(self.starts[rows] - starts - len(prefix), lengths)
        ids = _taken(self.ids, index)
        for i, token in enumerate(prefix):
            ids[starts + i] = token
        for i, token in enumerate(reversed(suffix), start=1):
            ids[ends - i] = token
        if self.places is None:
            return Ragged(ids, lengths)
        of_ids = _taken(self.places.of_ids, index) + len(prefix)
        spans = self.places.spans[rows] + (len(prefix) + len(suffix))
        for i in range(len(prefix)):
            of_ids[starts + i] = i
        for i in range(1, len(suffix) + 1):
            of_ids[ends - i] = spans - i
        return Ragged(ids, lengths, Places(of_ids, spans))

    def positions(self) -> Ints:
        """The position of each id: where it says it stands, or its number in the sequence."""
        return self._numbers() if self.places is None else self.places.of_ids

    @property
    def spans(self) -> Ints:
        """How many positions each sequence spans: its length, or more where it leaves some empty."""
        return self.lengths if self.places is None else self.places.spans

    def spread(self, empty: int) -> Ragged:
        """The same with an id at every position that its sequences leave empty, so that all stand at 0, 1, 2, ..."""
        if self.places is None:
            return self
        starts = self.places.spans.cumsum() - self.places.spans
        ids = np.full(self.places.spans.sum(), empty, np.int64)
        ids[np.repeat(starts, self.lengths) + self.places.of_ids] = self.ids
        return Ragged(ids, self.places.spans)

    def _numbers(self) -> Ints:
        """Of each id in its sequence."""
        positions = np.arange(len(self.ids))
        positions -= np.repeat(self.starts, self.lengths)
        return positions

    def keys(self) -> Keys:
        """Two multilinear hashes modulo 2^64 of each sequence and its length, the same in every process.

        Ids that do not stand at 0, 1, 2, ... make another query: by how much they, and the end, stand further back is
        hashed too. Where that is nothing the key is that of the sequence without explicit positions.

        Over the draw of the multipliers, two sequences of ids below 2^18 share a key with a probability below 2^-93:
        among 4 million, any two do with one below 2^-50.
        """
        numbers = self._numbers()
        keys = self._hashed(self.ids, self.lengths, numbers, 2024)
        if self.places is not None:
            keys += self._hashed(self.places.of_ids - numbers, self.places.spans - self.lengths, numbers, 2025)
        return keys

    def _hashed(self, values: Ints, ends: Ints, numbers: Ints, seed: int) -> Keys:
        """Multilinear hashes of one value for each id and one for each sequence."""
        filled, factors = np.flatnonzero(self.lengths), values.view(np.uint64)
        lanes = _multipliers(int(self.lengths.max(initial=0)).bit_length(), seed)
        keys = np.multiply.outer(ends.view(np.uint64), lanes[:, 0])
        if len(filled):
            for key, lane in zip(keys.T, lanes[:, 1:], strict=True):
                products = lane.take(numbers)
                products *= factors
                key[filled] += np.add.reduceat(products, self.starts[filled])
        return keys


def _taken(values: Ints, index: Ints) -> Ints:
    """A new array of these; what the index has beyond them is for the caller to fill."""
    return values.take(index, mode="clip") if len(values) else np.empty(len(index), np.int64)


def short_keys(sequences: Ragged) -> Asked:
    """64 bits of the key of each sequence: enough to tell the thousands apart that one explanation asks for."""
    return np.ascontiguousarray(sequences.keys()[:, 0])


@cache
def _multipliers(bits: int, seed: int) -> Keys:
    """For each of two hashes random multipliers of the length and of the first 2^bits positions."""
    drawn: Keys = np.random.PCG64(seed).random_raw(2 * (2**bits + 1))
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
