"""What a removal rule is: how the tokens that a mask takes away are taken out of a sequence."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from slalom_bench.core.sequences import Ragged
from slalom_bench.core.tokens import Tokens
from slalom_bench.core.types import Bools, Ints
from slalom_bench.errors import InvalidInput

HIDDEN = -1
"""The id of a position that is kept but not attended to; a backend turns it into padding with attention 0."""


@runtime_checkable
class Removal(Protocol):
    """A removal rule: one file, registered with `slalom_bench.removal`.

    It works on ids, never on decoded text, and gives the same sequences for the same arguments: what is random must be
    drawn from a generator seeded by the ids. What it needs of a model beside queries is declared with `needs` where it
    is registered.
    """

    closes_gaps: bool
    """Whether the tokens behind a removed one move to earlier positions."""

    def apply(self, ids: Ints, keep: Bools, tokens: Tokens) -> Ragged:
        """Make the content sequences that keep-masks leave of a sample.

        Args:
            ids: the sample's content ids (n).
            keep: masks (m x n), True where a token is kept.
            tokens: the model's tokenizer, for its mask and padding ids.

        Returns:
            m id sequences; `HIDDEN` stands for a position without attention. They may say their positions
            (`Ragged.places`), which needs a model with `positions`.
        """
        ...


def checked_keep(ids: Ints, keep: Bools) -> tuple[Ints, Bools]:
    """Ids and keep-masks as arrays that fit each other.

    >>> checked_keep([5, 6], [[True, False]])[1].shape
    (1, 2)
    """
    ids, keep = np.asarray(ids, np.int64), np.asarray(keep, np.bool_)
    if keep.ndim != 2 or keep.shape[1] != len(ids):
        raise InvalidInput(f"keep-masks of shape {keep.shape}; expected (m, {len(ids)})")
    return ids, keep


class Delete:
    """Drop the ids and close the gap: the text is shorter, later tokens move to earlier positions. The default.

    Choose it:
        As the default of texts: what remains is a shorter text, as a person would edit it. Models also notice that
        later words move: `position-shift` says how much.

    Example:
        Ids 7 8 9 without the second: [CLS] 7 9 [SEP]; 9 moves from position 3 to 2.
    """

    closes_gaps = True

    def apply(self, ids: Ints, keep: Bools, tokens: Tokens) -> Ragged:
        """The kept ids of every mask, end to end."""
        ids, keep = checked_keep(ids, keep)
        return Ragged(np.broadcast_to(ids, keep.shape)[keep], np.count_nonzero(keep, axis=1))
