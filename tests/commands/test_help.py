"""Help texts say what is taken where nothing is given."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from slalom_bench.cli import app

NOTHING = {"text_file", "plot", "html", "rule", "directory", "out", "run", "write", "attest"}
"""Options without which nothing is done or everything is, as their help says."""
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_says_its_default(name):
    for option in COMMANDS[name].params:
        if option.param_type_name != "option" or option.required or option.is_flag or option.name in NOTHING:
            continue
        if option.default is None:
            assert re.search(r"unless given|\belse\b|default", option.help.lower()), (name, option.opts)
        else:
            assert option.show_default, (name, option.opts)


@pytest.mark.parametrize("name", ["run", "profile", "explain"])
def test_the_class_that_is_explained_is_stated(name):
    (target,) = [option for option in COMMANDS[name].params if option.name == "target"]
    assert "class 1 of two, the predicted one of more" in target.help


def test_help_reads_at_eighty_columns():
    for name in COMMANDS:
        done = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
        assert max(map(len, done.stdout.splitlines())) <= 80, name
        # texts of options have more than half of the line, where boxes left them a quarter
        starts = {len(line) - len(line.lstrip()) for line in done.stdout.splitlines() if line.startswith(" " * 12)}
        assert not starts or max(starts) < 40, name
