"""Rank agreement across removal rules: against scipy on the stored scores, by hand, and through the command line."""

from __future__ import annotations

import json
import re
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
from slalom_bench.results.boards import boards
from slalom_bench.results.collect import submit
from slalom_bench.results.reading import read_run
from slalom_bench.results.removal_agreement import (
    NOT_RANKED,
    TOO_FEW,
    _agreement,
    _Rules,
    across_rules,
    removal_agreement,
    rule_name,
)
from slalom_bench.results.submission import MetricInfo, read_submission
from slalom_bench.showing import comparing, markdown
from slalom_bench.showing.leaderboard import generate

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


def test_boards_show_it_from_submissions(runs, tmp_path):
    """Every board says how its rule agrees with the others, in the command's numbers; alone it says nothing."""
    results = tmp_path / "results"
    one = submit(read_run(runs["delete"]), results)
    (alone,) = boards([read_submission(path) for path in one])
    assert alone.across_rules == []
    assert comparing.RULES not in markdown.metric_quality(alone)
    assert (
        "Do other removal rules"
        not in generate([read_submission(path) for path in one])["synthetic-slalom/tables.html"]
    )

    submissions = [read_submission(path) for path in (*one, *submit(read_run(runs["mask"]), results))]
    expected = removal_agreement([read_run(path) for path in runs.values()])
    made = boards(submissions)
    assert {str(board.identity.removal) for board in made} == {"delete", "mask"}
    files = generate(submissions)
    for board in made:
        assert [found.to_dict() for found in board.across_rules] == [found.to_dict() for found in expected]
        for found in expected:
            name = re.escape(f"{found.metric.name} ")
            (line,) = re.findall(rf"^\| {name}.*\| delete / mask .*$", markdown.metric_quality(board), re.M)
            assert [cell.strip() for cell in line.split("|")][3:8] == [
                str(len(found.means)),
                f"{found.spearman:.2f}",
                f"{found.kendall:.2f}",
                *found.best,
            ]
            assert f'data-label="Spearman">{found.spearman:.2f}</td>' in files["synthetic-slalom/tables.html"]
    assert sum(text.count(comparing.RULES) for name, text in files.items() if name.endswith(".md")) == 2
    assert "by removal rule, slalom-transformer" in files["synthetic-slalom.md"]
    assert files["synthetic-slalom/tables.html"].count("Do other removal rules rank the methods alike") == 2


def test_rows_in_conflict_are_left_out_and_versions_of_a_rule_are_two(runs, tmp_path):
    delete, mask = (
        read_submission(path) for run in runs.values() for path in submit(read_run(run), tmp_path / "results")
    )
    (plain,) = across_rules([delete, mask]).values()
    less = delete.model_copy(update={"rows": [row for row in delete.rows if row.explainer.name != "random"]})
    (again,) = across_rules([less, delete, mask]).values()
    assert [found.to_dict() for found in again] == [found.to_dict() for found in plain], "the same scores once more"
    only = delete.model_copy(update={"rows": [_shifted(row) for row in delete.rows if row.explainer.name == "random"]})
    (disputed,) = across_rules([only, delete, mask]).values()
    for before, found in zip(plain, disputed, strict=True):
        assert found.means == {name: pair for name, pair in before.means.items() if name != "random"}
    assert any("random" in found.means for found in plain)
    old = mask.model_copy(update={"removal": mask.removal.model_copy(update={"version": 99})})
    (three,) = across_rules([delete, mask, old]).values()
    assert {found.rules for found in three} == {("delete", "mask"), ("delete", "mask (v99)"), ("mask", "mask (v99)")}
    for board in boards([delete, mask, old]):
        assert {found.rules for found in board.across_rules} == {
            pair for pair in (found.rules for found in three) if rule_name(board.identity.removal) in pair
        }
        assert len(board.across_rules) == 2 * len(METRICS)


def _shifted(row):
    """A row whose every value of deletion is larger by one."""
    results = {
        label: result.model_copy(update={"values": [None if value is None else value + 1 for value in result.values]})
        if label.name == "deletion"
        else result
        for label, result in row.results.items()
    }
    return row.model_copy(update={"results": results})
