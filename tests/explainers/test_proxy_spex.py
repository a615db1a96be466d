"""proxy-spex: planted interactions, shapiq's exact values on short texts, shapiq's own answer on the same masks."""

from __future__ import annotations

import numpy as np
import pytest
from shapiq import ExactComputer
from shapiq.approximator import ProxySPEX

from slalom_bench.backends.random_models import random_backend
from slalom_bench.contract.checking import check
from slalom_bench.core import extras
from slalom_bench.core.types import Sample
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.explainers.proxy_spex import ProxySpex, every_subset, moebius, proxy_spex
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics.masks import delete_counts, small_deletions
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.loading import Planned
from slalom_bench.running.plan import make_plan
from slalom_bench.running.suite import Suite
from slalom_bench.surrogates.interactions import InteractionSurrogate

PLANTED = {(2, 9): 3.0, (4, 5): -2.0, (0, 17): 2.5}
SETTINGS = {"max_depth": [5], "max_iter": [200], "learning_rate": [0.1], "min_child_samples": [5]}


def planted(keep: np.ndarray) -> np.ndarray:
    effects = np.random.default_rng(1).normal(size=keep.shape[1])
    return 0.7 + keep @ effects + sum(c * keep[:, i] * keep[:, j] for (i, j), c in PLANTED.items())


@pytest.mark.parametrize("law", ["uniform", "small"])
def test_a_planted_second_order_game_is_recovered(law):
    rng = np.random.default_rng(0)
    fresh = rng.random((200, 20)) < 0.5 if law == "uniform" else delete_counts(20, np.full(200, 5), rng)
    keep = rng.random((600, 20)) < 0.5 if law == "uniform" else small_deletions(20, 600, rng)[0]
    sets = proxy_spex(keep, planted(keep), 0, SETTINGS)
    for pair, truth in PLANTED.items():
        assert sets[pair] == pytest.approx(truth, abs=0.4)
    others = [c for members, c in sets.items() if len(members) > 1 and members not in PLANTED]
    assert max(map(abs, others), default=0) < 0.5
    predicted = InteractionSurrogate(20, list(sets), list(sets.values())).predict(fresh)
    assert np.mean((predicted - planted(fresh)) ** 2) < 0.05 * planted(fresh).var()


def test_short_texts_have_shapiqs_exact_values():
    classifier = Classifier(random_backend("bert", scale=3.0))
    sample = Sample("a", np.array([7, 30, 12, 41, 9]))
    out = explain_sample(ProxySpex(), classifier, sample, budget=40, seed=0)
    assert out.cost.queries == 32
    found = out.unwrap()
    exact = ExactComputer(lambda rows: classifier.masked_log_odds(sample, np.asarray(rows, np.bool_)), n_players=5)
    shapley, mixed = exact("SV"), exact("Moebius", order=5)
    np.testing.assert_allclose(found.scores["attribution"], [shapley[(i,)] for i in range(5)], atol=1e-9)
    surrogate = found.surrogate
    for members, coefficient in zip(surrogate.sets[1:], surrogate.coefficients[1:], strict=True):
        assert coefficient == pytest.approx(mixed[members], abs=1e-9)


def test_what_shapiq_says_of_the_same_masks():
    keep = np.random.default_rng(0).random((120, 12)) < 0.5
    outputs = planted(np.hstack([keep, np.zeros((120, 8))]))
    theirs = ProxySPEX(n=12, random_state=3)
    theirs.decoder_args = SETTINGS

    class Drawn:
        coalitions_matrix = keep

        def sample(self, budget: int) -> None: ...

    theirs._uniform_sampler = Drawn()
    expected = theirs.approximate(120, lambda rows: outputs - outputs.mean()).interactions
    ours = proxy_spex(keep, outputs, 3, SETTINGS)
    assert ours[()] == pytest.approx(expected.get((), 0.0) + outputs.mean())
    assert {k: v for k, v in ours.items() if k} == {k: v for k, v in expected.items() if k}


def test_the_empty_text_counts_as_even_odds_where_it_is_not_legal():
    classifier = Classifier(random_backend("gpt2", scale=3.0))
    sample = Sample("a", np.array([7, 30, 12]))
    out = explain_sample(ProxySpex(), classifier, sample, budget=7, seed=0)
    assert out.cost.queries == 7
    surrogate = out.unwrap().surrogate
    keep = every_subset(3)
    np.testing.assert_allclose(surrogate.predict(keep[1:]), classifier.masked_log_odds(sample, keep[1:]), atol=1e-6)
    assert surrogate.predict(keep[:1])[0] == 0


def test_moebius_inverts_the_sum_over_subsets():
    values = np.random.default_rng(0).normal(size=16)
    sets = moebius(values)
    np.testing.assert_allclose(
        InteractionSurrogate(4, list(sets), list(sets.values())).predict(every_subset(4)), values
    )


def test_fitted_to_the_masks_of_slalom_fidel_and_of_a_law():
    classifier = Classifier(random_backend("bert"))
    sample = Sample("a", np.random.default_rng(3).integers(5, 60, 20))
    asked = []
    for law in ("small-deletions", "mixed"):
        out = explain_sample(ProxySpex(law=law, trees=10), classifier, sample, budget=150, seed=0)
        assert out.unwrap().diagnostics["law"] == law
        asked.append(out.cost.queries)
    assert asked == [150, 150]
    with pytest.raises(InvalidInput, match="at least 20"):
        ProxySpex().explain(classifier, sample, 19, np.random.default_rng(0))


def test_a_model_that_says_the_same_of_everything_has_no_interactions():
    sets = proxy_spex(np.random.default_rng(0).random((60, 8)) < 0.5, np.full(60, 1.5), 0, SETTINGS)
    assert sets == {(): 1.5}


def test_without_its_packages_it_is_skipped_before_the_run(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "lightgbm" else object())
    planned = Planned("imdb", "mini-bert", 2, frozenset(), frozenset({"queries"}))
    plan = make_plan(Suite(name="s", tasks=("imdb",), models=("mini-bert",), explainers=("proxy-spex",)), [planned])
    assert not plan.cells
    assert plan.skips[0].reason == 'needs lightgbm: pip install "slalom-bench[shapiq]"'
    with pytest.raises(Unsupported, match="lightgbm"):
        ProxySpex().explain(
            Classifier(random_backend("bert")), Sample("a", np.array([7, 8])), 50, np.random.default_rng(0)
        )


def test_it_keeps_the_contract_with_small_trees():
    report = check(ProxySpex(trees=10, depth=2))
    assert report.passed, str(report)
