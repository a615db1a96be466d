"""The fuzz's judge: what it lets pass, and that it finds what it is there to find."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import calling
from calling import Case, Outcome, broken_file, call, contents, judge, try_case

LINE = "error: no such file"
FINE = [
    ("report", Outcome(0, "done\n", "")),
    ("report", Outcome(2, "", f"reading\n{LINE}\n")),
    ("leaderboard", Outcome(1, "", "left out: bad.json: no\n")),
    ("run", Outcome(1, "", "2 samples failed; their rows say why\n")),
]
WRONG = {
    "Boom": ("report", Outcome(1, "", "", escaped="Boom")),
    "a traceback was printed": ("report", Outcome(2, "", f"Traceback (most recent call last)\n{LINE}\n")),
    "the output holds": ("report", Outcome(0, "\x1b[31m", "")),
    "the output holds ": ("report", Outcome(0, "a\u202eb", "")),
    "exit code 2 without one line": ("report", Outcome(2, "", "")),
    "exit code 2 without one line ": ("report", Outcome(2, "", f"{LINE}\n{LINE}\n")),
    "exit code 2 without one line  ": ("report", Outcome(2, "", f"{LINE}\nand more\n")),
    "exit code 1 without a line": ("report", Outcome(1, "", "left out: bad.json: no\n")),
    "exit code 1 without a line ": ("leaderboard", Outcome(1, "", "")),
    "exit code 3": ("report", Outcome(3, "", "")),
    "an error with exit code 0": ("report", Outcome(0, "", f"{LINE}\n")),
}


@pytest.mark.parametrize(("command", "outcome"), FINE)
def test_what_may_be(command, outcome):
    assert judge(command, outcome) == ""


@pytest.mark.parametrize("message", WRONG)
def test_what_may_not_be(message):
    assert judge(*WRONG[message]).startswith(message.strip())


ROW = json.dumps({"id": "a", "text": "one\u2028two\u0085three\x1c"}, ensure_ascii=False)
"""Line breaks that are letters of a text: a row ends with a line feed and nothing else."""
FILES = {
    "rows.jsonl": (f"{ROW}\n{ROW}\n", True),
    "torn.jsonl": (f"{ROW}\n{ROW[:9]}", False),
    "half.jsonl": (f"{ROW[:9]}\n{ROW}\n", False),
    "bad.jsonl": (f"{ROW}\n{ROW[:9]}\n", False),
    "run.json": ("{}", True),
    "torn.json": ("{", False),
    "page.html": ("<html></html>\n", True),
    "torn.html": ("<html>", False),
    "table.md": ("# A\n", True),
    "torn.md": ("# A", False),
    "plot.svg": ("<svg></svg>", True),
    "torn.svg": ("<svg>", False),
    "rows.csv": ("a,b\n1,2\n", True),
    "torn.csv": ("a,b\n1,", False),
    ".run.json.0123456789ab.tmp": ("{}", False),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_whole_and_files_that_are_not(tmp_path, name):
    text, whole = FILES[name]
    (tmp_path / name).write_text(text)
    assert (broken_file(tmp_path, {}) == "") == whole
    assert broken_file(tmp_path, contents(tmp_path)) == ""  # it was there before


def test_rows_added_to_a_file_that_was_bad_are_judged_alone(tmp_path):
    (tmp_path / "rows.jsonl").write_text(f"{ROW[:9]}\n")
    before = contents(tmp_path)
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write(f"{ROW}\n")
    assert broken_file(tmp_path, before) == ""
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write(f"{ROW[:9]}\n")
    assert "is not whole" in broken_file(tmp_path, before)


def test_a_command_without_end_is_stopped(monkeypatch):
    def busy() -> None:
        until = time.process_time() + 20
        while time.process_time() < until:
            pass

    monkeypatch.setattr(calling, "SECONDS", 0.3)
    for endless in (busy, lambda: time.sleep(20)):
        monkeypatch.setattr(calling.cli, "main", endless)
        start = time.monotonic()
        assert "Endless" in call(["list"]).escaped
        assert time.monotonic() - start < 15


def test_a_case_ends_as_its_command(monkeypatch):
    assert try_case(Case(["list"])) == (0, "")
    code, wrong = try_case(Case(["report", "nowhere"]))
    assert (code, wrong) == (2, "")
    monkeypatch.setattr(calling.cli, "main", lambda: Path("x.json").write_text("{"))
    assert "x.json is not whole" in try_case(Case(["list"]))[1]
