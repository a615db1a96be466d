"""The removal rule `gap`: a removed token goes, and the others keep their positions."""

from __future__ import annotations

import numpy as np

from slalom_bench.core.removal import checked_keep
from slalom_bench.core.sequences import Places, Ragged
from slalom_bench.core.tokens import Tokens
from slalom_bench.core.types import Bools, Ints
from slalom_bench.registry import removal


@removal("gap", version=1, needs={"positions"})
class Gap:
    """Drop the ids and leave the gap: the text is shorter, but every token keeps its position id.

    Beside `delete` it tells what a missing token does from what moving the others does. Special tokens keep their
    positions too. To attention it is what `pad` is, with fewer tokens to compute. Of rotary positions (ModernBERT,
    Llama) the differences stay. Where layers count places themselves (ALiBi of BLOOM, distances of DeBERTa, windows)
    hidden tokens fill the gaps, as under `pad`. Models that know no position of a token (Mamba, a bag of words, a black
    box) are refused.

    Choose it:
        Beside `delete`, to tell what a missing token does from what moving the others does.

    Example:
        Ids 7 8 9 without the second: [CLS] 7 9 [SEP] at positions 0 1 3 4; 9 stays at 3.
    """

    closes_gaps = False

    def apply(self, ids: Ints, keep: Bools, tokens: Tokens) -> Ragged:
        """The kept ids of every mask, end to end, each with its place in the sample."""
        ids, keep = checked_keep(ids, keep)
        places = Places(np.nonzero(keep)[1], np.full(len(keep), len(ids), np.int64))
        return Ragged(np.broadcast_to(ids, keep.shape)[keep], np.count_nonzero(keep, axis=1), places)
