"""slalom-anchor on models it must recover, on additive ones, and at the edges of its inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slalom_bench import registry
from slalom_bench.backends.closed_forms import SlalomBackend, SlalomNet, bag_of_words
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.tokens import WordTokens
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.explainers.slalom import SlalomFidel
from slalom_bench.explainers.slalom_anchor import SlalomAnchor
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.surrogates.mask_process import MaskProcess

WORDS = [f"w{i}" for i in range(11)]


@pytest.fixture(scope="module")
def anchored() -> tuple[Classifier, np.ndarray, np.ndarray, tuple[float, float]]:
    """A SLALOM transformer with [CLS] always there: its value and importance are the anchor's."""
    rng = np.random.default_rng(5)
    tokens = WordTokens(WORDS, prefix=["[CLS]"])
    value, importance = 2 * rng.normal(size=len(tokens)), rng.normal(size=len(tokens))
    importance -= importance[-11:].mean()
    backend = SlalomBackend(SlalomNet(importance.tolist(), value.tolist()), tokens, "anchored-slalom")
    cls = tokens.prefix[0]
    return Classifier(backend), value, importance, (value[cls], importance[cls])


def test_an_anchored_slalom_transformer_is_recovered(
    anchored: tuple[Classifier, np.ndarray, np.ndarray, tuple[float, float]],
) -> None:
    handle, value, importance, anchor = anchored
    first = len(handle.tokens.words(np.arange(4)))  # the words follow [PAD] [UNK] [MASK] [CLS]
    ids = np.random.default_rng(7).permutation([*range(first, first + 11), first + 3, first + 3, first + 8])
    sample = Sample("repeated", ids)
    with handle.work(1500) as cost:
        out = SlalomAnchor().explain(handle, sample, 1500, np.random.default_rng(0))
    assert cost.queries == 1500
    assert out.diagnostics["converged"]
    np.testing.assert_allclose(out.scores["value"], value[ids], atol=1e-4)
    np.testing.assert_allclose(out.scores["importance"], importance[ids], atol=1e-4)
    np.testing.assert_allclose(out.diagnostics["anchor"], anchor, atol=1e-4)
    keep = np.random.default_rng(1).random((60, len(ids))) < 0.6
    assert isinstance(out.surrogate, MaskProcess)
    np.testing.assert_allclose(out.surrogate.predict(keep), handle.masked_log_odds(sample, keep), atol=1e-4)


def change_error(handle: Classifier, sample: Sample, out: Explanation, k: int) -> float:
    """Mean squared error of the predicted change over 40 deletions of k tokens, relative to the observed change."""
    n = len(sample)
    keep = np.vstack([np.ones((1, n), bool), delete_counts(n, np.full(40, k), np.random.default_rng(9))])
    assert out.surrogate is not None
    seen, said = handle.masked_log_odds(sample, keep), out.surrogate.predict(keep)
    observed = seen[1:] - seen[0]
    return float(np.mean((said[1:] - said[0] - observed) ** 2) / np.mean(observed**2))


def test_additive_models_are_within_reach_though_not_of_plain_slalom() -> None:
    """All weights positive: every deletion lowers F, which SLALOM without an anchor cannot say."""
    weights = {word: 0.5 + 0.1 * i for i, word in enumerate(WORDS)}
    handle = Classifier(bag_of_words(weights, bias=-3.0, specials=True))
    sample = Sample("s", np.tile(np.arange(5, 16), 3))
    ours = SlalomAnchor().explain(handle, sample, 400, np.random.default_rng(0))
    plain = SlalomFidel().explain(handle, sample, 400, np.random.default_rng(0))
    assert change_error(handle, sample, ours, 1) < 0.01
    assert change_error(handle, sample, ours, 6) < 0.01
    assert change_error(handle, sample, plain, 6) > 0.3
    assert (ours.scores["removal"] > 0).all()


@pytest.fixture(scope="module")
def handles() -> dict[str, Classifier]:
    return {name: Classifier(random_backend(name, seed=2)) for name in ("bert", "gpt2")}


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_it_stays_small_and_readable(architecture: str, handles: dict[str, Classifier]) -> None:
    handle, sample = handles[architecture], Sample("s", np.random.default_rng(3).integers(5, 60, 60))
    out = SlalomAnchor().explain(handle, sample, 600, np.random.default_rng(0))
    assert out.surrogate is not None
    assert len(json.dumps(out.surrogate.to_dict())) < 300 * 60 + (11 + 60 / 6) * 600, (
        "masks as bits, weights as doubles"
    )
    assert out.primary == "removal"
    assert "shapley" not in out.scores
    said = handle.masked_log_odds(
        sample, delete_counts(60, np.arange(61 - (architecture == "gpt2")), np.random.default_rng(1))
    )
    values = np.append(out.scores["value"], out.diagnostics["anchor"][0])
    assert said.min() - np.ptp(said) <= values.min()
    assert values.max() <= said.max() + np.ptp(said)
    assert np.abs(out.scores["removal"]).max() < np.ptp(said)
    masked = SlalomAnchor().explain(
        handle.under(registry.removals.build("mask")), sample, 600, np.random.default_rng(0)
    )
    assert masked.surrogate is not None
    full, empty = masked.surrogate.predict(np.repeat([[True], [False]], 60, axis=1))
    assert masked.scores["shapley"].sum() == pytest.approx(full - empty)
    parts = masked.diagnostics["parts"]
    assert "shift" not in parts
    assert set(parts) == {"gone", "hint", "curve", "slalom", "rest"} - (
        set() if masked.diagnostics["gradients"] else {"hint"}
    )


def test_changes_that_cannot_be_foretold_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs that are noise: the surrogate says next to no change."""
    noise = np.random.default_rng(4)
    handle, sample = Classifier(random_backend("bert", seed=2)), Sample("s", np.arange(5, 35))
    monkeypatch.setattr(handle, "masked_log_odds", lambda _, keep: np.append(0.0, noise.normal(size=len(keep) - 1)))
    out = SlalomAnchor(law="mixed").explain(handle, sample, 300, np.random.default_rng(0))
    assert out.surrogate is not None
    keep = delete_counts(30, np.full(200, 3), np.random.default_rng(1))
    assert np.mean(out.surrogate.predict(keep) ** 2) < 0.1


@pytest.mark.parametrize("removal", ["delete", "mask", "pad"])
@pytest.mark.parametrize("ids", [[7], [7, 9], [7, 7, 7], list(range(5, 45))])
@pytest.mark.parametrize("budget", [1, 20, 130])
def test_edge_inputs_within_budget(removal: str, ids: list[int], budget: int, handles: dict[str, Classifier]) -> None:
    for backend in (handles["bert"].backend, handles["gpt2"].backend):
        handle = Classifier(backend, removal=registry.removals.build(removal))
        if removal == "pad" and backend.name == "random-gpt2":
            continue
        with handle.work(budget) as cost:
            out = SlalomAnchor().explain(handle, Sample("s", np.array(ids)), budget, np.random.default_rng(0))
        assert cost.queries <= budget
        assert len(out) == len(ids)
        if isinstance(out.surrogate, MaskProcess) and removal != "delete":
            assert not out.surrogate.kernel.carriers.size, "nothing moves"


def test_bad_parameters_are_named(handles: dict[str, Classifier]) -> None:
    sample = Sample("s", np.arange(5, 15))
    with pytest.raises(InvalidInput, match="at least 1 queries"):
        SlalomAnchor().explain(handles["bert"], sample, 0, np.random.default_rng(0))
