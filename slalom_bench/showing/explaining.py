"""One text, one model, one or more explainers: `slalom_bench.explain(...)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.core.types import Cost, DataSource, Example, Explanation, Sample, TaskData
from slalom_bench.data.splits import text_hash
from slalom_bench.errors import InvalidInput, SlalomBenchError, Unsupported
from slalom_bench.interfaces import Explainer
from slalom_bench.run.explaining import explain_sample
from slalom_bench.showing.units import Reading, read

if TYPE_CHECKING:
    from slalom_bench.handle.backend import Backend
    from slalom_bench.handle.classifier import Classifier

DEFAULT_MODEL = "mini-bert"
DEFAULT_EXPLAINER = "slalom-anchor"


@dataclass(frozen=True)
class Result:
    """What one explainer said, or why it could not."""

    explainer: str
    explanation: Explanation | None = None
    cost: Cost | None = None
    reason: str = ""

    @property
    def spent(self) -> str:
        """Queries and seconds in words."""
        if self.cost is None:
            return ""
        return f"{self.cost.queries} {'query' if self.cost.queries == 1 else 'queries'}, {self.cost.seconds:.2f} s"

    @property
    def is_slalom(self) -> bool:
        """Whether it has the two scores of SLALOM."""
        return self.explanation is not None and {"value", "importance"} <= self.explanation.scores.keys()


@dataclass(frozen=True)
class Explained:
    """A text with the explanations of the log-odds of one class of one model."""

    model: str
    class_names: tuple[str, ...]
    target: int
    log_odds: float
    probability: float
    sample: Sample
    words: tuple[str, ...]
    results: tuple[Result, ...]
    seed: int
    budget: int
    note: str = ""
    """Why another model than the one asked for was used."""

    @property
    def target_name(self) -> str:
        """The name of the explained class."""
        return self.class_names[self.target]

    @property
    def done(self) -> list[tuple[Result, Explanation]]:
        """The results that are explanations."""
        return [(result, result.explanation) for result in self.results if result.explanation is not None]

    def reading(self) -> Reading:
        """The text as a reader sees its tokens."""
        return read(self.sample, self.words)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; offsets are into `text`."""
        offsets = None if self.sample.offsets is None else self.sample.offsets.tolist()
        return {
            "model": self.model,
            "note": self.note or None,
            "class_names": list(self.class_names),
            "target": self.target,
            "log_odds": self.log_odds,
            "probability": self.probability,
            "budget": self.budget,
            "seed": self.seed,
            "text": self.sample.text,
            "truncated": self.sample.truncated,
            "ids": self.sample.ids.tolist(),
            "tokens": list(self.words),
            "offsets": offsets,
            "results": [
                {
                    "explainer": result.explainer,
                    "reason": result.reason or None,
                    "explanation": None if result.explanation is None else result.explanation.to_dict(),
                    "cost": None if result.cost is None else result.cost.to_dict(),
                }
                for result in self.results
            ],
        }


def explain(
    text: str,
    model: str | Classifier | Backend = DEFAULT_MODEL,
    explainer: Any = DEFAULT_EXPLAINER,
    *,
    task: str = "imdb",
    budget: int = 1000,
    seed: int = 0,
    target: int | str | None = None,
    max_tokens: int | None = None,
    removal: str = "delete",
    options: ModelOptions | None = None,
) -> Explained:
    """Explain a model's log-odds for one text.

    Args:
        text: the text.
        model: a model's reference, a handle or a backend.
        explainer: a reference (`lime:tie=token`), an instance, or several of them.
        task: the task whose classes, and for some models data, are meant.
        budget: model queries for each explainer.
        seed: used as in a run: a text of a task gets the explanation it got there.
        target: the class by number or name; else class 1 of two, and the predicted one of more.
        max_tokens: read only so many content tokens.
        removal: the removal rule's reference.
        options: how the model is loaded; by default nothing is trained.

    Returns:
        The explanations. An explainer that the model does not suit is a result with a reason; if none suits it is an
        error.

    >>> explained = explain("good fun", model="mini-bert", explainer="leave-one-out")
    >>> [len(result.explanation) for result in explained.results]
    [2]
    """
    if budget < 1:
        raise InvalidInput(f"the budget must be at least one query, not {budget}")
    classifier, note = _classifier(model, task, removal, options)
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    if not text.strip():
        raise InvalidInput("the text is empty")
    sample = classifier.encode(Example(text_hash(text)[:16], text), max_tokens)
    view = classifier.targeting(_target(classifier, sample, target))
    chosen = explainer if isinstance(explainer, (list, tuple)) else [explainer]
    methods = [_method(which) for which in chosen]
    results = tuple(_run(view, sample, name, method, budget, seed) for name, method in methods)
    if all(result.explanation is None for result in results):
        raise Unsupported("; ".join(f"{r.explainer}: {r.reason}" for r in results) or "no explainer was given")
    return Explained(
        model=classifier.name,
        class_names=classifier.class_names,
        target=view.target,
        log_odds=float(view.log_odds([sample.ids])[0]),
        probability=float(view.probabilities([sample.ids])[0, view.target]),
        sample=sample,
        words=tuple(classifier.tokens.words(sample.ids)),
        results=results,
        seed=seed,
        budget=budget,
        note=note,
    )


def _method(which: Any) -> tuple[str, Any]:
    """The name to show and the instance to run."""
    if isinstance(which, str):
        ref = Ref.parse(which)
        return str(ref), registry.explainers.get(ref.name).build(ref.params)
    if not callable(getattr(which, "explain", None)):
        raise InvalidInput(f"{which!r} has no `explain`: give a registered name or an explainer instance")
    return type(which).__name__, which


def _run(view: Classifier, sample: Sample, name: str, method: Explainer, budget: int, seed: int) -> Result:
    entry = registry.explainers.of(type(method))
    needs = () if entry is None else sorted(entry.needs)
    outcome = explain_sample(method, view, sample, budget=budget, seed=seed, target=view.target, needs=needs)
    if outcome.explanation is not None:
        return Result(name, outcome.explanation, outcome.cost)
    if isinstance(outcome.error, SlalomBenchError):
        return Result(name, reason=str(outcome.error))
    raise outcome.error or InvalidInput(f"{name} explained nothing")


def _target(classifier: Classifier, sample: Sample, target: int | str | None) -> int:
    """A class by number or name; else class 1 of two, or the predicted one of more."""
    if target is None:
        return classifier.default_target(sample)
    if isinstance(target, str) and target in classifier.class_names:
        return classifier.class_names.index(target)
    if isinstance(target, str) and not target.isdecimal():
        raise InvalidInput(f"no class {target!r}; one of {', '.join(classifier.class_names)} or its number")
    return int(target)


def _classifier(model: Any, task: str, removal: str, options: ModelOptions | None) -> tuple[Classifier, str]:
    """A handle, and a note if the model asked for had to give way to a stand-in."""
    from slalom_bench.handle.classifier import Classifier

    if isinstance(model, Classifier):
        return model, ""
    if not isinstance(model, str):
        return Classifier(model, removal=registry.removals.build(removal)), ""
    from slalom_bench.models.loading import load_model, resolve_model

    options = options or ModelOptions(allow_training=False)
    registry.models.build(model)  # a name or parameter that is wrong is said before any data are read
    data = _task_data(model, task, options)
    actual, reason = resolve_model(model, data, options)
    note = f"{model} could not be had ({reason})" if actual != model else reason
    return Classifier(load_model(actual, data, options), removal=registry.removals.build(removal)), note


def _task_data(model: str, task: str, options: ModelOptions) -> TaskData:
    """The task's data, but for models that come trained, and stand-ins that do: those need its class names only."""
    from slalom_bench.data.loading import load_task
    from slalom_bench.models.loading import model_availability

    ref = Ref.parse(task)
    folder = None if options.data_dir is None else Path(options.data_dir)
    state = model_availability(model, ref.name, options).state
    trained = Ref.parse(model).argument is not None or state in ("shipped", "unavailable")
    names = registry.tasks.get(ref.name).class_names
    if not trained or not names:
        return load_task(ref.spec, ref.params, folder)
    return TaskData(ref.name, DataSource("none", "no data needed", ""), tuple(names), [Example("none", "none")])
