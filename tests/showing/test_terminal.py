"""The closing tables at 80 columns and on a wide terminal: nothing cut, every star there, few samples said."""

from __future__ import annotations

import re

import pytest

from slalom_bench.commands.run import run_command
from slalom_bench.results.boards import boards
from slalom_bench.results.collect import collect
from slalom_bench.results.reading import read_run
from slalom_bench.running.loading import Loader
from slalom_bench.running.plan import make_plan
from slalom_bench.running.runner import Runner
from slalom_bench.running.store import RunStore
from slalom_bench.running.suite import make_suite
from slalom_bench.showing.columns import NAME
from slalom_bench.showing.terminal import print_tables, spell
from slalom_bench.showing.wording import TOO_FEW, facts

STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]")
LONG = "lime:kernel_width=12.5,tie=token,law=mixed"


@pytest.fixture(scope="module")
def made(lab, tmp_path_factory):
    path = tmp_path_factory.mktemp("wide")
    names = ("leave-one-out", "linear-deletion", "grad-l2", "random", LONG)
    metrics = ("deletion", "insertion", "srg", "faithfulness-correlation", "strict-fidelity:largest=2")
    return boards([c.submission for c in collect(read_run(lab.run(path, explainers=names, metrics=metrics)))])


def printed(made, width, capsys, monkeypatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    print_tables(made)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [80, 100, 300])
def test_nothing_is_cut_and_every_value_is_there(made, width, capsys, monkeypatch):
    lines = printed(made, width, capsys, monkeypatch)
    text = "\n".join(lines)
    assert "…" not in text
    assert max(map(len, lines)) <= width
    cells = [cell for board in made for row in board.rows for cell in row.cells.values()]
    assert any(cell.marked for cell in cells)
    for cell in cells:
        assert f" {spell(cell, intervals=width == 300)} " in text.replace("\n", " \n")
    starred = [line for line in lines if "none does better" not in line]
    assert sum(line.count("*") for line in starred) == sum(cell.marked for cell in cells)


def test_a_wide_terminal_has_one_block_with_intervals_a_narrow_one_several_without(made, capsys, monkeypatch):
    wide, narrow = (printed(made[:1], width, capsys, monkeypatch) for width in (300, 80))
    assert sum(line.startswith("explainer") for line in wide) == 1
    assert sum(line.startswith("explainer") for line in narrow) > 1
    assert any("[95 % interval]" in line for line in wide)
    assert any("intervals in the report" in line for line in narrow)


def test_a_long_name_goes_on_in_the_next_line(made, capsys, monkeypatch):
    lines = [line.split("  ")[0].strip() for line in printed(made[:1], 80, capsys, monkeypatch)]
    at = next(i for i, line in enumerate(lines) if line.startswith("lime:"))
    title = next(row.name for row in made[0].rows if row.name.startswith("lime"))
    assert lines[at] + lines[at + 1] == title
    assert len(lines[at]) <= NAME < len(title)


def test_few_samples_are_said(lab, tmp_path, capsys, monkeypatch):
    path = lab.run(tmp_path, samples=3, explainers=("leave-one-out", "zero"), metrics=("deletion",))
    few = boards([c.submission for c in collect(read_run(path))])
    assert TOO_FEW in " ".join(printed(few, 80, capsys, monkeypatch))


def test_cut_texts_are_counted_in_run_and_report(lab, tmp_path, capsys):
    from slalom_bench.running.progress import Reporter

    subject = lab.subject()
    suite = make_suite(
        name="t",
        tasks=("synthetic-slalom",),
        models=("slalom-transformer",),
        explainers=("zero",),
        metrics=("deletion",),
        budgets=(9,),
        max_tokens=3,
    )
    loader = Loader(lab.loader().options, Reporter())
    loader.put(subject)
    Runner(suite, make_plan(suite, [subject.planned(9)]), RunStore(tmp_path), loader).run([])
    lengths = [len(subject.sample(example, None)) for example in subject.task.data.evaluation]
    longer = sum(length > 3 for length in lengths)
    said = f"{longer} of 9 texts were cut to 3 tokens (--max-tokens; the longest had {max(lengths)})"
    assert said in capsys.readouterr().err
    (board,) = boards([c.submission for c in collect(read_run(tmp_path))])
    assert dict(facts(board))["tokens"] == f"first 3, {longer} of 9 texts cut"


def test_texts_that_the_model_does_not_read_whole_are_not_called_whole(lab, tmp_path, monkeypatch):
    subject = lab.subject()
    monkeypatch.setattr(subject.classifier.backend, "max_length", 4, raising=False)
    path = lab.run(tmp_path, subject, explainers=("zero",), budgets=(9,), metrics=("deletion",))
    (board,) = boards([c.submission for c in collect(read_run(path))])
    assert dict(facts(board))["tokens"].startswith("as far as the model reads, ")
    whole = lab.run(tmp_path / "whole", explainers=("zero",), budgets=(9,), metrics=("deletion",))
    (board,) = boards([c.submission for c in collect(read_run(whole))])
    assert dict(facts(board))["tokens"] == "whole texts"


@pytest.mark.parametrize("more", [{}, {"dry_run": True}])
def test_a_parameter_of_what_is_skipped_cannot_steer_the_terminal(tmp_path, monkeypatch, capsys, more):
    monkeypatch.chdir(tmp_path)
    odd = "attnlrp:protocol=\u202egnp\x1b[31m\nerror: none"
    what = {"task": ["synthetic-linear"], "model": ["bag-of-words"], "metric": ["deletion"], "budget": ["9"]}
    run_command(**what, explainer=["zero", odd], samples=1, out=tmp_path / "run", **more)
    said = capsys.readouterr()
    assert "attnlrp:protocol=" in said.err + said.out
    assert not STEERS.search(said.err + said.out)
    assert not [one for one in (said.err + said.out).splitlines() if one.startswith("error")]
