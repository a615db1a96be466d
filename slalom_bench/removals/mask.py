"""The removal rule `mask`: a removed token becomes the tokenizer's mask token."""

from __future__ import annotations

import numpy as np

from slalom_bench.core.removal import checked_keep
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.tokens import Tokens
from slalom_bench.core.types import Bools, Ints
from slalom_bench.errors import Unsupported
from slalom_bench.registry import removal


@removal("mask", version=1)
class Mask:
    """Put the tokenizer's mask token in the place of a removed one; nothing moves.

    Choose it:
        For models that were trained with mask tokens, and for comparison with work that masks. A mask token says
        something too.

    Example:
        Ids 7 8 9 without the second: [CLS] 7 [MASK] 9 [SEP]; nothing moves.
    """

    closes_gaps = False

    def apply(self, ids: Ints, keep: Bools, tokens: Tokens) -> Ragged:
        """Sequences as long as the sample; a tokenizer without a mask token is refused."""
        ids, keep = checked_keep(ids, keep)
        if tokens.mask_id is None:
            raise Unsupported("removal rule 'mask': this tokenizer has no mask token; use delete or pad")
        return Ragged.of(np.where(keep, ids, tokens.mask_id))
