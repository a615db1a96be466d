"""Rank agreement across removal rules: against scipy on the stored scores, by hand, and through the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats
from typer.testing import CliRunner

from slalom_bench import registry
from slalom_bench.cli import app
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.correlation import kendall
from slalom_bench.results.reading import read_run
from slalom_bench.results.removal_agreement import NOT_RANKED, TOO_FEW, _agreement, _Rules, removal_agreement
from slalom_bench.results.submission import MetricInfo

METRICS = ("strict-fidelity:largest=2", "deletion")


@pytest.fixture(scope="module")
def runs(lab, tmp_path_factory) -> dict[str, Path]:
    """The same explainers under two rules on the SLALOM transformer."""
    folder, made = tmp_path_factory.mktemp("rules"), {}
    for rule in ("delete", "mask"):
        subject = lab.subject()
        subject = replace(subject, classifier=subject.classifier.under(registry.removals.build(rule)))
        made[rule] = lab.run(folder / rule, subject, removal=rule, metrics=METRICS, budgets=(30,))
    return made


def test_correlations_are_those_of_the_stored_scores(runs):
    found = removal_agreement([read_run(path) for path in runs.values()])
    assert [(a.metric.name, a.rules) for a in found] == [
        ("strict-fidelity", ("delete", "mask")),
        ("deletion", ("delete", "mask")),
    ]
    for agreement in found:
        stored: dict[str, dict[str, dict[str, float | None]]] = {}
        for rule, path in runs.items():
            for cell in read_run(path).cells:
                (label,) = [label for label in cell.scores if label.name == agreement.metric.name]
                name = "@primary" if agreement.metric.headline == "@primary" else agreement.metric.headline
                stored.setdefault(cell.identity.explainer.title, {})[rule] = cell.values(label, name)
        means = {}
        for title, by_rule in stored.items():
            both = [s for s in by_rule["delete"] if None not in (by_rule["delete"][s], by_rule["mask"][s])]
            if both:
                average = scipy_stats.gmean if agreement.metric.scale == "log" else np.mean
                means[title] = tuple(float(average([by_rule[rule][s] for s in both])) for rule in ("delete", "mask"))
        assert agreement.means.keys() == means.keys()
        for title, pair in means.items():
            assert agreement.means[title] == pytest.approx(pair, rel=1e-5)
        x, y = np.array(list(agreement.means.values())).T
        assert agreement.spearman == pytest.approx(scipy_stats.spearmanr(x, y).statistic)
        assert agreement.kendall == pytest.approx(scipy_stats.kendalltau(x, y).statistic)
        best = min if agreement.metric.direction == "lower" else max
        assert [agreement.means[name][i] for i, name in enumerate(agreement.best)] == [best(x), best(y)]


def test_kendall_is_scipys_tau_b():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = rng.integers(0, 4, 8).astype(float), rng.integers(0, 4, 8).astype(float)
        assert kendall(x, y) == pytest.approx(scipy_stats.kendalltau(x, y).statistic)


INFO = MetricInfo(
    name="m",
    version=1,
    params={},
    direction="higher",
    unit="",
    headline="m",
    level="explainer",
    summary="",
    order=1,
    curve="",
)


def test_by_hand_on_common_samples():
    """c has no common sample; d is of another version under b; of a, s2 is undefined under b."""
    left = {
        ("a", 1): [{"s1": 1.0, "s2": 9.0}],
        ("b", 1): [{"s1": 2.0, "s2": 2.0}],
        ("c", 1): [{"s1": 3.0}],
        ("d", 1): [{"s1": 4.0}],
        ("e", 1): [{"s1": 5.0}],
    }
    right = {
        ("a", 1): [{"s1": 10.0, "s2": None}],
        ("b", 1): [{"s1": 30.0, "s2": 30.0}],
        ("c", 1): [{"s9": 1.0}],
        ("d", 2): [{"s1": 1.0}],
        ("e", 1): [{"s1": 20.0}],
    }
    found = _agreement("t", _Rules(INFO, {"x": left, "y": right}), "x", "y")
    assert found.means == {"a": (1.0, 10.0), "b": (2.0, 30.0), "e": (5.0, 20.0)}
    # ranks 1 2 3 and 1 3 2
    assert found.spearman == pytest.approx(0.5)
    assert found.kendall == pytest.approx(1 / 3)
    assert found.best == ("e", "b")
    few = _agreement("t", _Rules(INFO, {"x": {("a", 1): [{"s": 1.0}]}, "y": {("a", 1): [{"s": 1.0}]}}), "x", "y")
    assert (few.spearman, few.kendall, few.reason) == (None, None, TOO_FEW)
    flat = {(name, 1): [{"s": 1.0}] for name in "abc"}
    other = {(name, 1): [{"s": float(i)}] for i, name in enumerate("abc")}
    assert _agreement("t", _Rules(INFO, {"x": flat, "y": other}), "x", "y").reason == NOT_RANKED
    assert _agreement("t", _Rules(INFO, {"x": {}, "y": other}), "x", "y").means == {}


def test_seeds_of_several_runs_are_averaged_and_errors_have_geometric_means():
    left = {("a", 1): [{"s1": 1.0, "s2": 4.0}, {"s1": 3.0, "s2": 4.0}]}
    right = {("a", 1): [{"s1": 1.0, "s2": 9.0}]}
    linear = _agreement("t", _Rules(INFO, {"x": left, "y": right}), "x", "y")
    assert linear.means == {"a": (3.0, 5.0)}, "2 and 4; 1 and 9"
    log = _agreement("t", _Rules(INFO.model_copy(update={"scale": "log"}), {"x": left, "y": right}), "x", "y")
    assert log.means["a"] == pytest.approx((8**0.5, 3.0))


def test_one_rule_is_nothing_to_compare(runs, lab, tmp_path):
    with pytest.raises(InvalidInput, match=r"\(there is delete\).*another --removal"):
        removal_agreement([read_run(runs["delete"]), read_run(runs["delete"])])
    subject = lab.subject(shift=0.5)
    subject = replace(subject, classifier=subject.classifier.under(registry.removals.build("mask")))
    other = lab.run(tmp_path / "other", subject, removal="mask", metrics=METRICS, budgets=(30,))
    with pytest.raises(InvalidInput, match="delete, mask"):  # of another model
        removal_agreement([read_run(runs["delete"]), read_run(other)])


def test_the_command(runs):
    paths = [str(path) for path in runs.values()]
    done = CliRunner().invoke(app, ["removals", *paths, "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    expected = removal_agreement([read_run(path) for path in runs.values()])
    assert found == json.loads(json.dumps([agreement.to_dict() for agreement in expected]))
    shown = CliRunner().invoke(app, ["removals", *paths], catch_exceptions=False).stdout
    assert "synthetic-slalom · slalom-transformer · budget 30" in shown
    assert f"{expected[0].spearman:.2f}" in shown
    assert "delete / mask" in shown
