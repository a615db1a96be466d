"""The shap package: KernelExplainer's own coalitions give our regression its values, PartitionExplainer's and
PermutationExplainer's values are ours at equal evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np
import pytest
import shap

from slalom_bench import registry
from slalom_bench.backends.hf_files import load_tokens
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.tokens import encode
from slalom_bench.core.types import Example, Sample
from slalom_bench.explainers.kernel_shap import KernelShap, coalitions, shapley_regression
from slalom_bench.explainers.partition_shap import PartitionShap, Tree, segments, token_tree
from slalom_bench.explainers.permutation_shap import Walks
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


TEXTS = (
    "Isn't it unlikely (or impossible), but not unwatchable? The director's cut, and the (very) long one, drags on.",
    "( ) . , 's t ' and but or [CLS] [x] !? unbelievably well-made ... \"quoted\"",
)


class Positions(shap.maskers.Masker):
    """Masks of positions as they are, with a tree: what the package then calls its model with are keep-masks."""

    def __init__(self, tree: Tree | None = None, n: int = 0) -> None:
        self.shape, self.data = (1, n), None
        if tree is not None:
            sizes = tree.members.sum(axis=1)[tree.members.shape[1] :]
            self.clustering = np.column_stack([tree.children, sizes / sizes.max(), sizes]).astype(np.float64)

    def __call__(self, mask: np.ndarray, row: np.ndarray) -> np.ndarray:
        return mask.reshape(1, -1)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("model", ["mini-bert", "mini-gpt2"])
def test_the_tree_is_that_of_the_text_masker(text, model):
    tokens = load_tokens(registry.models.build(model).directory, ModelOptions())
    sample = encode(tokens, Example("a", text), None)

    def tokenizer(part: str, return_offsets_mapping: bool = True) -> dict[str, list]:
        ids, offsets = tokens.encode(part)
        return {"input_ids": ids.tolist(), "offset_mapping": offsets.tolist()}

    theirs = shap.maskers.Text(tokenizer).clustering(text)
    ours = token_tree(segments(tokens, sample))
    np.testing.assert_array_equal(ours.children, theirs[:, :2])
    np.testing.assert_array_equal(ours.members.sum(axis=1)[len(sample) :], theirs[:, 3])


@pytest.mark.parametrize("evaluations", [2, 60, 300, 10000])
@pytest.mark.parametrize("batch_size", [5, 40])
@pytest.mark.usefixtures("seeded")
def test_partition_shap_at_equal_evaluations(evaluations, batch_size):
    classifier = Classifier(random_backend("bert", seed=3))
    sample = Sample("a", np.random.default_rng(1).integers(5, 60, 24))
    tree = token_tree(segments(classifier.tokens, sample))
    asked = 0

    def model(keep: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += len(keep)
        return classifier.masked_log_odds(sample, keep.astype(np.bool_))

    explainer = shap.PartitionExplainer(model, Positions(tree, len(sample)))
    theirs = explainer(np.ones((1, len(sample))), max_evals=evaluations + 2, batch_size=batch_size, silent=True)
    with classifier.work(evaluations + 2) as cost:
        ours = PartitionShap(batch_size).explain(classifier, sample, evaluations + 2, np.random.default_rng(0))
    assert asked == cost.queries
    np.testing.assert_allclose(ours.scores["attribution"], theirs.values[0], atol=1e-6)
    assert ours.diagnostics["base"] == pytest.approx(float(theirs.base_values[0]), abs=1e-6)


@pytest.mark.parametrize("orders", [1, 4])
@pytest.mark.usefixtures("seeded")
def test_permutation_shap_on_the_packages_own_orders(orders):
    classifier = Classifier(random_backend("bert", seed=3))
    n = 12
    sample = Sample("a", np.random.default_rng(1).integers(5, 60, n))
    asked: list[np.ndarray] = []

    def model(keep: np.ndarray) -> np.ndarray:
        asked.extend(keep.astype(np.bool_))
        return classifier.masked_log_odds(sample, keep.astype(np.bool_))

    explainer = shap.PermutationExplainer(model, Positions(n=n))
    theirs = explainer(np.ones((1, n)), max_evals=orders * (2 * n + 1), silent=True)
    paths = np.array(asked).reshape(orders, 2 * n + 1, n)
    forward = np.diff(paths[:, : n + 1].astype(np.int8), axis=1).argmax(axis=2)
    walks = Walks(np.stack([forward, forward[:, ::-1]], axis=1).reshape(-1, n), np.ones((2 * orders, n), np.bool_))
    empty, full = classifier.masked_log_odds(sample, paths[0, [0, n]])
    changes = walks.contributions(classifier.masked_log_odds(sample, walks.coalitions()), empty, full)
    np.testing.assert_allclose(changes.mean(axis=0), theirs.values[0], atol=1e-6)
    ours = {row.tobytes() for row in walks.coalitions()}
    assert ours == {row.tobytes() for row in asked if 0 < row.sum() < n}, "the same coalitions"
