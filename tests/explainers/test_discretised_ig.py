"""Discretised integrated gradients: the published rule in loops and by hand, complete on linear models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.contract.checking import check
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.discretised_ig import DiscretisedIG, monotonised, paths
from slalom_bench.handle.classifier import Classifier

SAMPLE = Sample("a", np.array([9, 30, 12, 30, 41]))


def test_a_path_by_hand():
    base = torch.tensor([0.0, 0.0])
    words = torch.tensor([[0.0, 0.0], [4.0, 4.0], [3.0, 2.0], [1.0, 5.0], [-9.0, 1.0]])
    moved = monotonised(words[3:], words[1], base, 4)
    assert moved.tolist() == [[1.0, 3.0], [3.0, 1.0]]  # 5 and -9 are not between 0 and 4: a quarter from 4 towards 0
    # from (4, 4): (3, 2) lies between and changes by nothing; then (1, 5) becomes (1, 2 - 2/3), off by 11/3
    found = paths(words[1:2], base, words, 3, near=3)[:, 0]
    np.testing.assert_allclose(found, [[0, 0], [1, 4 / 3], [3, 2], [4, 4]], atol=1e-6)


def published(word: int, base: np.ndarray, table: np.ndarray, steps: int, near: int) -> list[np.ndarray]:
    """The greedy strategy in loops: from the word to the baseline."""
    here, at, used = table[word], word, {word}
    points = [here]
    for _ in range(steps - 1):
        order = np.argsort([np.sum((table[at] - other) ** 2) for other in table], kind="stable")
        order = [j for j in order if j not in used and not (table[j] == base).all()][:near]
        best = None
        for j in order:
            vector = table[j].copy()
            for d in range(len(vector)):
                if not min(here[d], base[d]) <= vector[d] <= max(here[d], base[d]):
                    vector[d] = here[d] - (here[d] - base[d]) / steps
            distance = np.linalg.norm(vector - table[j])
            if best is None or distance < best[0]:
                best = (distance, j, vector)
        _, at, here = best
        used.add(at)
        points.append(here)
    return [base, *reversed(points)]


@pytest.mark.parametrize("baseline", ["zero", "pad", "mask"])
def test_the_published_rule_in_loops(baseline):
    backend = random_backend("bert", scale=4.0)
    classifier = Classifier(backend)
    table = backend.word_embeddings().weight.detach().numpy()
    base = {"zero": np.zeros(32, np.float32), "pad": table[0], "mask": table[backend.tokens.mask_id]}[baseline]
    with classifier.work(7) as cost:
        found = DiscretisedIG(steps=6, near=10, baseline=baseline).explain(
            classifier, SAMPLE, 7, np.random.default_rng(0)
        )
    assert (cost.queries, cost.backwards) == (7, 6)
    each = [published(int(word), base, table, 6, 10) for word in SAMPLE.ids]
    whole = classifier.embed(SAMPLE)
    expected = np.zeros(len(SAMPLE))
    for k in range(6):
        point = whole.clone()
        point[1:-1] = torch.from_numpy(np.stack([path[k] for path in each]))
        point.requires_grad_(True)
        logits = backend.module(inputs_embeds=point[None]).logits[0]
        (grad,) = torch.autograd.grad(logits[1] - logits[0], point)
        step = np.stack([path[k + 1] - path[k] for path in each])
        expected += (grad[1:-1].numpy() * step).sum(axis=1)
    np.testing.assert_allclose(found.scores["attribution"], expected, atol=1e-4 * np.abs(expected).max())


def test_complete_where_the_model_is_linear():
    classifier = Classifier(bag_of_words({"good": 2.0, "bad": -3.0, "film": 0.5, "so": 0.1}, bias=1.0, specials=True))
    sample = classifier.encode(Example("a", "bad film good"))
    found = DiscretisedIG(steps=4, baseline="zero").explain(classifier, sample, 9, np.random.default_rng(0))
    np.testing.assert_allclose(found.scores["attribution"], [-3.0, 0.5, 2.0], atol=1e-6)
    assert found.diagnostics["completeness_gap"] == pytest.approx(0, abs=1e-6)


def test_sequential_integrated_gradients_would_be_leaving_out_at_the_embedding():
    """Why there is no `sequential-ig`: by the fundamental theorem each of its scores is a difference of two answers."""
    classifier = Classifier(random_backend("bert", scale=4.0))
    words = classifier.embed(SAMPLE)
    for place in (1, 3):
        without = words.clone()
        without[place] = 0.0
        scales = (torch.arange(200) + 0.5) / 200
        _, grads = classifier.gradients(without + scales[:, None, None] * (words - without))
        sequential = float((grads.mean(dim=0) * (words - without)).sum())
        values, _ = classifier.gradients(torch.stack([words, without]))
        assert sequential == pytest.approx(values[0] - values[1], rel=1e-3, abs=1e-6)


def test_what_cannot_be_done_is_named():
    with pytest.raises(InvalidInput, match="at least 3"):
        DiscretisedIG().explain(Classifier(random_backend("bert")), SAMPLE, 2, np.random.default_rng(0))


def test_it_keeps_the_contract():
    report = check("discretised-ig")
    assert report.passed, str(report)
