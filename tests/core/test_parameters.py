"""Parameters are held against the constructor's annotations before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import pytest

from slalom_bench import registry
from slalom_bench.cli import main
from slalom_bench.core.parameters import Count, Positive, Share, checked, parameter_types, spell_type
from slalom_bench.errors import InvalidInput

if TYPE_CHECKING:
    from nowhere import Thing

WRONG = [
    ("explainers", "lime:kernel_width=abc", "kernel_width must be float > 0, not 'abc'"),
    ("explainers", "lime:kernel_width=0", "kernel_width must be float > 0, not 0"),
    ("explainers", "lime:kernel_width=nan", "kernel_width must be float > 0, not 'nan'"),
    ("explainers", "lime:kernel_width=NaN", "kernel_width must be float > 0, not nan"),
    ("explainers", "lime:kernel_width=Infinity", "kernel_width must be float > 0, not inf"),
    ("explainers", "lime:kernel_width=true", "kernel_width must be float > 0, not True"),
    ("explainers", "linear-deletion:largest=2.5", "largest must be int >= 1 and <= 100000, not 2.5"),
    ("explainers", "linear-deletion:largest=-5", "largest must be int >= 1 and <= 100000, not -5"),
    ("explainers", "slalom-fidel:largest=2.5", "has no parameter 'largest'"),
    ("explainers", "integrated-gradients:steps=1.5", "steps must be int >= 1 and <= 100000, not 1.5"),
    ("explainers", "integrated-gradients:steps=true", "steps must be int >= 1 and <= 100000, not True"),
    ("explainers", "lime:tie=null", "tie must be str, not None"),
    ("explainers", "slalom-eff:length=1000000000", "length must be int >= 1 and <= 1000, not 1000000000"),
    ("metrics", "surrogate-fit:count=1000000000", "count must be int >= 1 and <= 100000, not 1000000000"),
    ("tasks", "synthetic-linear:train_size=1000000000", "train_size must be int >= 0 and <= 1000000, not 1000000000"),
    ("metrics", "deletion:fractions=0.5", "fractions must be Sequence[float > 0 and <= 1], not 0.5"),
    ("metrics", "nb-spearman:alpha=-1", "alpha must be float >= 0 | None, not -1"),
    ("metrics", "strict-fidelity:largest=-5", "largest must be int >= 1 and <= 100000, not -5"),
    ("models", "mini-bert:seed=-1", "seed must be int >= 0 and <= 9223372036854775807, not -1"),
    ("tasks", "synthetic-linear:seed=-1", "seed must be int >= 0 and <= 9223372036854775807, not -1"),
    ("tasks", "synthetic-linear:sed=1", "has no parameter 'sed'"),
]
RUN = {"tasks": "synthetic-linear", "models": "fc", "explainers": "random", "metrics": "deletion"}


@pytest.mark.parametrize(("kind", "text", "said"), WRONG)
def test_a_wrong_value_is_one_line_and_exit_code_2_and_no_run(kind, text, said, tmp_path, capsys, monkeypatch):
    words = [part for key, value in (RUN | {kind: text}).items() for part in (f"--{key[:-1]}", value)]
    monkeypatch.setattr("sys.argv", ["slalom-bench", "run", *words, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stopped:
        main()
    error = capsys.readouterr().err.strip()
    assert stopped.value.code == 2
    assert said in error
    assert "\n" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words", [("run", "--suite", "smoke"), ("profile", "--suite", "smoke"), ("explain", "good film")]
)
def test_a_budget_that_no_memory_holds_is_one_line_and_exit_code_2(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["slalom-bench", *words, "--budget", "1000000000"])
    with pytest.raises(SystemExit) as stopped:
        main()
    error = capsys.readouterr().err.strip()
    assert stopped.value.code == 2
    assert "from 1 to 100,000" in error
    assert "\n" not in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_data_directory_that_is_not_there_is_one_line_and_exit_code_2(command, tmp_path, capsys, monkeypatch):
    words = {"run": ["--suite", "smoke", "--out", str(tmp_path / "out")], "explain": ["good film"]}[command]
    monkeypatch.setattr("sys.argv", ["slalom-bench", command, *words, "--data-dir", str(tmp_path / "nope")])
    with pytest.raises(SystemExit) as stopped:
        main()
    error = capsys.readouterr().err.strip()
    assert stopped.value.code == 2
    assert "--data-dir: no directory" in error
    assert "\n" not in error


class Example:
    def __init__(
        self, width: Positive = 1.0, shares: Sequence[Share] = (), column: str | None = None, count: Count = 1
    ) -> None:
        pass


def test_an_int_will_do_for_a_float_and_a_number_for_text():
    made = checked("thing", Example, {"width": 2, "shares": [1, 0.5], "column": 2020, "count": 3})
    assert made == {"width": 2.0, "shares": [1.0, 0.5], "column": "2020", "count": 3}
    assert type(made["width"]) is float


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1", None, [1.0]])
def test_what_is_no_positive_number_is_refused(value):
    with pytest.raises(InvalidInput, match="thing: width must be float > 0, not "):
        checked("thing", Example, {"width": value})


@pytest.mark.parametrize("value", [(0.5, 0.0), (1.5,), "0.5", 0.5, (math.nan,)])
def test_bounds_hold_inside_a_sequence(value):
    with pytest.raises(InvalidInput, match=r"shares must be Sequence\[float > 0 and <= 1\]"):
        checked("thing", Example, {"shares": value})


def test_what_only_a_type_checker_imports_checks_nothing():
    class Typed:
        def __init__(self, thing: Thing) -> None:
            pass

    assert checked("thing", Typed, {"thing": 3}) == {"thing": 3}


def test_types_read_well():
    assert spell_type(Count | None) == "int >= 1 and <= 100000 | None"
    assert spell_type(Literal["a", "b"]) == "Literal[a, b]"
    assert spell_type("Thing") == "Thing"


@pytest.mark.parametrize("kind", ["task", "model", "explainer", "metric", "law"])
def test_every_registered_default_is_of_its_type(kind):
    for entry in registry.KINDS[kind].entries():
        defaults = {name: p.default for name, p in entry.parameters.items()}
        assert defaults.keys() <= parameter_types(entry.factory).keys() | {"args", "kwargs"}, entry.name
        if parameter_types(entry.factory):
            assert checked(entry.name, entry.factory, defaults) == defaults
