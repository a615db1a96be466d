"""Multi-class SLALOM against three classes in closed form, and against the binary explainer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import logsumexp

from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.slalom import SlalomEff
from slalom_bench.explainers.slalom_multiclass import SlalomMulticlass
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.records import surrogate_from_dict
from slalom_bench.surrogates.multiclass_slalom import MulticlassSlalom

IDS = np.arange(5, 17)


class ThreeClasses:
    """The random backend's handle, with the logits of a known three-class SLALOM plus any common shift."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.importance = rng.normal(size=12)
        self.importance -= self.importance.mean()
        self.values = rng.normal(size=(12, 3))
        self.values -= self.values.mean(axis=1, keepdims=True)

    def logits(self, sequences: list[np.ndarray]) -> np.ndarray:
        out = []
        for sequence in sequences:
            at = np.asarray(sequence) - 5
            weight = np.exp(self.importance[at])
            out.append(weight @ self.values[at] / weight.sum() + len(sequence) + at[0])
        return np.array(out)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> tuple[Classifier, ThreeClasses]:
    handle, truth = Classifier(random_backend("bert", classes=3)), ThreeClasses()
    monkeypatch.setattr(handle, "logits", truth.logits)
    handle.target = 2
    return handle, truth


@pytest.mark.parametrize("samples", ["eff", "fidel"])
def test_three_classes_are_recovered(samples: str, three: tuple[Classifier, ThreeClasses]) -> None:
    handle, truth = three
    out = SlalomMulticlass(samples).explain(handle, Sample("s", IDS), 700, np.random.default_rng(0))
    for c in range(3):
        np.testing.assert_allclose(out.scores[f"value-class{c}"], truth.values[:, c], atol=1e-4)
    np.testing.assert_allclose(out.scores["importance"], truth.importance, atol=1e-4)
    np.testing.assert_allclose(out.scores["value"], truth.values[:, 2] * 1.5, atol=1e-4)
    keep = np.random.default_rng(1).random((20, 12)) < 0.5
    keep[:, 0] = True
    logits = truth.logits([IDS[row] for row in keep])
    assert out.surrogate is not None
    np.testing.assert_allclose(out.surrogate.predict(keep), logits[:, 2] - logsumexp(logits[:, :2], axis=1), atol=1e-4)
    again = surrogate_from_dict(json.loads(json.dumps(out.surrogate.to_dict())))
    np.testing.assert_array_equal(again.predict(keep), out.surrogate.predict(keep))


def test_with_two_classes_the_binary_value_is_twice_the_class_value() -> None:
    rng = np.random.default_rng(2)
    words = [f"w{i}" for i in range(10)]
    handle = Classifier(
        slalom_transformer(
            dict(zip(words, rng.normal(size=10), strict=True)), dict(zip(words, rng.normal(size=10), strict=True))
        )
    )
    sample = Sample("s", np.arange(3, 13))
    many = SlalomMulticlass().explain(handle, sample, 500, np.random.default_rng(0))
    binary = SlalomEff().explain(handle, sample, 500, np.random.default_rng(0))
    np.testing.assert_allclose(2 * many.scores["value-positive"], binary.scores["value"], atol=1e-5)
    np.testing.assert_allclose(many.scores["importance"], binary.scores["importance"], atol=1e-5)
    np.testing.assert_allclose(many.scores["value"], binary.scores["value"], atol=1e-5)


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInput, match="sum to 0"):
        MulticlassSlalom([[1.0, 1.0]], [0.0], 0)
    with pytest.raises(InvalidInput, match="eff or fidel, not 'wide'"):
        SlalomMulticlass("wide").explain(Classifier(random_backend()), Sample("s", IDS), 9, np.random.default_rng(0))
