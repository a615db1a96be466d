"""Global SLALOM over many texts of a transformer that is a SLALOM."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics.global_slalom import fit_global


def test_one_fit_recovers_every_token_of_all_texts() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    value, importance = rng.normal(size=30), rng.normal(size=30)
    truth = [dict(zip(words, numbers, strict=True)) for numbers in (value, importance)]
    handle = Classifier(slalom_transformer(*truth))
    samples = [Sample(str(i), rng.integers(3, 33, size=rng.integers(1, 25))) for i in range(40)]
    with handle.work(800) as cost:
        found = fit_global(handle, samples, 800, np.random.default_rng(1))
    assert cost.queries == 800
    assert found.fit.converged
    at = found.ids - 3
    np.testing.assert_allclose(found.value, value[at], atol=1e-4)
    np.testing.assert_allclose(found.importance, importance[at] - importance[at].mean(), atol=1e-4)
    surrogate = found.surrogate(samples[7])
    n = len(samples[7])
    np.testing.assert_allclose(surrogate.predict(np.ones((1, n), bool)), handle.log_odds([samples[7].ids]), atol=1e-4)
    with pytest.raises(InvalidInput, match=r"\[99\] were not fitted"):
        found.surrogate(Sample("new", np.array([3, 99])))
    with pytest.raises(InvalidInput, match="0 and 5"):
        fit_global(handle, [], 5, rng)
