"""Explaining one sample: the one way that runs, profiles, single texts and the contract all use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slalom_bench.core.seeds import generator
from slalom_bench.core.types import Cost, Explanation, Sample
from slalom_bench.errors import InvalidInput, RunStopped, StoreError
from slalom_bench.handle.classifier import Classifier
from slalom_bench.interfaces import Explainer


@dataclass(frozen=True)
class Outcome:
    """What explaining one sample came to: an explanation or an error, and in either case its cost."""

    cost: Cost
    target: int | None = None
    explanation: Explanation | None = None
    error: Exception | None = None

    def unwrap(self) -> Explanation:
        """The explanation; the error is raised where there is none."""
        if self.explanation is None:
            raise self.error or InvalidInput("nothing was explained")
        return self.explanation


def explain_sample(
    explainer: Explainer,
    classifier: Classifier,
    sample: Sample,
    *,
    budget: int,
    seed: int,
    target: int | None = None,
    needs: Iterable[str] = (),
) -> Outcome:
    """Explain the log-odds of one class of one sample, counted and limited by the handle.

    Args:
        explainer: the method.
        classifier: the handle of the model.
        sample: the text in the model's tokens.
        budget: model queries that the method may make; the one that finds the predicted class is not among them.
        seed: with the sample's id it decides every random number.
        target: the class; else class 1 of two, and the predicted one of more.
        needs: capabilities without which the method cannot work.

    Returns:
        The explanation, with the keys of what was asked for, or the error; and the cost, as if the method had run
        alone: where the class is not given and there are more than two, one query finds it. What must stop a whole
        run (a full disk, a dead endpoint, Ctrl-C) is raised.
    """
    cost = Cost()
    try:
        # the query that finds the class is charged to every method, whoever has asked it before, and to no budget
        with classifier.work() as cost:
            target = classifier.default_target(sample) if target is None else target
            view = classifier.targeting(target)
            view.require(*needs)
            with view.work(budget), view.recording() as asked:
                explanation = explainer.explain(view, sample, budget, generator(seed, "explain", sample.id))
        if not isinstance(explanation, Explanation):
            raise InvalidInput(f"the explainer returned a {type(explanation).__name__}, not an Explanation")
        if len(explanation) != len(sample):
            raise InvalidInput(f"{len(explanation)} scores for {len(sample)} tokens")
    except (RunStopped, StoreError):
        raise
    except SystemExit as error:
        return Outcome(cost, target, error=InvalidInput(f"the explainer called sys.exit({error.code!r})"))
    except Exception as error:
        return Outcome(cost, target, error=error)
    return Outcome(cost, target, replace(explanation, asked=asked()))
