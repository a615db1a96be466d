"""The removal rule `pad`: a removed token keeps its position and loses its attention."""

from __future__ import annotations

import numpy as np

from slalom_bench.core.removal import HIDDEN, checked_keep
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.tokens import Tokens
from slalom_bench.core.types import Bools, Ints
from slalom_bench.registry import removal


@removal("pad", version=2)
class Pad:
    """Hide a removed token from attention and leave its position empty; nothing moves.

    Choose it:
        Where nothing may stand in the place of a removed token and nothing may move, in models with an attention mask.

    Example:
        Ids 7 8 9 without the second: [CLS] 7 . 9 [SEP], the dot hidden from attention; 9 stays at position 3.
    """

    closes_gaps = False

    def apply(self, ids: Ints, keep: Bools, tokens: Tokens) -> Ragged:
        """Sequences as long as the sample, with `HIDDEN` where a token was removed."""
        ids, keep = checked_keep(ids, keep)
        return Ragged.of(np.where(keep, ids, HIDDEN))
