"""lime's samples are the published ones, and its coefficients the closed-form ridge solution."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.lime import Lime, lime_masks
from slalom_bench.handle.classifier import Classifier

WEIGHTS = {"good": 1.5, "bad": -2.0, "the": 0.0, "fine": 0.25}
TEXT = "the good good bad fine the bad good"


def ridge(present: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, float]:
    """Weighted ridge with a free intercept, solved as one augmented least-squares problem."""
    kept, d = present.sum(axis=1), present.shape[1]
    cosine = kept / np.sqrt(np.maximum(kept, 1) * d)
    weights = np.sqrt(np.exp(-((100 * (1 - cosine)) ** 2) / 25**2))
    rows = np.sqrt(weights)[:, None] * np.hstack([np.ones((len(present), 1)), present])
    penalty = np.hstack([np.zeros((d, 1)), np.eye(d)])
    right = np.append(np.sqrt(weights) * outputs, np.zeros(d))
    solution = np.linalg.lstsq(np.vstack([rows, penalty]), right, rcond=None)[0]
    return solution[1:], float(solution[0])


@pytest.mark.parametrize("tie", ["position", "token"])
@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_coefficients_are_the_closed_form_ridge(tie, architecture):
    classifier = Classifier(random_backend(architecture))
    sample = Sample("a", np.random.default_rng(5).integers(5, 20, 24))
    with classifier.work(150) as cost:
        result = Lime(tie=tie).explain(classifier, sample, 150, np.random.default_rng(2))
    assert cost.queries == 150
    feature = np.arange(24) if tie == "position" else np.unique(sample.ids, return_inverse=True)[1]
    present = lime_masks(feature.max() + 1, 150, architecture == "bert", np.random.default_rng(2))
    weights, intercept = ridge(present, classifier.masked_log_odds(sample, present[:, feature]))
    np.testing.assert_allclose(result.scores["attribution"], weights[feature], atol=1e-8)
    np.testing.assert_allclose(result.surrogate.predict(present[:, feature]), present @ weights + intercept, atol=1e-8)


def test_an_additive_model_gets_its_coefficients_but_for_the_ridge():
    """The ridge of lime (alpha 1) shrinks by about 1 / (weighted variance of a feature): little at 4000 rows."""
    classifier = Classifier(bag_of_words(WEIGHTS, bias=0.7))
    result = Lime().explain(classifier, classifier.encode(Example("a", TEXT)), 4000, np.random.default_rng(0))
    np.testing.assert_allclose(result.scores["attribution"], [WEIGHTS[w] for w in TEXT.split()], atol=0.03)
    assert result.diagnostics["r2"] > 0.999


def test_masks_remove_one_to_all_uniformly_and_the_first_row_nothing():
    masks = lime_masks(10, 20001, True, np.random.default_rng(0))
    assert masks[0].all()
    removed = (~masks[1:]).sum(axis=1)
    np.testing.assert_allclose(np.bincount(removed, minlength=11) / 20000, [0, *[0.1] * 10], atol=0.01)
    np.testing.assert_allclose(masks[1:].mean(axis=0), 0.45, atol=0.02)
    assert lime_masks(10, 5000, False, np.random.default_rng(0)).any(axis=1).all()


@pytest.mark.parametrize("specials", [False, True])
def test_one_token(specials):
    classifier = Classifier(bag_of_words(WEIGHTS, specials=specials))
    result = Lime().explain(classifier, classifier.encode(Example("a", "bad")), 4000, np.random.default_rng(0))
    # 1 full row and 3999 empty ones of weight exp(-8): ridge leaves of -2 what one variance of about 0.57 resists
    weight = 3999 * np.exp(-8)
    variance = weight / (1 + weight)
    expected = -2 * variance / (variance + 1) if specials else 0.0
    assert result.scores["attribution"] == pytest.approx([expected], abs=1e-6)


def test_a_budget_without_a_perturbation_is_refused():
    classifier = Classifier(bag_of_words(WEIGHTS))
    with pytest.raises(InvalidInput, match="at least 2"):
        Lime().explain(classifier, classifier.encode(Example("a", TEXT)), 1, np.random.default_rng(0))
