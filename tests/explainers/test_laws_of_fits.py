"""The law that a regression is fitted to: said in the diagnostics, and replaced by one that is common to all."""

from __future__ import annotations

import numpy as np
import pytest

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.random_models import random_backend
from slalom_bench.core.types import Example, Explanation, Sample
from slalom_bench.errors import InvalidInput, UnknownName
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics.masks import delete_counts
from slalom_bench.results.diagnostics import average
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.suite import load_suite

REGRESSIONS = ("linear-deletion", "pairwise-deletion", "slalom-fidel", "slalom-anchor", "lime", "kernel-shap")
OWN = {
    "linear-deletion": "0 to 5 random deletions",
    "linear-deletion:largest=9": "0 to 9 random deletions",
    "slalom-fidel": "0 to 5 random deletions",
    "slalom-anchor": "mixed and the empty text",
    "lime": "1 to all features removed at random",
    "kernel-shap": "coalitions of all sizes by the Shapley kernel",
    "slalom-eff": "random sequences of 2 tokens",
    "slalom-exact": "single tokens and pairs",
}
WORDS = [f"w{i}" for i in range(30)]
WEIGHTS = {word: 0.3 * np.sin(2 * i) for i, word in enumerate(WORDS)}
BUDGET = 400


def explain(handle: Classifier, text: Sample, name: str, budget: int = BUDGET) -> Explanation:
    return explain_sample(registry.explainers.build(name), handle, text, budget=budget, seed=0).unwrap()


@pytest.fixture(scope="module")
def bert() -> tuple[Classifier, Sample]:
    return Classifier(random_backend("bert", seed=2)), Sample("s", np.random.default_rng(3).integers(5, 60, 30))


@pytest.mark.parametrize(("name", "law"), OWN.items())
def test_every_fit_says_its_law(name, law, bert):
    assert explain(*bert, name).diagnostics["law"] == law


def test_all_regressions_ask_for_the_same_masks_of_a_common_law(bert):
    handle = Classifier(bert[0].backend)
    asked = {}
    for name in REGRESSIONS:
        out = explain(handle, bert[1], f"{name}:law=mixed")
        assert out.diagnostics["law"] == "mixed"
        asked[name] = out.asked
    # kernel-shap meets the empty text, for which it gives up the last mask
    shap = asked.pop("kernel-shap")
    assert len(np.setdiff1d(shap, asked["lime"])) == 1
    assert len(np.setdiff1d(asked["lime"], shap)) <= 1
    for name in asked:
        np.testing.assert_array_equal(asked[name], asked["lime"])
    assert handle.total.queries == len(REGRESSIONS) * BUDGET
    computed = handle.total.forwards - handle.total.shared
    assert computed == len(asked["lime"]) + len(shap), "a set is asked once, and answered to all who ask for it"
    assert len(asked["lime"]) > 0.7 * BUDGET


@pytest.mark.parametrize("name", ["linear-deletion", "kernel-shap", "slalom-anchor", "lime"])
@pytest.mark.parametrize("law", ["mixed", "many", "few"])
def test_an_additive_model_is_found_under_any_law(name, law):
    handle = Classifier(bag_of_words(WEIGHTS, bias=-1.0, specials=True))
    text = handle.encode(Example("s", " ".join(WORDS)))
    out = explain(handle, text, f"{name}:law={law}")
    assert out.surrogate is not None
    keep = np.vstack([np.ones((1, 30), bool), delete_counts(30, np.arange(1, 16), np.random.default_rng(4))])
    predicted, observed = out.surrogate.predict(keep), handle.masked_log_odds(text, keep)
    error = np.mean((predicted - predicted[0] - observed + observed[0]) ** 2)
    # lime's ridge of 1 shrinks and anchor's curvature is a prior; least squares is exact
    most = {"linear-deletion": 1e-9, "kernel-shap": 1e-9, "slalom-anchor": 0.02, "lime": 0.1}[name]
    assert error < most * np.mean((observed - observed[0]) ** 2)


def test_kernel_shap_meets_both_ends_at_a_law_and_is_no_linear_deletion(bert):
    handle, text = bert
    ends = np.array([[True] * 30, [False] * 30])
    found = {name: explain(handle, text, f"{name}:law=mixed") for name in ("kernel-shap", "linear-deletion")}
    errors = {name: np.abs(f.surrogate.predict(ends) - handle.masked_log_odds(text, ends)) for name, f in found.items()}
    assert errors["kernel-shap"].max() < 1e-6
    assert errors["linear-deletion"].max() > 1e-4
    assert not found["kernel-shap"].diagnostics["exact"]


@pytest.mark.parametrize("name", [*REGRESSIONS, "permutation-shap", "proxy-spex"])
def test_whoever_fits_or_draws_says_how_good_it_is(name, bert):
    """0 where the model is additive, more where it is not; no SLALOM is additive, and a process meets its points."""
    told = average([explain(*bert, name).diagnostics])
    (quality,) = {"mse", "r2", "standard_error"} & told.keys()
    handle = Classifier(bag_of_words(WEIGHTS, bias=-1.0, specials=True))
    text = handle.encode(Example("s", " ".join(WORDS[:8])))
    additive = average([explain(handle, text, name).diagnostics])[quality]
    if "slalom" in name:
        assert told[quality] < 0.01
    elif quality == "r2":
        assert 0 < told[quality] < additive <= 1
    else:
        assert additive < 1e-3 * told[quality] < told[quality]


def test_slalom_is_recovered_from_the_common_law():
    rng = np.random.default_rng(0)
    value, importance = (dict(zip(WORDS, rng.normal(size=30), strict=True)) for _ in range(2))
    handle = Classifier(slalom_transformer(value, importance))
    text = handle.encode(Example("s", " ".join(WORDS)))
    out = explain(handle, text, "slalom-fidel:law=mixed", 1000)
    np.testing.assert_allclose(out.scores["value"], list(value.values()), atol=1e-3)


@pytest.mark.parametrize("law", ["few", "many", "spans"])
@pytest.mark.parametrize("removal", ["delete", "mask", "gap"])
def test_anchor_beats_predicting_no_change_on_laws_it_was_not_fitted_to(bert, law, removal):
    handle, text = bert[0].under(registry.removals.build(removal)), bert[1]
    drawn = registry.laws.build(law).draw(text, 100, np.random.default_rng(4))
    keep = np.vstack([np.ones((1, 30), bool), drawn])
    observed = handle.masked_log_odds(text, keep)
    surrogate = explain(handle, text, "slalom-anchor").surrogate
    predicted = surrogate.predict(keep)
    error = predicted - predicted[0] - observed + observed[0]
    assert np.mean(error**2) < 0.6 * np.mean((observed - observed[0]) ** 2)
    covered = np.abs(error[1:]) < 1.645 * surrogate.predict_std(drawn)
    assert covered.mean() > 0.75, "nine of ten intervals of 90 % would hold what is seen"


def test_what_cannot_be_is_refused(bert):
    handle, text = bert
    for name in REGRESSIONS:
        with pytest.raises(UnknownName, match="unknown law 'mixd': did you mean mixed"):
            explain(handle, text, f"{name}:law=mixd")
        with pytest.raises(InvalidInput, match="law top draws"):
            explain(handle, text, f"{name}:law=top")
        with pytest.raises(InvalidInput, match="has no masks for it: text has too few tokens"):
            explain(handle, Sample("s", [7]), f"{name}:law=mixed")
    for more in ("tie=token", "protocol=paper"):
        for name in ("lime", "kernel-shap"):
            with pytest.raises(InvalidInput, match="needs tie=position and protocol=bench"):
                explain(handle, text, f"{name}:law=mixed,{more}")


@pytest.mark.parametrize("suite", ["imdb", "yelp-hat"])
def test_suites_have_a_scale_with_every_regression_at_both_laws(suite):
    chosen = load_suite(suite, "common-law").explainers
    for name in REGRESSIONS:
        assert {name, f"{name}:law=mixed"} <= set(chosen)
