"""One text, one model, one or more explainers: `slalom_bench.explain(...)`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_bench import registry
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.parameters import MOST
from slalom_bench.core.references import Ref
from slalom_bench.core.types import DataSource, Example, Floats, Sample, TaskData
from slalom_bench.data.splits import text_hash
from slalom_bench.errors import InvalidInput, SlalomBenchError, Unsupported
from slalom_bench.interfaces import Explainer
from slalom_bench.running.explaining import explain_sample
from slalom_bench.showing.explained import ExplainedText, Result

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier

DEFAULT_MODEL = "mini-bert"
DEFAULT_EXPLAINER = "slalom-anchor"


FRAME_HEIGHT = 640
"""Pixels of the page in a notebook's cell; it scrolls inside."""


class Explained(ExplainedText):
    """An explained text: `e["lime"]` is an explanation; frames, figures, pages, and other packages' forms of it."""

    def plot(self, path: str | Path | None = None) -> Any:
        """A matplotlib figure (value against importance for SLALOM, bars for all), also written to a path if given."""
        from slalom_bench.showing.plots import figure, save_plot

        if path is not None:
            save_plot(self, Path(path))
        return figure(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained page, also written to a path if given."""
        from slalom_bench.showing.explain_page import page, write_page

        made = page(self)
        if path is not None:
            write_page(Path(path), made)
        return made

    def _repr_html_(self) -> str:
        """The page in a notebook, in a frame of its own so that neither's styles reach the other."""
        from html import escape

        return (
            f'<iframe sandbox="allow-scripts" title="explanation" srcdoc="{escape(self.to_html())}" '
            f'style="width:100%;height:{FRAME_HEIGHT}px;border:0"></iframe>'
        )

    def to_shap(self, explainer: str | int = 0) -> Any:
        """See `slalom_bench.showing.converting.to_shap`."""
        from slalom_bench.showing.converting import to_shap

        return to_shap(self, explainer)

    def to_captum(self) -> list[Any]:
        """See `slalom_bench.showing.converting.to_captum`."""
        from slalom_bench.showing.converting import to_captum

        return to_captum(self)


def explain(
    text: str,
    model: Any = DEFAULT_MODEL,
    explainer: Any = DEFAULT_EXPLAINER,
    *,
    task: str = "imdb",
    budget: int = 1000,
    seed: int = 0,
    seeds: int = 1,
    target: int | str | None = None,
    max_tokens: int | None = None,
    removal: str = "delete",
    options: ModelOptions | None = None,
) -> Explained:
    """Explain a model's log-odds for one text.

    Args:
        text: the text.
        model: a model's reference, a handle, or any object that `slalom_bench.backends.adopting.adopt` takes: a
            function of texts, a transformers pipeline or (model, tokenizer), a scikit-learn pipeline.
        explainer: a reference (`lime:tie=token`), an instance, or several of them.
        task: the task whose classes, and for some models data, are meant.
        budget: model queries for each explainer.
        seed: used as in a run: a text of a task gets the explanation it got there.
        seeds: how many seeds, from `seed` on, a stochastic explainer is asked with: the explanation is that of `seed`,
            and `intervals` of the result says where another seed's scores fall.
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
    if not 1 <= budget <= MOST or not 1 <= seeds <= MOST:
        raise InvalidInput(f"budget {budget}, seeds {seeds}: both must be from 1 to {MOST:,}")
    classifier, note = _classifier(model, task, removal, options)
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    if not text.strip():
        raise InvalidInput("the text is empty")
    sample = classifier.encode(Example(text_hash(text)[:16], text), max_tokens)
    view = classifier.targeting(_target(classifier, sample, target))
    chosen = explainer if isinstance(explainer, (list, tuple)) else [explainer]
    methods = [_method(which) for which in chosen]
    given = None if target is None else view.target
    results = tuple(
        _run(view, sample, given, name, method, budget, range(seed, seed + seeds)) for name, method in methods
    )
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


def _run(
    view: Classifier, sample: Sample, target: int | None, name: str, method: Explainer, budget: int, seeds: range
) -> Result:
    """The explanation of the first seed; with the others, where its scores would fall under another seed."""
    entry = registry.explainers.of(type(method))
    needs = () if entry is None else sorted(entry.needs)
    asked = seeds if entry is None or entry.stochastic else seeds[:1]
    outcomes = [
        explain_sample(method, view, sample, budget=budget, seed=seed, target=target, needs=needs) for seed in asked
    ]
    failed = next((outcome.error for outcome in outcomes if outcome.explanation is None), None)
    if isinstance(failed, SlalomBenchError):
        return Result(name, reason=str(failed))
    if failed is not None:
        return Result(name, reason=f"{type(failed).__name__}: {failed}")
    said = [outcome.unwrap() for outcome in outcomes]
    result = Result(name, said[0], outcomes[0].cost)
    if len(said) == 1:
        return result
    scores = {key: np.stack([each.scores[key] for each in said]) for key in said[0].scores}
    return replace(result, intervals={key: _prediction_interval(values) for key, values in scores.items()})


def _prediction_interval(values: Floats) -> Floats:
    """Between which two numbers one more row would fall in 95 % of cases (n x 2), of rows (k x n): Student's."""
    from scipy.special import stdtrit

    k = len(values)
    width = float(stdtrit(k - 1, 0.975)) * np.sqrt(1 + 1 / k) * values.std(axis=0, ddof=1)
    return np.stack([values.mean(axis=0) - width, values.mean(axis=0) + width], axis=1)


def _target(classifier: Classifier, sample: Sample, target: int | str | None) -> int:
    """A class by number or name; else class 1 of two, or the predicted one of more."""
    return classifier.default_target(sample) if target is None else classifier.class_number(target)


def _classifier(model: Any, task: str, removal: str, options: ModelOptions | None) -> tuple[Classifier, str]:
    """A handle, and a note if the model asked for had to give way to a stand-in."""
    from slalom_bench.handle.classifier import Classifier

    if isinstance(model, Classifier):
        return model, ""
    if not isinstance(model, str):
        from slalom_bench.backends.adopting import adopt

        return Classifier(adopt(model, _class_names(task)), removal=registry.removals.build(removal)), ""
    from slalom_bench.models.loading import load_model, resolve_model

    options = options or ModelOptions(allow_training=False)
    registry.models.build(model)  # a name or parameter that is wrong is said before any data are read
    data = _task_data(model, task, options)
    actual, reason = resolve_model(model, data, options)
    note = f"{model} could not be had ({reason})" if actual != model else reason
    return Classifier(load_model(actual, data, options), removal=registry.removals.build(removal)), note


def _class_names(task: str) -> tuple[str, ...]:
    """The classes of a task as far as they are known without its data."""
    return tuple(registry.tasks.get(Ref.parse(task).name).class_names)


def _task_data(model: str, task: str, options: ModelOptions) -> TaskData:
    """The task's data, but for models that come trained, and stand-ins that do: those need its class names only."""
    from slalom_bench.data.loading import load_task
    from slalom_bench.models.loading import model_availability

    ref = Ref.parse(task)
    folder = None if options.data_dir is None else Path(options.data_dir)
    state = model_availability(model, ref.name, options).state
    trained = Ref.parse(model).argument is not None or state in ("shipped", "unavailable")
    names = _class_names(task)
    if not trained or not names:
        return load_task(ref.spec, ref.params, folder)
    return TaskData(ref.name, DataSource("none", "no data needed", ""), names, [Example("none", "none")])
