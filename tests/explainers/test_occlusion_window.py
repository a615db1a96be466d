"""occlusion-window by hand, on windows that overlap, on sentences, and at the smallest budget."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.linear import LeaveOneOut
from slalom_bench.explainers.occlusion_window import OcclusionWindow, windows
from slalom_bench.handle.classifier import Classifier

WEIGHTS = {"a": 1.0, "b": 2.0, "c": 4.0, "d.": 8.0}


def explain(explainer: OcclusionWindow, text: str, budget: int = 50, specials: bool = True) -> np.ndarray:
    classifier = Classifier(bag_of_words(WEIGHTS, specials=specials))
    with classifier.work(budget):
        sample = classifier.encode(Example("x", text))
        return explainer.explain(classifier, sample, budget, np.random.default_rng(0)).scores["attribution"]


def test_windows_by_hand():
    # windows ab (3), bc (6), cd (12), halved; a: 1.5, b: (1.5 + 3) / 2, c: (3 + 6) / 2, d: 6
    np.testing.assert_allclose(explain(OcclusionWindow(width=2), "a b c d."), [1.5, 2.25, 4.5, 6.0], atol=1e-5)
    # three queries: the windows ab and cd alone
    np.testing.assert_allclose(explain(OcclusionWindow(width=2), "a b c d.", 3), [1.5, 1.5, 6.0, 6.0], atol=1e-5)


def test_sentences_by_hand():
    scores = explain(OcclusionWindow(unit="sentence"), "a d. b c")
    np.testing.assert_allclose(scores, [4.5, 4.5, 3.0, 3.0], atol=1e-5)


def test_curvature_is_seen_by_hand():
    classifier = Classifier(slalom_transformer({"a": 1, "b": 2, "c": 6}, dict.fromkeys("abc", 0)))
    sample = classifier.encode(Example("x", "a b c"))
    found = OcclusionWindow(width=2).explain(classifier, sample, 9, np.random.default_rng(0))
    # F = 3; without ab 6, without bc 1: shares -1.5 and 1
    np.testing.assert_allclose(found.scores["attribution"], [-1.5, -0.25, 1.0], atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 30])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_every_token_is_covered_at_the_smallest_budget(n, width):
    width = min(width, n)
    covered = windows(n, width, -(-n // width))
    assert covered.any(axis=0).all()
    assert (covered.sum(axis=1) == width).all()


def test_windows_of_one_are_leave_one_out():
    classifier = Classifier(random_backend("bert"))
    sample = Sample("x", np.random.default_rng(0).integers(5, 60, 15))
    rng = np.random.default_rng(0)
    ours, theirs = (e.explain(classifier, sample, 16, rng) for e in (OcclusionWindow(width=1), LeaveOneOut()))
    np.testing.assert_allclose(ours.scores["attribution"], theirs.scores["attribution"], atol=1e-6)


def test_what_cannot_be_is_named():
    assert explain(OcclusionWindow(), "a", specials=False).tolist() == [0.0]
    with pytest.raises(InvalidInput, match="at least 3 queries"):
        explain(OcclusionWindow(width=2), "a b c d.", 2)
    with pytest.raises(InvalidInput, match="unit=word"):
        explain(OcclusionWindow(unit="word"), "a b")
