"""Generated tasks with a known truth: a linear one (appendix E.1) and a SLALOM one (appendix E.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slalom_bench.core.parameters import Count, Natural, Size
from slalom_bench.core.seeds import generator
from slalom_bench.core.types import DataSource, Example, Floats, Ints, TaskData
from slalom_bench.data.splits import content_hash
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import task

CLASSES = ("negative", "positive")
_CITATION = "Leemann et al. 2025, Attention Mechanisms Don't Learn Additive Models, TMLR, appendix"
_MAX_LENGTH = 30

LINEAR = {
    "the": (0.0, 1 / 6),
    "we": (0.0, 1 / 6),
    "movie": (0.0, 1 / 6),
    "watch": (0.0, 1 / 6),
    "good": (0.6, 1 / 15),
    "best": (1.0, 1 / 20),
    "perfect": (1.5, 1 / 20),
    "ok": (-0.6, 1 / 15),
    "bad": (-1.0, 1 / 20),
    "worst": (-1.5, 1 / 20),
}
"""Word: (weight, probability)."""

SCORED_WORDS = {
    (0.70, 0.92): "excellent wonderful superb brilliant perfect amazing masterpiece outstanding fantastic beautifully "
    "magnificent favorite",
    (0.30, 0.60): "great best loved love beautiful touching powerful strong perfectly memorable enjoyed delightful "
    "charming hilarious moving unique subtle fascinating gem impressive tender stunning remarkable refreshing warm "
    "rich brave wise haunting gripping heart",
    (0.08, 0.25): "good fun nice fine interesting enjoy classic recommend family young life world music dance journey "
    "simple friends dream today realistic bright gentle sweet honest solid clever",
    (-0.06, 0.06): "the a and of to in is it that this with for on as was film movie story people man woman time scene "
    "scenes actor actress director character role part house city night day car door book street train water phone "
    "river hand eyes face voice room table school town country war year morning song camera theater series episode "
    "television script line plot",
    (-0.25, -0.08): "only just so even because no why minutes half trying money maybe supposed looked idea effects "
    "dialogue least instead either rather nothing any seems reason fake slow",
    (-0.60, -0.30): "bad boring dull poor weak silly lame predictable cheap mess annoying disappointing disappointed "
    "stupid fails failed flat tired empty ugly cold ridiculous badly forced wooden confused avoid lacks problem",
    (-0.95, -0.70): "worst awful terrible horrible waste poorly pathetic garbage pointless crap disaster wasted",
}
"""Range of a bag-of-words score: the words of a review vocabulary that fall into it."""


@dataclass(frozen=True)
class _DataGeneratingProcess:
    """The distribution of texts, and the true log-odds (of word indices) that their labels are drawn with.

    Words are independent with `probability`; a label is 1 with probability sigmoid(log-odds).
    """

    name: str
    words: tuple[str, ...]
    probability: Floats
    lengths: Callable[[np.random.Generator, int], Ints]
    log_odds: Callable[[Ints], float]
    truth: dict[str, Any]

    def draw(self, count: int, seed: int, part: str) -> tuple[Example, ...]:
        """`count` labelled texts; `part` keeps the draws of one seed apart (evaluation, train, fresh)."""
        if not isinstance(count, int) or count < 0:
            raise InvalidInput(f"{self.name}: {part} needs a number of texts, not {count!r}")
        rng = generator(seed, self.name, part)
        lengths = np.maximum(self.lengths(rng, count), 1)
        picks = rng.choice(len(self.words), size=int(lengths.sum()), p=self.probability)
        texts = np.split(picks, np.cumsum(lengths))[:-1]
        odds = np.array([self.log_odds(text) for text in texts])
        labels = rng.random(count) < 1 / (1 + np.exp(-odds))
        return tuple(
            Example(f"{part}-{seed}-{i}", " ".join(self.words[word] for word in text), int(label))
            for i, (text, label) in enumerate(zip(texts, labels, strict=True))
        )

    def given(self, texts: str) -> tuple[Example, ...]:
        """The texts that a parameter names, without labels: `a b|c*3` is "a b", "c", "c c", "c c c"."""
        found: list[str] = []
        for text in texts.split("|"):
            word, _, times = text.partition("*")
            repeated = times.isdecimal() and 1 <= int(times) <= _MAX_LENGTH
            found += [" ".join([word] * count) for count in range(1, int(times) + 1)] if repeated else [text]
        unknown = sorted({word for text in found for word in text.split()} - set(self.words))
        if unknown or not all(found):
            raise InvalidInput(
                f"{self.name}: texts={texts!r}: words of {', '.join(self.words)}, | between texts, word*N with N up to "
                f"{_MAX_LENGTH}" + (f"; not {', '.join(unknown)}" if unknown else "")
            )
        return tuple(Example(f"given-{i}", text) for i, text in enumerate(dict.fromkeys(found)))

    def load(self, seed: int, evaluation_size: int, train_size: int) -> TaskData:
        """Evaluation and training texts of one seed."""
        evaluation = self.draw(evaluation_size, seed, "evaluation")
        train = self.draw(train_size, seed, "train")
        source = DataSource("generated", f"{self.name}, seed {seed}", content_hash(evaluation, train))
        return TaskData(self.name, source, CLASSES, evaluation, train, self.truth)


@task(
    "synthetic-linear",
    version=1,
    source="generated, no download",
    licence="generated by this package",
    citation=f"{_CITATION} E.1",
    generated=True,
    training={"epochs": 5},
    class_names=CLASSES,
    revision="1",
)
class SyntheticLinear:
    """Ten words whose weights add up to the log-odds; length Bin(30, 1/2). Transformers cannot learn it (Fig. 3).

    F(t) = sum_i w(t_i); label ~ Bernoulli(sigmoid(F)). Gives labels, training texts and truth.

    Choose it:
        To test a method where the truth is additive, and to see what no transformer can represent.

    Example:
        "best worst the": 1.0 - 1.5 + 0 = -0.5, so the label is 1 with probability 1 / (1 + e^0.5) = 0.38.

    Args:
        seed: of the texts.
        evaluation_size: how many texts are evaluated.
        train_size: how many may be trained on.
        texts: what to evaluate instead, in the task's words, | between texts; `perfect*30` is it 1 to 30 times.

    Reference:
        Leemann et al. 2025, appendix E.1 and Fig. 3.

    >>> SyntheticLinear(evaluation_size=1).load(None).truth["weight"]["perfect"]
    1.5
    """

    def __init__(
        self, seed: Natural = 0, evaluation_size: Count = 500, train_size: Size = 5000, texts: str = ""
    ) -> None:
        self.seed = seed
        self.evaluation_size = evaluation_size
        self.train_size = train_size
        self.texts = texts

    def load(self, data_dir: Path | None) -> TaskData:
        """Evaluation and training texts of the seed; nothing is read."""
        process = _linear_process()
        data = process.load(self.seed, self.evaluation_size, self.train_size)
        if not self.texts:
            return data
        evaluation = process.given(self.texts)
        source = replace(data.source, content_hash=content_hash(evaluation, data.train))
        return replace(data, evaluation=evaluation, source=source)

    def generate(self, count: int, seed: int) -> tuple[Example, ...]:
        """`count` fresh texts, e.g. for one epoch of training; never the draws of `load`."""
        return _linear_process().draw(count, seed, "fresh")


@task(
    "synthetic-slalom",
    version=1,
    source="generated, no download",
    licence="generated by this package",
    citation=f"{_CITATION} E.2",
    generated=True,
    training={"epochs": 20},
    class_names=CLASSES,
    revision="1; words and scores are this package's own, not the authors' file",
)
class SyntheticSlalom:
    """Up to 200 review words with known value and importance; labels from their SLALOM log-odds (Tables 7, 8).

    F(t) = sum_i w(t_i) v(t_i) / sum_i w(t_i) with w = exp(s), v = 2 x a bag-of-words score, s = 5 |v|^1.5 + N(0, 1)/2;
    words uniform, length uniform in 1..30. Gives labels, training texts and truth.

    Choose it:
        To test a method where the truth is a SLALOM: every value and importance is known.

    Example:
        "great movie": values 0.89 and 0.10, importances 1.49 and -3.22, so weights e^1.49 = 4.44 and e^-3.22 = 0.04.
        F = (4.44 x 0.89 + 0.04 x 0.10) / 4.48 = 0.89: the text says what its one weighty word says.

    Args:
        vocabulary: how many of the words are used, 16 to 200; importances are centred on those.
        seed: of the texts; words and parameters are the same for every seed.
        evaluation_size: how many texts are evaluated.
        train_size: how many may be trained on.

    Reference:
        Leemann et al. 2025, appendix E.2, Tables 7 and 8. Words and scores are this package's own.
    """

    def __init__(
        self, vocabulary: Count = 200, seed: Natural = 0, evaluation_size: Count = 500, train_size: Size = 20_000
    ) -> None:
        self.vocabulary = vocabulary
        self.seed = seed
        self.evaluation_size = evaluation_size
        self.train_size = train_size

    def load(self, data_dir: Path | None) -> TaskData:
        """Evaluation and training texts of the seed; nothing is read."""
        return _slalom_process(self.vocabulary).load(self.seed, self.evaluation_size, self.train_size)

    def generate(self, count: int, seed: int) -> tuple[Example, ...]:
        """`count` fresh texts, e.g. for one epoch of training; never the draws of `load`."""
        return _slalom_process(self.vocabulary).draw(count, seed, "fresh")


def _linear_process() -> _DataGeneratingProcess:
    """Appendix E.1: the log-odds are the sum of the words' weights."""
    weight = np.array([weight for weight, _ in LINEAR.values()])
    probability = np.array([probability for _, probability in LINEAR.values()])
    return _DataGeneratingProcess(
        "synthetic-linear",
        tuple(LINEAR),
        probability / probability.sum(),
        lambda rng, count: rng.binomial(_MAX_LENGTH, 0.5, count),
        lambda text: float(weight[text].sum()),
        {"kind": "linear", "weight": dict(zip(LINEAR, weight.tolist(), strict=True))},
    )


def _slalom_process(vocabulary: int) -> _DataGeneratingProcess:
    """Appendix E.2: v = 2 x score, s = 5 |v|^1.5 + N(0, 1)/2, centred over the words that are used."""
    scored = [(word, bounds) for bounds, words in SCORED_WORDS.items() for word in words.split()]
    if not isinstance(vocabulary, int) or not 16 <= vocabulary <= len(scored):
        raise InvalidInput(f"synthetic-slalom: vocabulary must be from 16 to {len(scored)}, not {vocabulary!r}")
    rng = generator(0, "synthetic-slalom", "words")
    value = 2 * np.array([rng.uniform(*bounds) for _, bounds in scored])
    importance = 5 * np.abs(value) ** 1.5 + rng.standard_normal(len(scored)) / 2
    used = rng.permutation(len(scored))[:vocabulary]
    words = tuple(scored[index][0] for index in used)
    value, importance = value[used], importance[used] - importance[used].mean()
    power = np.exp(importance)
    return _DataGeneratingProcess(
        "synthetic-slalom",
        words,
        np.full(vocabulary, 1 / vocabulary),
        lambda rng, count: rng.integers(1, _MAX_LENGTH + 1, count),
        lambda text: float((power[text] * value[text]).sum() / power[text].sum()),
        {
            "kind": "slalom",
            "value": dict(zip(words, value.tolist(), strict=True)),
            "importance": dict(zip(words, importance.tolist(), strict=True)),
        },
    )
