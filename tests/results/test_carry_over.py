"""Carry-over between two models: by hand, against scipy, and through the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats as scipy_stats
from typer.testing import CliRunner

from slalom_bench.cli import app
from slalom_bench.errors import InvalidInput
from slalom_bench.results.across_tiers import across_tiers
from slalom_bench.results.boards import boards
from slalom_bench.results.carry_over import NOT_RANKED, TOO_FEW, carry_over, correlate
from slalom_bench.results.collect import submit
from slalom_bench.results.reading import read_run
from slalom_bench.results.submission import MetricInfo, read_submission
from slalom_bench.showing import comparing, markdown
from slalom_bench.showing.leaderboard import generate

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
LOG = INFO.model_copy(update={"scale": "log", "direction": "lower"})


def column(scores, first=0):
    """Texts x methods as the scores of a model, methods a, b, ..."""
    return {
        chr(97 + j): [{f"s{first + i}": float(value) for i, value in enumerate(values)}]
        for j, values in enumerate(np.transpose(scores))
    }


def of(left, right, info=INFO, **more):
    return correlate("t", ("one", "two"), info, left, right, **more)


def test_by_hand():
    """Means 1 2 3 4 and 10 30 20 40: ranks 1 2 3 4 and 1 3 2 4, so 1 - 6 * 2 / (4 * 15)."""
    left = column([[0, 2, 3, 3], [2, 2, 3, 5]])
    found = of(left | {"only": [{"s0": 1.0}]}, column([[10, 30, 20, 40]]))
    assert found.means == {"a": (1, 10), "b": (2, 30), "c": (3, 20), "d": (4, 40)}
    assert found.spearman == pytest.approx(0.8)
    assert found.texts == (2, 1, 1)
    assert found.interval is None, "one text on a side has no resamples"
    assert found.ceiling[0] is not None
    assert found.ceiling[1] is None


def test_identical_models_give_one_and_reversed_ones_minus_one():
    scores = np.random.default_rng(0).normal(size=(12, 6))
    same, turned = of(column(scores), column(scores)), of(column(scores), column(-scores))
    assert same.spearman == pytest.approx(1)
    assert (same.interval.low, same.interval.high) == pytest.approx((1, 1)), "texts of both are drawn together"
    assert turned.spearman == pytest.approx(-1)
    assert (turned.interval.low, turned.interval.high) == pytest.approx((-1, -1))
    apart = of(column(scores), column(scores), same_texts=False)
    assert apart.texts == (12, 12, 0)
    assert apart.interval.low < 0.9, "texts that only share their ids are drawn apart"
    assert same.ceiling[0] == same.ceiling[1]


def test_the_interval_is_that_of_a_plain_bootstrap_and_seeded():
    rng = np.random.default_rng(1)
    truth = np.linspace(0, 1, 7)
    x, y = (truth + rng.normal(size=(20, 7)) for _ in range(2))
    found = of(column(x), column(y, first=5))
    assert found.texts == (20, 20, 15)
    assert found == of(column(x), column(y, first=5))
    plain, own = [], []
    for _ in range(2000):
        both, one, other = 5 + rng.integers(0, 15, 15), rng.integers(0, 5, 5), 15 + rng.integers(0, 5, 5)
        means = x[[*both, *one]].mean(axis=0), y[[*(both - 5), *other]].mean(axis=0)
        plain.append(scipy_stats.spearmanr(*means).statistic)
        own.append(scipy_stats.spearmanr(means[0], x.mean(axis=0)).statistic)
    for resampled, expected in ((found.interval, plain), (found.ceiling[0], own)):
        low, median, high = np.quantile(expected, (0.025, 0.5, 0.975))
        assert (resampled.low, resampled.median, resampled.high) == pytest.approx((low, median, high), abs=0.08)


def test_errors_have_geometric_means():
    found = of(column([[1, 2, 3], [16, 2, 3]]), column([[1, 2, 3], [1, 2, 3]]), LOG)
    assert found.means["a"] == pytest.approx((4, 1))
    assert found.spearman == pytest.approx(-0.5), "4, 2, 3 against 1, 2, 3; arithmetic means would say 8.5, 2, 3"
    small = of(column([[1, 2, 3], [4.9, 2, 3]]), column([[1, 2, 3], [1, 2, 3]]), LOG)
    assert small.spearman == pytest.approx(0.5), "2.21, 2, 3; arithmetic 2.95 would say the same, 1 text would say 1"


def test_undefined_with_the_reason():
    assert of(column([[1, 2]]), column([[1, 2]])).reason == TOO_FEW
    assert of(column([[1, 2, 3]]), {"x": [{"s0": 1.0}]}).reason == TOO_FEW
    flat = of(column([[1, 1, 1]]), column([[1, 2, 3]]))
    assert (flat.spearman, flat.interval, flat.reason) == (None, None, NOT_RANKED)
    assert flat.means["a"] == (1, 1)


def test_texts_that_a_method_does_not_define_count_for_none():
    left = column([[1, 2, 3], [9, 2, 3], [1, 2, 3]])
    left["b"][0]["s1"] = None
    assert of(left, column([[1, 2, 3]])).means["a"] == (1, 1)


@pytest.fixture(scope="module")
def pair(lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("carry")
    one = lab.run(folder / "one", lab.subject(), budgets=(30,))
    return one, lab.run(folder / "two", lab.subject("mini-bert", shift=0.5), budgets=(30,))


def test_runs_of_two_models(pair):
    found = carry_over(*(read_run(path) for path in pair))
    assert [(one.metric.name, one.models) for one in found] == [
        ("strict-fidelity", ("slalom-transformer", "mini-bert")),
        ("deletion", ("slalom-transformer", "mini-bert")),
    ]
    deletion = found[1]
    assert deletion.texts[0] == deletion.texts[1] == deletion.texts[2]
    assert deletion.spearman == pytest.approx(scipy_stats.spearmanr(*zip(*deletion.means.values(), strict=True))[0])
    own = carry_over(read_run(pair[0]), read_run(pair[0]))
    assert [one.spearman for one in own if one.spearman is not None] == pytest.approx([1.0] * len(own))


def test_what_cannot_be_paired_is_an_error(pair, lab, tmp_path):
    other = lab.run(tmp_path / "other", lab.subject(), budgets=(60,))
    with pytest.raises(InvalidInput, match=r"no task, budget and metric in common.*budget 30.*budget 60"):
        carry_over(read_run(pair[0]), read_run(other))
    lab.run(tmp_path / "other", lab.subject(shift=0.7), budgets=(60,))
    with pytest.raises(InvalidInput, match="several boards of slalom-transformer"):
        carry_over(read_run(other), read_run(other))


def test_the_command(pair):
    paths = [str(path) for path in pair]
    done = CliRunner().invoke(app, ["carry-over", *paths, "--json"], catch_exceptions=False)
    expected = carry_over(*(read_run(path) for path in pair))
    assert json.loads(done.stdout) == json.loads(json.dumps([one.to_dict() for one in expected]))
    shown = CliRunner().invoke(app, ["carry-over", *paths], catch_exceptions=False).stdout
    assert "A = slalom-transformer, B = mini-bert" in shown
    assert f"{expected[1].spearman:.2f} [" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_embedded_boards_state_it_at_their_head(pair, tmp_path, monkeypatch):
    """From the submissions alone; a pretrained board of another task, rule or cut is none to be compared with."""
    small, large = (read_submission(submit(read_run(path), tmp_path / "results")[0]) for path in pair)
    small, large = (
        said.model_copy(update={"model": said.model.model_copy(update={"tier": tier})})
        for said, tier in ((small, "embedded"), (large, "small-pretrained"))
    )
    found, expected = across_tiers(boards([small, large])), carry_over(*(read_run(path) for path in pair))
    assert [one.to_dict() for one in found] == [one.to_dict() for one in expected]
    goal = max(one.spearman for one in found)
    monkeypatch.setattr(comparing, "GOAL", goal)
    files = generate([small, large])
    head = files["synthetic-slalom.md"]
    for one in found:
        text = f"{one.spearman:.2f} [{one.interval.low:.2f}, {one.interval.high:.2f}]"
        text += " (low)" if one.spearman < goal else ""
        # in front the quantities that lead, behind them every metric
        assert one.metric.name != "deletion" or markdown.escape(text) in head
        assert f"<td>{text}</td>" in files["synthetic-slalom/tables.html"]
    assert "slalom-transformer to mini-bert" in head
    monkeypatch.setattr(comparing, "GOAL", 1.1)
    assert generate([small, large])["synthetic-slalom/tables.html"].count(" (low)</td>") == len(found)
    other = large.model_copy(update={"max_tokens": 7})
    assert across_tiers(boards([small, other])) == []
    # among larger ones too, unless that is all there is while embedded ones stand beside them
    second = large.model_copy(update={"model": large.model.model_copy(update={"name": "second", "identity": "e" * 64})})
    names = ["slalom-transformer", "mini-bert", "second"]
    pairs = dict.fromkeys(one.models for one in across_tiers(boards([small, large, second])))
    assert list(pairs) == [(names[0], names[1]), (names[0], names[2]), (names[1], names[2])]
    header, rows = comparing.carried_table(across_tiers(boards([small, large, second])))
    assert [row[1] for row in rows] == [" to ".join(pair) for pair in pairs]
    assert len(header) == 2 + len({one.metric.label for one in found}) == len(rows[0])
    assert [one.models for one in across_tiers(boards([large, second]))][:1] == [(names[1], names[2])]
    apart = [model.model_copy(update={"max_tokens": 7}) for model in (large, second)]
    assert across_tiers(boards([small, *apart])) == []
    assert comparing.NOT_CARRIED in generate([small, other])["synthetic-slalom.md"]
