"""A Python callable as a classifier: texts or id sequences in, log-odds, probabilities or logits out."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_bench import registry
from slalom_bench.core.removal import HIDDEN
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.tokens import HFTokens, Tokens
from slalom_bench.core.types import Ints
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.classifier import Classifier

OUTPUTS = ("log_odds", "probabilities", "logits")
"""What a callable may return."""
TAKES = ("text", "ids")
"""What it may be given."""
WHITESPACE = r"\S+"
"""Words between white space."""
PUNCTUATION = r"\w+(?:['\u2019]\w+)*|[^\w\s]"
"""Words with inner apostrophes, and every other visible character on its own."""


class HashedWords:
    """Words of an open vocabulary. An id is a hash of its word, so it is the same in every process and order.

    62 bits: a collision among a million words has odds of about 1 in 9 million; one is an error, never a mix-up.
    """

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    pad_id = 0

    def __init__(self, pattern: str = WHITESPACE) -> None:
        self.pattern = re.compile(pattern)
        self._words: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self.mask_id: int | None = self.id("[MASK]")

    def id(self, word: str) -> int:
        """The id of a word; from now on `words` can read it."""
        if word not in self._ids:
            number = (int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big") >> 2) + 1
            if self._words.setdefault(number, word) != word:
                raise InvalidInput(f"the words {word!r} and {self._words[number]!r} hash to the same id; rename one")
            self._ids[word] = number
        return self._ids[word]

    def encode(self, text: str) -> tuple[Ints, Ints | None]:
        """Ids and (start, end) offsets of the words that the pattern finds."""
        found = list(self.pattern.finditer(text))
        ids = np.array([self.id(word.group()) for word in found], np.int64)
        return ids, np.array([word.span() for word in found], np.int64).reshape(-1, 2)

    def words(self, ids: Ints) -> list[str]:
        """The words of ids that were encoded here; any other is an error."""
        try:
            return [self._words[int(i)] for i in ids]
        except KeyError as error:
            raise InvalidInput(f"word id {error.args[0]} was never seen here; encode its text first") from None

    def decode(self, ids: Ints) -> str:
        """The words with a space between any two."""
        return " ".join(self.words(ids))

    def identity(self) -> str:
        """The pattern: all that decides the ids of a text."""
        return f"hashed words {self.pattern.pattern}"


def content_texts(tokens: Tokens, sequences: Sequence[Ints]) -> list[str]:
    """The texts of whole sequences, special tokens left out: what a model that reads text is asked about."""
    refuse_hidden(sequences)
    end = -len(tokens.suffix) or None
    return [tokens.decode(sequence[len(tokens.prefix) : end]) for sequence in sequences]


def refuse_hidden(sequences: Sequence[Ints]) -> None:
    """Raise `Unsupported` for hidden positions."""
    if (Ragged.of(sequences).ids == HIDDEN).any():
        raise Unsupported("removal rule 'pad': a black box has no attention mask; use delete or mask")


def as_logits(answers: Any, output: str, rows: int, classes: int) -> NDArray[np.float64]:
    """What a callable returned, checked and as logits (rows x classes)."""
    try:
        values = np.asarray(answers.detach().cpu() if hasattr(answers, "detach") else answers, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the callable returned {type(answers).__name__}, not an array of numbers") from error
    single = classes == 2 and values.shape in ((rows,), (rows, 1))
    if not single and (values.shape != (rows, classes) or output == "log_odds"):
        allowed = [f"({rows},)"] if classes == 2 else []
        allowed += [f"({rows}, {classes})"] if output != "log_odds" else []
        wanted = " or ".join(allowed) or "two classes: return logits or probabilities for more"
        if output == "log_odds" and values.shape == (rows, classes):
            wanted += (
                '; if these are probabilities or logits, give slalom_bench.wrap(fn, output="probabilities" or "logits")'
            )
        raise InvalidInput(f"the callable returned {output} of shape {values.shape} for {rows} inputs, not {wanted}")
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise InvalidInput(f"the callable returned {bad} of {values.size} values that are not finite numbers")
    if output == "probabilities":
        return log_probabilities(np.stack([1 - values.reshape(-1), values.reshape(-1)], 1) if single else values)
    return np.stack([np.zeros(rows), values.reshape(-1)], axis=1) if single else values


def log_probabilities(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of rows of probabilities, which must lie strictly inside (0, 1) and sum to 1."""
    if (values < 0).any() or (values > 1).any():
        raise InvalidInput(
            f"probabilities from {values.min():.4g} to {values.max():.4g}; they must lie in [0, 1]: "
            'say output="logits" or output="log_odds" if that is what the callable returns'
        )
    if (off := np.abs(values.sum(axis=1) - 1).max()) > 1e-3:
        raise InvalidInput(f"the probabilities of one input sum to 1 ± {off:.3g}; they must sum to 1")
    if (values == 0).any():
        raise InvalidInput("a probability of exactly 0 or 1 has no finite log-odds; return log-odds or logits instead")
    return np.log(values)


class CallableBackend:
    """A function as the handle sees a model: queries only.

    Args:
        function: a list of texts or of id lists to one row of output each.
        tokens: the tokenizer.
        class_names: one for each class, two at least.
        output: what a row is, out of `OUTPUTS`.
        takes: what the function is given, out of `TAKES`.
        name: for messages and results.
        identity: a string that changes whenever the answers may; None for one that is never met again.
    """

    capabilities = frozenset({"queries"})
    device = "python"
    dtype = "float64"
    token_budget = 16384
    pads = True
    max_length: int | None = None

    def __init__(
        self,
        function: Callable[[Any], Any],
        tokens: Tokens,
        *,
        class_names: Sequence[str],
        output: str,
        takes: str,
        name: str,
        identity: str | None,
    ) -> None:
        if output not in OUTPUTS:
            raise InvalidInput(f"unknown output {output!r}; one of {', '.join(OUTPUTS)}")
        if takes not in TAKES:
            raise InvalidInput(f"a callable takes {' or '.join(TAKES)}, not {takes!r}")
        if len(class_names) < 2 or len(set(class_names)) < len(class_names):
            raise InvalidInput(f"a classifier needs two or more different class names, not {list(class_names)}")
        if output == "log_odds" and len(class_names) > 2:
            raise InvalidInput(f'log_odds are for two classes, not {len(class_names)}; use output="logits"')
        self.function = function
        self.tokens = tokens
        self.class_names = tuple(class_names)
        self.output = output
        self.takes = takes
        self.name = name
        self._identity = f"unnamed {uuid.uuid4()}" if identity is None else identity

    def identity(self) -> str:
        """A hash of what was given as identity, and of all settings."""
        settings = (self.name, self._identity, self.output, self.takes, self.class_names, self.tokens.identity())
        return hashlib.sha256(repr(settings).encode()).hexdigest()

    def logits(self, sequences: Sequence[Ints]) -> NDArray[np.floating]:
        """The function's answers, checked, as logits (batch x classes)."""
        if self.takes == "text":
            inputs: list[Any] = list(content_texts(self.tokens, sequences))
        else:
            refuse_hidden(sequences)
            inputs = [sequence.tolist() for sequence in Ragged.of(sequences)]
        return as_logits(self.function(inputs), self.output, len(inputs), len(self.class_names))


def wrap(
    fn: Callable[[Any], Any],
    tokenizer: Any = None,
    *,
    class_names: Sequence[str] = ("negative", "positive"),
    output: str = "log_odds",
    takes: str = "text",
    name: str = "callable",
    identity: str | None = None,
    removal: str = "delete",
) -> Classifier:
    """A Python callable as a classifier that every query-based explainer and metric can use.

    Args:
        fn: gets a list of texts, or of id lists with the tokenizer's special tokens round them, and returns one row for
            each.
        tokenizer: a transformers fast tokenizer, any `slalom_bench.core.tokens.Tokens`, or None for whitespace words.
        class_names: one for each class, two at least.
        output: what a row is: "log_odds" of class 1 (a number), "probabilities" or "logits" (a number for class 1, or
            one for each class).
        takes: "text" or "ids".
        name: for messages and results.
        identity: a string that changes whenever the answers may; without one no stored result is ever reused.
        removal: the name of a removal rule; one that hides positions needs an attention mask, which a callable lacks.

    Returns:
        The handle. Its `token_budget`, which may be set, is how many tokens of text one call of `fn` gets.

    >>> handle = wrap(lambda texts: [text.count("good") - 0.5 for text in texts])
    >>> handle.log_odds([handle.tokens.encode("so good")[0]]).tolist()
    [0.5]
    """
    if not callable(fn):
        raise InvalidInput(f"wrap needs a callable, not {type(fn).__name__}")
    tokens: Tokens
    if tokenizer is None:
        if takes == "ids":
            raise InvalidInput('takes="ids" needs the tokenizer whose ids the callable reads')
        tokens = HashedWords()
    elif hasattr(tokenizer, "encode") and hasattr(tokenizer, "prefix"):
        tokens = tokenizer
    else:
        tokens = HFTokens(tokenizer)
    backend = CallableBackend(
        fn, tokens, class_names=class_names, output=output, takes=takes, name=name, identity=identity
    )
    return Classifier(backend, removal=registry.removals.build(removal))
