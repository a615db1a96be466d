"""Content and whole sequences: what a caller asks about, and what the model reads.

A *content* sequence holds the ids of a text alone. A *whole* sequence has the tokenizer's special-token template round
it ([CLS] content [SEP] for BERT, nothing for GPT-2); the handle adds it, and backends see whole sequences only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slalom_bench.core.removal import HIDDEN
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.tokens import Tokens
from slalom_bench.core.types import Ints
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.backend import Backend

Contents = Sequence[Ints] | Ints
"""Content sequences: vectors of ids, or the rows of a matrix of ids."""


def whole(backend: Backend, contents: Contents, rows: Ints | slice = slice(None)) -> Ragged:
    """The content sequences of these rows inside the special-token template; none empty, none too long.

    Where a sequence says its positions, special tokens before the text keep theirs, and those behind it stand where
    they stand round the full text.
    """
    laid = Ragged.of(contents).pick(rows, backend.tokens.prefix, backend.tokens.suffix)
    if not laid.lengths.min() or _all_hidden(laid):
        raise InvalidInput(f"an empty sequence: model {backend.name} adds no special token; keep at least one token")
    if laid.places is not None and "positions" not in backend.capabilities:
        raise Unsupported(
            f"model {backend.name} has no absolute positions that tokens could keep when others go (removal rule "
            "'gap'); use delete, or mask or pad where it has them"
        )
    longest = int(laid.spans.max())
    if backend.max_length is not None and longest > backend.max_length:
        raise InvalidInput(
            f"a sequence of {longest} tokens, special ones included; model {backend.name} takes "
            f"{backend.max_length}: encode with max_tokens={max_content(backend)}"
        )
    return laid


def _all_hidden(laid: Ragged) -> bool:
    """Whether a sequence has no token that is seen: what a model says of it means nothing."""
    seen = laid.ids != HIDDEN
    return not seen.all() and not np.logical_or.reduceat(seen, laid.starts).all()


def content_places(tokens: Tokens) -> slice:
    """Where the content tokens stand in a whole sequence."""
    return slice(len(tokens.prefix), -len(tokens.suffix) or None)


def max_content(backend: Backend) -> int | None:
    """How many content tokens fit between the special tokens; None where there is no limit."""
    if backend.max_length is None:
        return None
    return backend.max_length - len(backend.tokens.prefix) - len(backend.tokens.suffix)
