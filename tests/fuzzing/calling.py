"""One command in this process, and what must hold of it whatever it was given."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

import typer

from slalom_bench import cli

SECONDS = 120
"""Of processor time, where a case takes a fraction of one; by the clock ten times that, on a loaded machine."""
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]")
"""What could steer a terminal: no output holds it."""

SAYS = {
    "verify": r"^(error: |results/[^/ ]+\.json: )",
    "leaderboard": r"^left out: ",
    "run": r"samples failed",
    "score": r"samples failed",
}
"""Commands that may end in exit code 1, each with the line that must say what did not hold."""


@dataclass(frozen=True)
class Case:
    """A command and the folder that it is called in, made from nothing but a seed."""

    words: Sequence[str]
    prepare: Callable[[Path], None] = lambda folder: None


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str
    escaped: str = ""
    """The traceback of what came out of the command line; empty where nothing did."""


class Endless(BaseException):
    """A command that does not come to an end."""


@cache
def _commands() -> Callable[[], None]:
    """The parsers of all commands, which take longer to build than most cases to run: built once."""
    return typer.main.get_command(cli.app)


def call(words: Sequence[str]) -> Outcome:
    """Run a command as the shell would: its streams encode UTF-8 strictly, and stand for no terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code, escaped = 0, ""
    with (
        mock.patch.object(cli, "app", _commands()),
        mock.patch.object(sys, "argv", ["slalom-bench", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _limited(),
    ):
        try:
            cli.main()
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
        except BaseException as error:
            escaped = "".join(traceback.format_exception(error))
    said = [stream.buffer.getvalue().decode("utf-8") for stream in (out, err)]
    return Outcome(code, said[0], said[1], escaped)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Endless(f"not done after {SECONDS} s")

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, 10 * SECONDS))
    before = [signal.signal(number, stop) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def call_there(case: Case) -> Outcome:
    """How a case ends, to be looked at."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name, contextlib.chdir(name):
        case.prepare(Path(name))
        return call(case.words)


def try_case(case: Case) -> tuple[int, str]:
    """Run a case in a folder of its own; its exit code, and what is wrong with how it ended, or nothing."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name, contextlib.chdir(name):
        folder = Path(name)
        case.prepare(folder)
        before = contents(folder)
        outcome = call(case.words)
        return outcome.code, judge(case.words[0], outcome) or broken_file(folder, before)


def judge(command: str, outcome: Outcome) -> str:
    """What is wrong with how a command ended: neither a result, nor exit code 1 as documented, nor one line and 2."""
    if outcome.escaped:
        return outcome.escaped
    if "Traceback (most recent call last)" in outcome.out + outcome.err:
        return f"a traceback was printed: {outcome.err[-1500:]}"
    if found := STEERING.search(outcome.out + outcome.err):
        return f"the output holds {found.group()!r}: {(outcome.out + outcome.err)[-500:]!r}"
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    if outcome.code == 2 and (len(errors) != 1 or outcome.err.splitlines()[-1] != errors[0]):
        return f"exit code 2 without one line that says why: {outcome.err[-1500:]}"
    if outcome.code == 1 and not re.search(SAYS.get(command, "(?!)"), outcome.err, re.MULTILINE):
        return f"exit code 1 without a line of {command} that says why: {outcome.err[-1500:]}"
    if outcome.code not in (0, 1, 2):
        return f"exit code {outcome.code}: {outcome.err[-1500:]}"
    if outcome.code == 0 and errors:
        return f"an error with exit code 0: {errors}"
    return ""


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; what is no file is not opened."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if path.is_file():
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def broken_file(folder: Path, before: dict[str, bytes]) -> str:
    """A file that the command wrote or changed and that is not whole; nothing where all are."""
    for name, data in contents(folder).items():
        if before.get(name) == data or name.endswith(".lock"):
            continue
        if name.endswith(".tmp"):
            return f"{name} was left behind"
        if not _whole(name, data, before.get(name)):
            return f"{name} is not whole: ...{data[-200:]!r}"
    return ""


def _whole(name: str, data: bytes, before: bytes | None) -> bool:
    try:
        text = data.decode("utf-8") if not name.endswith((".parquet", ".png", ".pdf")) else ""
        if name.endswith(".json"):
            json.loads(text)
        if name.endswith(".jsonl"):
            old = (before or b"").count(b"\n")
            for line in text.split("\n")[old:-1]:  # other line breaks are letters of a text
                json.loads(line)
            return text == "" or text.endswith("\n")  # a torn row that was the only one is cut off
    except ValueError:
        return False
    ends = {".html": "</html>", ".svg": "</svg>", ".md": "\n", ".csv": "\n", ".jsonl": "\n"}
    return text.rstrip(" ").endswith(ends.get(Path(name).suffix, "")) or text.strip().endswith(
        ends.get(Path(name).suffix, "").strip() or "\0"
    )
