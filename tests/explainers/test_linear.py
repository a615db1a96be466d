"""leave-one-out and linear-deletion against additive models, a hand-worked table and a textbook solver."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example, Explanation, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.linear import LeaveOneOut, LinearDeletion
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics import masks

WEIGHTS = {"good": 1.5, "bad": -2.0, "the": 0.0, "fine": 0.25}
TEXT = "the good good bad fine the bad good"


def explain(explainer, classifier: Classifier, sample: Sample, budget: int, seed: int = 0) -> tuple[Explanation, int]:
    with classifier.work(budget) as cost:
        result = explainer.explain(classifier, sample, budget, np.random.default_rng(seed))
    return result, cost.queries


@pytest.mark.parametrize("specials", [False, True])
@pytest.mark.parametrize("explainer", [LeaveOneOut(), LinearDeletion(), LinearDeletion(tie="token")])
def test_an_additive_model_gets_its_coefficients(explainer, specials):
    classifier = Classifier(bag_of_words(WEIGHTS, bias=0.7, specials=specials))
    sample = classifier.encode(Example("a", TEXT))
    result, queries = explain(explainer, classifier, sample, 200)
    np.testing.assert_allclose(result.scores["attribution"], [WEIGHTS[w] for w in TEXT.split()], atol=1e-5)
    keep = np.random.default_rng(1).random((30, len(sample))) < 0.6
    keep[:, 0] = True
    np.testing.assert_allclose(result.surrogate.predict(keep), classifier.masked_log_odds(sample, keep), atol=1e-5)
    assert queries == (9 if isinstance(explainer, LeaveOneOut) else 200)


def test_leave_one_out_by_hand_on_a_slalom():
    # equal importances: F is the mean of the values, 3 over a b c; without c 1.5, and so on
    classifier = Classifier(slalom_transformer({"a": 1, "b": 2, "c": 6}, {"a": 0, "b": 0, "c": 0}))
    result, _ = explain(LeaveOneOut(), classifier, classifier.encode(Example("a", "a b c")), 4)
    np.testing.assert_allclose(result.scores["attribution"], [3 - 4, 3 - 3.5, 3 - 1.5], atol=1e-5)


def test_leave_one_out_names_the_budget_it_needs():
    classifier = Classifier(bag_of_words(WEIGHTS))
    with pytest.raises(InvalidInput, match="at least 9 queries"):
        explain(LeaveOneOut(), classifier, classifier.encode(Example("a", TEXT)), 8)


@pytest.mark.parametrize("explainer", [LeaveOneOut(), LinearDeletion()])
@pytest.mark.parametrize("specials", [False, True])
def test_one_token(explainer, specials):
    """Its removal is seen where the template leaves a token; elsewhere nothing can be said of it but 0."""
    classifier = Classifier(bag_of_words(WEIGHTS, specials=specials))
    result, _ = explain(explainer, classifier, classifier.encode(Example("a", "bad")), 10)
    seen = specials and isinstance(explainer, LeaveOneOut)
    assert result.scores["attribution"] == pytest.approx([-2.0 if seen else 0.0])
    assert result.surrogate.predict(np.ones((1, 1), np.bool_)) == pytest.approx([-2.0])


def test_linear_deletion_solves_least_squares_on_the_masks_of_slalom_fidel():
    classifier = Classifier(random_backend("bert"))
    sample = Sample("a", np.random.default_rng(3).integers(5, 60, 20))
    result, _ = explain(LinearDeletion(), classifier, sample, 300, seed=7)
    keep, weights = masks.small_deletions(20, 300, np.random.default_rng(7))
    design = np.hstack([np.ones((300, 1)), ~keep]) * np.sqrt(weights)[:, None]
    truth = np.linalg.lstsq(design, np.sqrt(weights) * classifier.masked_log_odds(sample, keep), rcond=None)[0]
    np.testing.assert_allclose(result.scores["attribution"], -truth[1:], atol=1e-8)
    assert result.surrogate.predict(np.ones((1, 20), np.bool_)) == pytest.approx(truth[0])


def test_too_few_rows_give_the_least_norm_solution_and_say_so():
    classifier = Classifier(random_backend("bert"))
    sample = Sample("a", np.random.default_rng(3).integers(5, 60, 40))
    result, _ = explain(LinearDeletion(), classifier, sample, 15, seed=7)
    keep, weights = masks.small_deletions(40, 15, np.random.default_rng(7))
    outputs = classifier.masked_log_odds(sample, keep)
    root, share = np.sqrt(weights), weights / weights.sum()
    centred = root[:, None] * (keep - share @ keep)
    truth = np.linalg.lstsq(centred, root * (outputs - share @ outputs), rcond=1e-9)[0]
    np.testing.assert_allclose(result.scores["attribution"], truth, atol=1e-8)
    assert result.diagnostics["rank"] < result.diagnostics["features"] == 40
    np.testing.assert_allclose(result.scores["attribution"][keep.all(axis=0)], 0, atol=1e-12)


def test_an_unknown_tie_is_refused_by_name():
    classifier = Classifier(bag_of_words(WEIGHTS))
    with pytest.raises(InvalidInput, match="'word'"):
        explain(LinearDeletion(tie="word"), classifier, classifier.encode(Example("a", TEXT)), 10)
