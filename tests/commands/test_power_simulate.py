"""`slalom-bench power` and `slalom-bench simulate`: answers that follow from the scores, the same each time."""

import json

import numpy as np
import pytest

from slalom_bench.commands.power import power_command
from slalom_bench.commands.simulate import simulate_command
from slalom_bench.errors import InvalidInput, UnknownName
from slalom_bench.results.boards import boards
from slalom_bench.results.collect import collect, submit
from slalom_bench.results.power import Question, power_table
from slalom_bench.results.quality import pair_level, texts_needed
from slalom_bench.results.reading import read_run
from slalom_bench.results.simulation import LAWS, Coverage, Plan, Seen, Separation
from slalom_bench.showing.simulation import END, START, put_between


@pytest.fixture
def made(finished):
    return boards([collected.submission for collected in collect(read_run(finished))])


def test_two_methods_and_their_texts(made):
    (row, *_) = power_table(made, Question("deletion", "random", "leave-one-out"))
    board = next(board for board in made if board.title == row.board)
    label = next(label for label in board.metrics if label.name == "deletion")
    values = {r.name: r.cells[label].result.values for r in board.rows}
    pairs = [(a, b) for a, b in zip(values["random"], values["leave-one-out"], strict=True) if None not in (a, b)]
    d = np.array([a - b for a, b in pairs])
    assert row.texts == len(d)
    won, lost = (d > 0).sum(), (d < 0).sum()
    share = max(won, lost) / (won + lost)
    assert (row.difference, row.wins) == (pytest.approx(abs(np.median(d))), pytest.approx(share))
    assert row.alone == texts_needed(share, 0.05)
    assert row.together == texts_needed(share, pair_level(board.ranking(label).pairs))
    assert row.together is None or row.together >= row.alone


def test_a_given_difference_is_looked_for(made):
    small, large = (power_table(made, Question("deletion", difference=d))[0] for d in (0.01, 0.1))
    assert small.difference == 0.01
    assert 0.5 <= small.wins <= large.wins
    assert small.alone is None or small.alone >= large.alone
    # by hand: the texts' differences moved so that their median is the one that is looked for
    (row, *_) = power_table(made, Question("deletion", "random", "leave-one-out", difference=0.05))
    board = next(board for board in made if board.title == row.board)
    label = next(label for label in board.metrics if label.name == "deletion")
    rows = {r.name: r.cells[label].result.values for r in board.rows}
    both = [(a, b) for a, b in zip(rows["leave-one-out"], rows["random"], strict=True) if None not in (a, b)]
    d = np.array([b - a for a, b in both])  # higher is better
    moved = d - np.median(d) + 0.05
    assert row.wins == pytest.approx((moved > 0).sum() / (moved != 0).sum(), abs=1e-9)
    (row, *_) = power_table(made, Question("strict-fidelity", difference=0.05))
    assert (row.scale, row.difference) == ("log", pytest.approx(np.log(1.05)))
    assert power_table(made, Question("deletion", difference=0.1, power=0.95))[0].alone >= large.alone


def test_a_submission_that_does_not_hold_together_is_nothing_to_simulate_from(finished, tmp_path):
    path = submit(read_run(finished), tmp_path)[0]
    data = json.loads(path.read_text())
    next(iter(data["rows"][0]["results"].values()))["values"].pop()
    path.write_text(json.dumps(data))
    with pytest.raises(InvalidInput, match="values for"):
        simulate_command(repetitions=1, like=[path])


def test_every_metric_is_answered_by_default_and_printed(finished, made, capsys):
    power_command(finished)
    text = capsys.readouterr().out
    assert "needed alone" in text
    power_command(finished, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert {row["metric"] for row in found} == {"strict-fidelity", "deletion"}
    for row in found:
        board = next(board for board in made if board.title == row["board"])
        quality = next(q for label, q in board.quality.items() if label.name == row["metric"])
        assert (row["a"], row["b"]) == quality.top
        assert row["together"] == quality.texts_needed


def test_questions_that_have_no_answer(made):
    with pytest.raises(InvalidInput, match="--a and --b"):
        power_table(made, Question(a="random"))
    with pytest.raises(InvalidInput, match=r"metrics here are deletion, strict-fidelity.*leave-one-out"):
        power_table(made, Question("no-such-metric"))
    with pytest.raises(InvalidInput, match="nothing to compare"):
        power_table(made, Question(a="random", b="random"))
    with pytest.raises(InvalidInput, match="power"):
        power_table(made, Question(power=1.0))
    with pytest.raises(InvalidInput, match="above zero"):
        power_table(made, Question(difference=-1.0))


def test_what_is_simulated_is_near_what_is_promised():
    normal, lognormal = (law for law in LAWS if law.name in ("normal", "lognormal"))
    plan = Plan([normal, lognormal], (20,), (6,), repetitions=200, flips=199)
    lines = list(plan.run())
    assert len(lines) == plan.lines == 4
    for line in lines:
        if isinstance(line, Separation):
            # at most 5 % nominal; of 200 the standard error is 1.5 %
            assert line.unmarked <= line.size <= 0.1
            assert line.rank_coverage >= 0.9
        else:
            assert line.compared == pytest.approx(0.95, abs=0.025)
    # what does not hold is seen: the mean of skewed errors
    skewed = next(line for line in lines if isinstance(line, Coverage) and line.law == "lognormal")
    assert skewed.mean < 0.9


def test_the_true_means_of_the_laws_are_true():
    rng = np.random.default_rng(0)
    for law in LAWS:
        x = law.draw(rng, 200_000, 1)[:, 0]
        if law.mean is not None:
            raw = np.exp(x) if law.scale == "log" else x
            assert raw.mean() == pytest.approx(law.mean, rel=0.03, abs=0.03)
        if law.scale == "log":
            assert x.mean() == pytest.approx(law.mean_log, abs=0.03)


def test_scores_that_were_seen_are_made_equal_pair_by_pair():
    rng = np.random.default_rng(0)
    scores = rng.lognormal(size=(21, 5)) * np.array([1.0, 1.0, 3.0, 9.0, 1.0])
    scores[:12, 4] = scores[:12, 0]  # ties on more than half of the texts: no shift makes the rest fair
    scores[12:, 4] = scores[12:, 0] + 1.0
    seen = Seen("seen", "linear", scores)
    (one, other), signs = seen.pairs()
    assert list(zip(one, other, strict=True)) == [(i, j) for i in range(5) for j in range(i + 1, 5) if (i, j) != (0, 4)]
    assert (signs.sum(axis=1) == 0).all()  # of every pair over the texts
    assert set(signs.ravel().tolist()) == {-1, 0, 1}
    (line,) = Plan([], (20,), (5,), repetitions=100, flips=99, seen=[seen]).run()
    assert (line.law, line.texts, line.methods, line.rank_coverage) == ("seen", 20, 5, None)
    assert line.size <= 0.12


def test_a_pair_with_one_win_too_many_is_not_called_equal():
    # 24 wins, 23 losses and three ties at the median: in 100 draws that is 51 % of wins
    d = np.concatenate([np.linspace(-2, -1, 24), np.zeros(3), np.linspace(1, 2, 23)])
    fair = np.concatenate([np.linspace(-2, -1, 24), np.zeros(2), np.linspace(1, 2, 24)])
    (one, other), _ = Seen("seen", "linear", np.stack([np.zeros(50), d, fair], axis=1)).pairs()
    assert (0, 2) in zip(one, other, strict=True)
    assert (0, 1) not in zip(one, other, strict=True)


def test_lines_do_not_depend_on_what_else_is_asked(capsys):
    def lines(**asked):
        simulate_command(repetitions=5, flips=19, as_json=True, **asked)
        return json.loads(capsys.readouterr().out)

    few = lines(texts=["20"], methods=["12"], law=["t3"])
    many = lines(texts=["20,50"], methods=["5", "12"], law=["gamma", "t3"])
    assert all(line in many for line in few)
    assert len(many) == 12
    assert lines(texts=["20"], methods=["12"], law=["t3"], seed=1) != few


def test_tables_are_written_into_their_place(tmp_path, capsys):
    path = tmp_path / "statistics.md"
    path.write_text(f"before\n\n{START}\nwhat was here\n{END}\n\nafter\n")
    asked = {"repetitions": 3, "flips": 19, "texts": ["20"], "methods": ["4"], "law": ["normal"]}
    simulate_command(**asked, write=path)
    text = path.read_text()
    # the command that makes the tables, whole
    command = "slalom-bench simulate --repetitions 3 --flips 19 --seed 0 --texts 20 --methods 4 --law normal"
    assert text.startswith(f"before\n\n<!-- simulated -->\n\n`{command}`. Bold")
    assert text.endswith(f"{END}\n\nafter\n")
    assert "what was here" not in text
    simulate_command(**asked, write=path)
    assert path.read_text() == text
    assert put_between("", "x") == f"{START}\n\nx\n\n{END}\n"
    with pytest.raises(UnknownName, match="cauchy"):
        simulate_command(law=["cauchy"])
