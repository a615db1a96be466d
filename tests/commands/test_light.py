"""Help, listing and completion answer without loading torch or transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
sys.argv = ["slalom-bench", *sys.argv[1:]]
from slalom_bench.cli import main
try:
    main()
finally:
    named = {"torch", "transformers", "sklearn", "scipy", "pandas", "matplotlib", "datasets", "ray"}
    heavy = sorted(named & set(sys.modules))
    print("LOADED", heavy, file=sys.stderr)
"""


def call(*words, **more):
    command = [sys.executable, "-c", SCRIPT, *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more})


@pytest.mark.parametrize("line", ["--help", "run --help", "list", "list --json", "list models", "--version"])
def test_light_commands_stay_light(line):
    done = call(*line.split())
    assert done.returncode == 0, done.stderr
    assert "LOADED []" in done.stderr


def test_completion_stays_light():
    done = call(_SLALOM_BENCH_COMPLETE="complete_bash", COMP_WORDS="slalom-bench r", COMP_CWORD="1")
    assert "run" in done.stdout.split()
    assert "LOADED []" in done.stderr


def test_list_json_names_every_registered_thing_with_version_and_needs():
    from slalom_bench import registry

    found = json.loads(call("list", "--json").stdout)
    for kind in ("task", "model", "explainer", "metric", "suite"):
        assert sorted(row["name"] for row in found[f"{kind}s"]) == registry.KINDS[kind].names()
        assert all({"version", "needs", "summary", "origin"} <= row.keys() for row in found[f"{kind}s"])


def test_help_has_examples():
    assert "slalom-bench run --suite smoke" in call("run", "--help").stdout


def test_unknown_names_are_one_line_and_exit_code_2():
    done = call("run", "--suite", "smok")
    assert done.returncode == 2
    assert "did you mean smoke?" in done.stderr
    assert "Traceback" not in done.stderr


def test_brackets_in_help_texts_are_not_read_as_markup():
    assert '"scores": [one number per content token]' in " ".join(call("score", "--help").stdout.split())


def test_list_is_a_line_each_and_a_name_gives_its_card():
    from slalom_bench import registry

    lines = call("list", "explainers").stdout.splitlines()
    assert lines[0] == f"explainers ({len(registry.explainers.names())})"
    assert [line.split()[0] for line in lines[1:] if line] == registry.explainers.names()
    card = call("list", "slalom-fidel").stdout
    assert "explainer slalom-fidel" in card
    assert "tie: str = 'token'" in card
    found = json.loads(call("list", "slalom-fidel", "--json").stdout)["explainers"][0]
    tie = next(each for each in found["parameters"] if each["name"] == "tie")
    assert (tie["type"], tie["default"]) == ("str", "token")
    assert tie["text"].startswith("`token` (as published")
    assert found["sections"]["Reference"].startswith("Leemann et al. 2025")
    assert max(map(len, card.splitlines())) <= 80
    wrong = call("list", "slalom-fidl")
    assert (wrong.returncode, "did you mean slalom-fidel" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("body", ["def (", "raise ValueError('no')", "import sys; sys.exit(0)"])
def test_check_names_file_and_line_of_what_does_not_load(tmp_path, body):
    file = tmp_path / "mine.py"
    file.write_text(f"x = 1\n{body}\n", encoding="utf-8")
    done = call("check", str(file))
    assert done.returncode == 2
    assert f"{file}, line 2" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_directory_that_is_not_there_is_said():
    done = call("explain", "good", "--model", "hf:./nope")
    assert done.returncode == 2
    assert "no such directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_names_file_and_line_of_what_an_explainer_raises(tmp_path):
    from slalom_bench.contract.starters import EXPLAINER

    file = tmp_path / "mine.py"
    lines = EXPLAINER.code.substitute(name="mine", cls="Mine").splitlines()
    at = next(i for i, line in enumerate(lines) if "n = len(sample)" in line)
    lines[at] = "        n = len(sample) + int('three')"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = call("check", str(file), "--rule", "shape", "--rule", "short-texts")
    assert done.returncode == 1
    assert done.stdout.count(f"({file}, line {at + 1})") == 2
    assert "invalid literal" in done.stdout
