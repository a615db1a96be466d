"""The lime package itself, run end to end on text: the same perturbations give our solver the same coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from lime.lime_text import LimeTextExplainer

from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example
from slalom_bench.explainers.lime import lime_fit
from slalom_bench.handle.classifier import Classifier

UNIQUE = " ".join(f"w{i}" for i in range(30))
REPEATED = "w1 w2 w1 w3 w4 w2 w5 w6 w7 w8 w1 w9"


@pytest.mark.parametrize("text", [UNIQUE, REPEATED])
def test_equal_to_lime_text_explainer_on_its_own_perturbations(text):
    classifier = Classifier(random_backend("bert", seed=1))
    words = list(dict.fromkeys(text.split()))
    seen: list[np.ndarray] = []

    def log_odds(texts: list[str]) -> np.ndarray:
        """Two columns, the second the log-odds; remembers which distinct words each text had."""
        seen.append(np.array([[word in t.split() for word in words] for t in texts]))
        outputs.append(classifier.log_odds([classifier.tokens.encode(t)[0] for t in texts]))
        return np.stack([-outputs[-1], outputs[-1]], axis=1)

    outputs: list[np.ndarray] = []
    package = LimeTextExplainer(split_expression=r"\s+", random_state=3, class_names=["0", "1"])
    theirs = package.explain_instance(text, log_odds, num_features=len(words), num_samples=400)
    weights, intercept, _ = lime_fit(np.vstack(seen), np.concatenate(outputs))
    sample = classifier.encode(Example("a", text))
    assert np.concatenate(outputs)[0] == pytest.approx(classifier.log_odds([sample.ids])[0])
    by_word = dict(theirs.as_list())
    difference = np.abs(weights - [by_word[word] for word in words]).max()
    assert difference < 1e-6
    assert abs(intercept - theirs.intercept[1]) < 1e-6
