"""What an explainer gives one parameter: a position, or all positions of one token id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.types import Bools, Ints, Sample
from slalom_bench.errors import InvalidInput

if TYPE_CHECKING:
    from slalom_bench.numerics.designs import Design

_TIES = ("position", "token")


@dataclass(frozen=True)
class Features:
    """The d features of a sample, numbered from 0.

    Args:
        ids: the token id of each feature (d).
        of_position: the feature of each position (n).
    """

    ids: Ints
    of_position: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def design(self, keep: Bools) -> Design:
        """How often each feature is kept by masks over positions (m x n), as a SLALOM fit wants it."""
        from slalom_bench.numerics.designs import Design

        return Design.of_deletions(keep, self.of_position, len(self))


def tied_features(sample: Sample, tie: str) -> Features:
    """The features of a sample.

    Args:
        sample: the sample.
        tie: `position` (each its own feature) or `token` (positions of one token id share a feature).

    >>> tied_features(Sample("x", [7, 5, 7]), "token").of_position.tolist()
    [1, 0, 1]
    """
    if tie == "position":
        return Features(sample.ids, np.arange(len(sample)))
    if tie == "token":
        ids, of_position = np.unique(sample.ids, return_inverse=True)
        return Features(ids, of_position)
    raise InvalidInput(f"unknown tie {tie!r}; one of {', '.join(_TIES)}")
