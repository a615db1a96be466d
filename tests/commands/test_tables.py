"""Tables of commands that read runs: nothing is cut, none is wider than the terminal, and a wide one is used."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from slalom_bench.cli import app
from slalom_bench.errors import InvalidInput
from slalom_bench.showing.columns import blocks, print_table

METRICS = ("deletion", "insertion", "srg", "faithfulness-correlation", "strict-fidelity:largest=2")
NAMES = ("leave-one-out", "linear-deletion", "random", "lime:kernel_width=12.5,tie=token")


@pytest.fixture(scope="module")
def run(lab, tmp_path_factory):
    return lab.run(tmp_path_factory.mktemp("run"), explainers=NAMES, metrics=METRICS, budgets=(20, 30))


@pytest.fixture(scope="module")
def other(lab, tmp_path_factory):
    return lab.run(
        tmp_path_factory.mktemp("other"), explainers=NAMES[:3], metrics=METRICS[:1], budgets=(20,), seeds=(1,)
    )


def said(width: int, *words: object) -> list[str]:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": str(width)}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def tables(lines: list[str]) -> str:
    """What is left without the sentences, which a terminal wraps."""
    return "\n".join(line for line in lines if "  " in line)


@pytest.mark.parametrize(
    "command", [("power",), ("agreement",), ("compare", "other"), ("compare", "run", "--budgets", 20, 30)]
)
def test_the_tables_of_a_run_read_at_80_columns(command, run, other):
    name, *more = command
    words = [name, run, *({"run": run, "other": other}.get(word, word) for word in more)]
    narrow, wide = said(80, *words), said(200, *words)
    assert max(map(len, tables(narrow).splitlines())) <= 80
    assert "…" not in "".join(narrow)
    assert "|:--" not in "".join(narrow), "Markdown is for files"
    assert "&gt;" not in "".join(narrow), "and so are entities"
    assert len(wide) <= len(narrow)
    for word in re.findall(r"[\w.]+", tables(wide)):
        assert word in "\n".join(narrow) or re.fullmatch(r"[\d.]+", word) or name == "agreement", word


def test_agreement_has_its_intervals_where_there_is_room(run):
    narrow, wide = said(80, "agreement", run), said(200, "agreement", run)
    assert any("intervals are in the file" in line for line in narrow)
    assert any("[95 %]" in line and "mean over samples" in line for line in wide)
    assert any(re.search(r"\d \[-?\d\.\d\d, -?\d\.\d\d\]", line) for line in wide)


def test_what_one_run_alone_has_is_said_once(run, other):
    lines = [line for line in said(80, "compare", run, other) if line.startswith("only in A")]
    assert len(lines) == 3  # budget 30; at budget 20 lime, and the metrics that the other run has not
    assert any(
        "linear-deletion" in line and "(strict-fidelity" in line and "deletion," not in line[-60:] for line in lines
    )
    assert not any("absent" in line for line in said(80, "compare", run, other))


def test_runs_on_other_tables_say_which_and_who_compares_them(lab, run, tmp_path):
    mask = lab.run(tmp_path, explainers=NAMES[:1], metrics=METRICS[:1], budgets=(20,), max_tokens=3)
    with pytest.raises(
        InvalidInput, match=r"budget 30 .* has synthetic-slalom .* 3 tokens.*--budgets.*removals.*carry-over"
    ):
        CliRunner().invoke(app, ["compare", str(run), str(mask)], catch_exceptions=False)


def test_the_first_column_stands_before_every_block(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    head = ["metric", *(f"column number {i}" for i in range(9))]
    print_table(head, [["srg", *map(str, range(9))]], head[1:])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("srg") for line in lines) == 3
    assert sorted(word for line in lines if line.startswith("srg") for word in line.split()[1:]) == list("012345678")
    assert max(map(len, lines)) <= 80
    assert blocks([["a" * 90]], 80) == [[["a" * 90]]]


def test_the_list_of_entries_says_what_each_is():
    lines = said(80, "reproduce", "--list")
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("fig-6 ") and "Error of predicted outputs" in line for line in lines)


def test_a_list_that_cuts_lines_says_who_says_the_rest(monkeypatch, capsys):
    from rich.console import Console

    from slalom_bench.commands.list import list_command

    monkeypatch.setattr(Console, "is_terminal", True)
    for width, cut in ((80, True), (300, False)):
        monkeypatch.setenv("COLUMNS", str(width))
        list_command("explainers", as_json=False, data_dir=None)
        lines = capsys.readouterr().out.splitlines()
        assert any(line.endswith("…") for line in lines) == cut
        assert any("`slalom-bench list NAME` says everything" in line for line in lines) == cut
