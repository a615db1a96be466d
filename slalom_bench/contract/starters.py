"""What `slalom-bench new` writes: of each kind a small honest thing that works at once, and its test."""

from __future__ import annotations

from string import Template
from typing import NamedTuple


class Starter(NamedTuple):
    """The files of one kind of contribution."""

    folder: str
    """Where the registry looks for its file, in a checkout."""
    code: Template
    test: Template
    """Empty where there is nothing to test."""
    inside: str
    """How its test, in a checkout, imports what it tests."""
    outside: str
    """The same in a package of its own."""
    build: str
    """How the test makes one, in a checkout: by its registered name."""


EXPLAINER = Starter(
    "explainers",
    Template('''"""$name: say here what the method does and where it was published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import Explanation, LinearSurrogate, Sample, explainer
from slalom_bench.errors import InvalidInput

if TYPE_CHECKING:
    from slalom_bench import Classifier


@explainer(
    "$name",
    version=1,
    needs={"queries"},
    stochastic=True,
    family="additive",
)
class $cls:
    """How much a token's presence moves the log-odds, on average over random parts of the text (replace this line).

    This docstring is the method's card: replace all of it. Needs queries.

    Formula:
        score_i = mean of F over the parts that hold i - mean of F over the others

    Choose it:
        Say here when to take this method, and when another.

    Example:
        A bag of words with weights good 2, film 0, over its four parts: those with good have F = 2, others 0, so
        good has 2; of those with film one has 2 and one 0, as of those without, so film has 0.

    Args:
        keep_share: the chance that a token stays.

    Reference:
        Where it was published.
    """

    def __init__(self, keep_share: float = 0.5) -> None:
        self.keep_share = keep_share

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """At most `budget` queries, every random number from `rng`, one score for each content token."""
        if budget < 2:
            raise InvalidInput(f"a budget of {budget} queries is too small: at least 2 are needed")
        n = len(sample)
        keep = rng.random((budget, n)) < self.keep_share
        keep[0] = True  # the whole text
        keep[np.arange(budget), rng.integers(n, size=budget)] = True  # never the empty text: some models refuse it
        log_odds = classifier.masked_log_odds(sample, keep)  # one call: the handle batches and counts
        present, absent = keep.sum(axis=0), (~keep).sum(axis=0)
        scores = log_odds @ keep / present - log_odds @ ~keep / np.maximum(absent, 1)
        scores[absent == 0] = 0.0
        return Explanation(
            {"attribution": scores},
            primary="attribution",
            target=classifier.target,
            surrogate=LinearSurrogate.from_full(scores, log_odds[0]),
        )
'''),
    Template('''"""$name against the truth: add cases where you know the answer."""

from __future__ import annotations

import numpy as np

$imports


def explain_additive(budget: int = 2000) -> np.ndarray:
    """The scores on a model whose log-odds are a sum of known word weights."""
    method = $build
    classifier = Classifier(bag_of_words({"good": 2.0, "film": 0.0, "bad": -1.0}, specials=True))
    sample = classifier.encode(Example("additive", "good film bad"))
    with classifier.work(budget):
        found = method.explain(classifier, sample, budget, np.random.default_rng(0))
    return found.scores["attribution"]


def test_it_keeps_the_contract():
    report = check($subject)
    assert report.passed, str(report)


def test_it_finds_the_weights_of_an_additive_model():
    np.testing.assert_allclose(explain_additive(), [2.0, 0.0, -1.0], atol=0.3)
'''),
    "from slalom_bench import Classifier, Example, check, registry\n"
    "from slalom_bench.backends.closed_forms import bag_of_words",
    "from $module import $cls\n\nfrom slalom_bench import Classifier, Example, check\n"
    "from slalom_bench.backends.closed_forms import bag_of_words",
    'registry.explainers.build("$name")',
)

METRIC = Starter(
    "metrics",
    Template('''"""$name: say here what the metric measures and where it was published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import Explanation, Sample, Score, metric

if TYPE_CHECKING:
    from slalom_bench import Classifier
    from slalom_bench.core.context import Context


@metric(
    "$name",
    version=1,
    needs=set(),
    direction="higher",
    unit="share of all scores",
    headline="@primary",
    bounds=(0, 1),
)
class $cls:
    """Share of the sum of absolute scores that the largest tenth of the tokens has (replace this line).

    This docstring is the metric's card: replace all of it. One value for each score of the explanation; at least one
    token counts. Needs no queries. Undefined where all scores are zero.

    Formula:
        sum of |score| over the top tenth / sum of |score| over all tokens

    Choose it:
        Say here what it tells that the other metrics do not.

    Example:
        Scores 3, -1, 0, 0: the top tenth is one token, 3 / 4 = 0.75.

    Reference:
        Where it was published.
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """No query: the scores alone. Masks would come from `context.rng`, the same for every explainer."""
        values, undefined = {}, {}
        for name, scores in explanation.scores.items():
            sizes = np.sort(np.abs(scores))[::-1]
            if sizes[0] == 0:
                undefined[name] = "all scores are zero"
            else:
                values[name] = float(sizes[: max(1, len(sizes) // 10)].sum() / sizes.sum())
        return Score(values, undefined)
'''),
    Template('''"""$name by hand."""

from __future__ import annotations

import numpy as np

$imports


def score(scores: list[float]) -> Score:
    """Of an explanation with these scores; the metric asks no model and needs no context."""
    measure = $build
    sample = Sample("a", np.arange(len(scores)))
    return measure.score(None, sample, Explanation({"s": np.array(scores)}, "s", 1), None)


def test_values_by_hand():
    assert score([3.0, -1.0, 0.0, 0.0]).values == {"s": 0.75}
    assert score([1.0] * 20).values == {"s": 0.1}


def test_what_is_undefined_has_a_reason_and_no_value():
    assert score([0.0, 0.0]) == Score({}, {"s": "all scores are zero"})
'''),
    "from slalom_bench import Explanation, Sample, Score, registry",
    "from $module import $cls\n\nfrom slalom_bench import Explanation, Sample, Score",
    'registry.metrics.build("$name")',
)

TASK = Starter(
    "tasks",
    Template('''"""$name: say here what the texts are."""

from __future__ import annotations

from pathlib import Path

from slalom_bench import Example, task
from slalom_bench.core.types import DataSource, TaskData
from slalom_bench.data.splits import content_hash

CLASSES = ("negative", "positive")
TRAIN = (("a dull film", 0), ("a fine film", 1), ("what a bore", 0), ("what a joy", 1))
TEXTS = (("a film of great joy", 1), ("a great bore", 0), ("fine from start to end", 1), ("dull and long", 0))


@task(
    "$name",
    version=1,
    source="where the texts come from, in words",
    licence="under which terms",
    citation="what to cite",
    class_names=CLASSES,
)
class $cls:
    """Eight made-up film reviews of two classes, four of them for training (replace this line).

    Evaluation texts come in a fixed, shuffled order; ids are stable; no text is in both splits. A fix of the data is a
    new version. For texts from files and the hub see `slalom_bench.data.sources` and `tasks/ag_news.py`.

    Choose it:
        To try out a task (replace this).

    Example:
        "a great bore" is class 0 and "a film of great joy" class 1, of two classes (replace this).
    """

    def load(self, data_dir: Path | None) -> TaskData:
        """The texts; those of `data_dir`, where a task has files there."""
        train = tuple(Example(f"train{i}", text, label) for i, (text, label) in enumerate(TRAIN))
        evaluation = tuple(Example(f"test{i}", text, label) for i, (text, label) in enumerate(TEXTS))
        source = DataSource("generated", "$name", content_hash(evaluation, train))
        return TaskData("$name", source, CLASSES, evaluation, train)
'''),
    Template('''"""$name: what every task keeps."""

from __future__ import annotations

$imports


def test_the_texts_are_the_same_each_time_and_in_one_split_alone():
    texts = $build
    data, again = texts.load(None), texts.load(None)
    assert data == again
    assert len({example.id for example in data.evaluation}) == len(data.evaluation)
    assert not {example.text for example in data.evaluation} & {example.text for example in data.train}


def test_every_label_is_one_of_the_classes():
    data = $build.load(None)
    assert {example.label for example in (*data.train, *data.evaluation)} == set(range(len(data.class_names)))
'''),
    "from slalom_bench import registry",
    "from $module import $cls",
    'registry.tasks.build("$name")',
)

MODEL = Starter(
    "slalom_bench/models",
    Template('''"""$name: say here what the model is and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_bench import model
from slalom_bench.core.options import Availability, ModelOptions

if TYPE_CHECKING:
    from slalom_bench.core.types import TaskData
    from slalom_bench.handle.backend import Backend


@model(
    "$name",
    version=1,
    family="closed form",
)
class $cls:
    """A word's weight is its log-odds in the training texts; those of a text are their sum (replace this line).

    `load` returns a `Backend`: `slalom_bench.backends.torch_backend` has one for transformers models,
    `slalom_bench.wrap` makes one of any function from texts to probabilities.

    Choose it:
        To try out a model (replace this).

    Example:
        "good" is three times in texts of class 1 and never in others: log((3 + 1) / (0 + 1)) = 1.39 (replace this).
    """

    def load(self, task: TaskData, options: ModelOptions) -> Backend:
        """Count words by class, with one added to every count."""
        import math

        from slalom_bench.backends.closed_forms import bag_of_words

        counts: dict[str, list[int]] = {}
        for example in task.train:
            for word in example.text.split():
                counts.setdefault(word, [1, 1])[int(example.label == 1)] += 1
        return bag_of_words({word: math.log(yes / no) for word, (no, yes) in counts.items()})

    def availability(self, task_name: str | None, options: ModelOptions) -> Availability:
        """It is always there."""
        return Availability("built-in", "words counted in the training texts")
'''),
    Template('''"""$name by hand."""

from __future__ import annotations

import math

import pytest

$imports
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, TaskData


def test_log_odds_by_hand():
    train = (Example("a", "good film", 1), Example("b", "bad film", 0), Example("c", "good good", 1))
    data = TaskData("t", DataSource("generated", "t", "0" * 64), ("no", "yes"), train, train)
    counted = $build
    classifier = Classifier(counted.load(data, ModelOptions()))
    sample = classifier.encode(Example("x", "good bad film"))
    # good 3 times in class 1, bad once in class 0, film once in each, all with one more
    assert classifier.log_odds([sample.ids])[0] == pytest.approx(math.log(4 / 1) + math.log(1 / 2))
'''),
    "from slalom_bench import Classifier, Example, registry",
    "from $module import $cls\n\nfrom slalom_bench import Classifier, Example",
    'registry.models.build("$name")',
)

SUITE = Starter(
    "slalom_bench/suites",
    Template("""# slalom-bench run --suite $shown, or --suite FILE.toml; every field: slalom_bench/running/suite.py
description = "Say in a line what it compares."
tasks = ["synthetic-slalom"]
models = ["slalom-transformer"]
explainers = ["slalom-anchor", "linear-deletion", "lime", "random"]
metrics = []                                 # none: every metric that a task supports
budgets = [200]
samples = 20
seeds = [0]

[scales.small]                               # slalom-bench run --suite $shown --scale small
samples = 5
budgets = [60]
"""),
    Template(""),
    "",
    "",
    "",
)

STARTERS = {"explainer": EXPLAINER, "metric": METRIC, "task": TASK, "model": MODEL, "suite": SUITE}
