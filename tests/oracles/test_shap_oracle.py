"""shap.KernelExplainer without feature selection: its own coalitions give our regression its own values."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np
import pytest
import shap

from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Sample
from slalom_bench.explainers.kernel_shap import KernelShap, coalitions, shapley_regression
from slalom_bench.handle.classifier import Classifier


@pytest.fixture
def seeded() -> Iterator[None]:
    """shap draws from numpy's global state: seed it, and put it back."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    yield
    np.random.set_state(state)  # noqa: NPY002


def run_shap(classifier: Classifier, sample: Sample, samples: int) -> tuple[shap.KernelExplainer, np.ndarray]:
    explainer = shap.KernelExplainer(
        lambda rows: classifier.masked_log_odds(sample, rows.astype(np.bool_)), np.zeros((1, len(sample)))
    )
    return explainer, explainer.shap_values(np.ones(len(sample)), nsamples=samples, l1_reg=0, silent=True)


@pytest.mark.parametrize(("length", "samples"), [(8, 10000), (10, 300), (25, 400), (60, 1000)])
@pytest.mark.usefixtures("seeded")
def test_same_coalitions_same_values(length, samples):
    classifier = Classifier(random_backend("bert", seed=3))
    sample = Sample("a", np.random.default_rng(length).integers(5, 60, length))
    explainer, theirs = run_shap(classifier, sample, samples)
    used = slice(explainer.nsamplesAdded)
    ours, base, _ = shapley_regression(
        explainer.maskMatrix[used].astype(np.bool_),
        explainer.kernelWeights[used],
        np.asarray(explainer.ey)[used, 0],
        float(explainer.fx[0]),
        float(explainer.fnull[0]),
    )
    assert np.abs(ours - theirs).max() < 1e-6
    assert base == pytest.approx(explainer.expected_value)


@pytest.mark.usefixtures("seeded")
def test_equal_end_to_end_when_all_coalitions_are_enumerated():
    classifier = Classifier(random_backend("distilbert", seed=3))
    sample = Sample("a", np.random.default_rng(7).integers(5, 60, 9))
    _, theirs = run_shap(classifier, sample, 10000)
    ours = KernelShap().explain(classifier, sample, 512, np.random.default_rng(0))
    assert np.abs(ours.scores["attribution"] - theirs).max() < 1e-6


@pytest.mark.parametrize(("length", "samples"), [(6, 40), (7, 1000), (12, 200), (30, 100), (30, 500)])
@pytest.mark.usefixtures("seeded")
def test_the_same_sizes_are_enumerated_with_the_same_weights(length, samples):
    explainer = shap.KernelExplainer(lambda rows: rows @ np.arange(length), np.zeros((1, length)))
    explainer.shap_values(np.ones(length), nsamples=samples, l1_reg=0, silent=True)
    used = slice(explainer.nsamplesAdded)
    theirs, their_weights = explainer.maskMatrix[used].sum(axis=1), explainer.kernelWeights[used]
    masks, weights = coalitions(length, samples, np.random.default_rng(0))
    ours = masks.sum(axis=1)
    assert len(ours) == len(theirs)
    for size in range(1, length):
        complete = [comb(length, size) == (sizes == size).sum() for sizes in (ours, theirs)]
        assert complete[0] == complete[1]
        if complete[0] and len(np.unique(their_weights[theirs == size])) == 1:
            np.testing.assert_allclose(weights[ours == size], their_weights[theirs == size], rtol=1e-9)
    assert weights.sum() == pytest.approx(their_weights.sum())
