"""A black box behind an OpenAI-compatible chat endpoint: log-odds from the label words' log-probabilities."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_bench.backends.callable_backend import PUNCTUATION, CallableBackend, HashedWords, content_texts
from slalom_bench.backends.endpoint import Endpoint, Limits, Top, checked_endpoint
from slalom_bench.core.types import Ints
from slalom_bench.errors import InvalidInput

TEMPLATE_VERSION = 1
"""Of the prompt, part of the identity."""
TOP = 20
"""The most alternatives that the wire format lists for a token."""


class LabelMissing(UserWarning):
    """A label word is not among the listed tokens, so its log-probability is only bounded."""


def label_words(class_names: Sequence[str]) -> tuple[str, ...]:
    """The class names if their first letters differ, else A, B, C: the first token must tell them apart."""
    names = tuple(name.strip() for name in class_names)
    if all(names) and len({name[0].casefold() for name in names}) == len(names):
        return names
    if len(names) > 26:
        raise InvalidInput(f"{len(names)} classes; the first token of a reply can tell 26 apart at most")
    return tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(names)])


def messages(text: str, class_names: Sequence[str], labels: Sequence[str]) -> list[dict[str, str]]:
    """The zero-shot prompt (template version 1)."""
    spelled = [name.strip() for name in class_names] == list(labels)
    options = list(labels) if spelled else [f"{a} ({b})" for a, b in zip(labels, class_names, strict=True)]
    system = (
        f"You classify texts. The classes are: {', '.join(options)}. "
        f"Answer with one word only, exactly one of: {', '.join(labels)}."
    )
    return [{"role": "system", "content": system}, {"role": "user", "content": f"Text: {text}\n\nClass:"}]


def label_log_probabilities(top: Top, labels: Sequence[str]) -> tuple[NDArray[np.float64], list[str]]:
    """Log-probability of each label word, and the words that were missing from the list.

    A listed token counts for a label if it is the word or the beginning of it, whatever its case and white space.
    A missing word gets the smallest listed log-probability: an upper bound of everything that is not listed.
    """
    found: list[list[float]] = [[] for _ in labels]
    for token, value in top:
        word = token.strip().casefold()
        for mass, label in zip(found, labels, strict=True):
            if word and label.casefold().startswith(word):
                mass.append(value)
    missing = [label for mass, label in zip(found, labels, strict=True) if not mass]
    if len(missing) == len(labels):
        heard = ", ".join(repr(token) for token, _ in top[:5])
        raise InvalidInput(f"the model answers with none of the label words {', '.join(labels)}, but with {heard}")
    floor = min(value for _, value in top)
    return np.array([np.logaddexp.reduce(mass) if mass else floor for mass in found]), missing


class OpenAIBackend(CallableBackend):
    """`openai:MODEL`: zero-shot classification by a chat model, over words and punctuation marks.

    Args:
        model: the endpoint's name for it.
        class_names: what it is asked to tell apart.
        base_url: the endpoint, as in https://HOST/v1.
        cache: the folder under which every answer is kept.
        concurrency: how many requests are under way at a time.
        limits: the cap on requests, the time-out and the retries.
    """

    device = "remote"
    token_budget = 65536
    """Of the texts of one call; `concurrency` of them are under way at a time."""
    pads = False

    def __init__(
        self,
        model: str,
        class_names: Sequence[str],
        *,
        base_url: str | None,
        cache: Path,
        concurrency: int = 8,
        limits: Limits | None = None,
    ) -> None:
        if not model:
            raise InvalidInput("openai needs a model name, as in openai:MODEL")
        if concurrency < 1:
            raise InvalidInput(f"concurrency must be at least 1, not {concurrency}")
        address = checked_endpoint(base_url)
        self.labels = label_words(class_names)
        super().__init__(
            self.log_probabilities,
            HashedWords(PUNCTUATION),
            class_names=class_names,
            output="logits",
            takes="text",
            name=f"openai:{model}",
            identity=f"{address} {model} template {TEMPLATE_VERSION} {self.labels} top {TOP}",
        )
        folder = cache / "openai" / hashlib.sha256(f"{address} {model}".encode()).hexdigest()[:16]
        self.endpoint = Endpoint(address, folder, limits or Limits())
        self.model = model
        self.concurrency = concurrency
        self.answers = 0
        self.floored = 0
        """Answers in which a label word was missing, so that its log-probability is the floor."""

    def payload(self, text: str) -> dict[str, Any]:
        """The request for one text: one token, at temperature 0, with its likeliest alternatives."""
        return {
            "model": self.model,
            "messages": messages(text, self.class_names, self.labels),
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": TOP,
        }

    def log_probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Log-probabilities of the label words (texts x classes): logits up to a constant in each row."""
        payloads = [self.payload(text) for text in texts]
        self.endpoint.check_cap(sum(self.endpoint.cached(payload) is None for payload in payloads))
        with ThreadPoolExecutor(self.concurrency) as pool:
            futures = [pool.submit(self.endpoint.ask, payload) for payload in payloads]
            try:
                tops = [future.result() for future in futures]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        read = [label_log_probabilities(top, self.labels) for top in tops]
        self._note([missing for _, missing in read if missing])
        self.answers += len(read)
        return np.stack([values for values, _ in read])

    def _note(self, missing: list[list[str]]) -> None:
        if missing and not self.floored:
            warnings.warn(
                f"{self.name}: the label word {missing[0][0]!r} is not among the {TOP} listed tokens; it gets the "
                "smallest listed log-probability, so the log-odds are too small in size. report() counts such answers",
                LabelMissing,
                stacklevel=5,
            )
        self.floored += len(missing)

    def report(self) -> dict[str, int]:
        """What a run has to say of its answers and requests."""
        sent, cap = self.endpoint.sent, self.endpoint.max_requests
        return {"answers": self.answers, "floored": self.floored, "requests": sent, "max_requests": cap}

    def estimate(self, queries: int, sequences: Sequence[Ints] = ()) -> dict[str, int]:
        """At most what `queries` will cost, from the mean length of some sequences at four characters a token."""
        texts = content_texts(self.tokens, sequences) or [""]
        lengths = [sum(len(message["content"]) for message in self.payload(text)["messages"]) for text in texts]
        prompt = math.ceil(queries * float(np.mean(lengths)) / 4)
        return {
            "requests": queries,
            "prompt_tokens": prompt,
            "completion_tokens": queries,
            "max_requests": self.endpoint.max_requests,
        }
