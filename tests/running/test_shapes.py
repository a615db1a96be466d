"""Records of another shape in a run directory are one line that names the file, whatever the checksums say."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from slalom_bench.cli import main
from slalom_bench.errors import InvalidInput, StoreError
from slalom_bench.results.profile import _kept
from slalom_bench.results.reading import read_run
from slalom_bench.running.shapes import CostRow, Explained, SampleRow, ScoreRow, parse_stored
from slalom_bench.running.suite import make_suite

COMMANDS = (["report"], ["submit", "--out", "results"], ["export"], ["agreement"], ["power"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small finished run, to be copied."""
    out = tmp_path_factory.mktemp("shapes") / "run"
    words = ["run", "--task", "synthetic-linear", "--model", "bag-of-words", "--explainer", "leave-one-out"]
    _call([*words, "--budget", "30", "--samples", "2", "--metric", "deletion", "--out", str(out), "--json"])
    return out


@pytest.fixture
def run(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path / "run")
    return Path("run")


def _call(words, *codes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["slalom-bench", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
    assert (stopped.value.code or 0) in (codes or (0,))


def _change(file, change):
    """Change the first record of a file, and make its cell's checksum anew."""
    first, *rest = [file.read_text()] if file.suffix == ".json" else file.read_text().splitlines()
    data = json.loads(first)
    change(data)
    file.write_text("\n".join([json.dumps(data), *rest]) + "\n")
    cell = next((folder for folder in file.parents if (folder / "done.json").exists()), None)
    if cell is not None and file.suffix == ".jsonl":
        marker = json.loads((cell / "done.json").read_text())
        made = file.read_bytes()
        marker["tables"][file.relative_to(cell).as_posix()] = [len(made), hashlib.sha256(made).hexdigest()]
        (cell / "done.json").write_text(json.dumps(marker))


CHANGES = {
    "run.json without a machine": ("run.json", lambda d: d["calls"][0].pop("machine")),
    "run.json with a source that is a word": ("run.json", lambda d: d["calls"][0].update(sources=["x"])),
    "run.json whose suite has no samples": ("run.json", lambda d: d["calls"][0]["suite"].update(samples="many")),
    "run.json whose calls are none": ("run.json", lambda d: d.update(calls=[None])),
    "tokens that are a number": ("samples/*.jsonl", lambda d: d.update(tokens=3)),
    "too few offsets": ("samples/*.jsonl", lambda d: d["offsets"].pop()),
    "an offset of 400 digits": ("samples/*.jsonl", lambda d: d["offsets"][0].__setitem__(0, 10**400)),
    "an offset behind the text": ("samples/*.jsonl", lambda d: d["offsets"][-1].__setitem__(1, 10**6)),
    "an offset that ends before it starts": ("samples/*.jsonl", lambda d: d["offsets"][-1].reverse()),
    "scores without undefined": ("cells/*/scores/*.jsonl", lambda d: d.pop("undefined")),
    "scores that are words": ("cells/*/scores/*.jsonl", lambda d: d["values"].update(x="y")),
    "a score of 1e300": ("cells/*/scores/*.jsonl", lambda d: d["values"].update(x=1e300)),
    "half a character in a name": ("cells/*/scores/*.jsonl", lambda d: d["values"].update({"\ud800": 1.0})),
    "an error that is a word": ("cells/*/scores/*.jsonl", lambda d: d.update(error="bad")),
    "costs without seconds": ("cells/*/costs.jsonl", lambda d: d.pop("seconds")),
    "an explanation that is none": ("cells/*/explanations.jsonl", lambda d: d.update(explanation=None)),
    "scores of several lengths": (
        "cells/*/explanations.jsonl",
        lambda d: d["explanation"]["scores"].update(other=[1.0]),
    ),
    "a primary score that is not there": ("cells/*/explanations.jsonl", lambda d: d["explanation"].update(primary="x")),
    "a metric that is none": ("cells/*/done.json", lambda d: d.update(metrics=["../x"])),
}


@pytest.mark.parametrize("which", CHANGES)
def test_another_shape_is_one_line_with_the_file(run, which, capsys):
    pattern, change = CHANGES[which]
    file = next(run.glob(pattern))
    _change(file, change)
    named = 0
    for command, *rest in COMMANDS:
        _call([command, str(run), *rest], 0, 2)
        said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        named += any(file.name in line and "damaged" in line for line in said)
    assert named, "no command has read the file"


@pytest.mark.parametrize("mode", ["resume", "score-only"])
def test_a_run_does_not_go_on_with_records_of_another_shape(run, mode, capsys):
    _change(next(run.glob("cells/*/explanations.jsonl")), lambda d: d.pop("explanation"))
    words = ["run", "--task", "synthetic-linear", "--model", "bag-of-words", "--explainer", "leave-one-out"]
    _call([*words, "--budget", "30", "--samples", "2", "--metric", "deletion", "--out", "run", "--mode", mode], 2)
    assert "explanations.jsonl, line 1 is damaged (explanation: Field required)" in capsys.readouterr().err


def test_explanations_and_texts_of_different_lengths(run, capsys):
    """Each file is of the right shape, the two do not belong together."""

    def shorten(row):
        for name in ("tokens", "offsets"):
            row[name] = row[name][:-1]

    _change(next(run.glob("samples/*.jsonl")), shorten)
    _call(["report", "run"], 2)
    assert "scores for the" in capsys.readouterr().err


def test_what_a_run_writes_has_its_shape(finished):
    """Every field that shapes name is in real rows, so that none of them is checked in vain."""
    found = {
        Explained: "cells/*/explanations.jsonl",
        ScoreRow: "cells/*/scores/*.jsonl",
        CostRow: "cells/*/costs.jsonl",
        SampleRow: "samples/*.jsonl",
    }
    for shape, pattern in found.items():
        row = parse_stored(next(finished.glob(pattern)).read_bytes().splitlines()[0])
        assert set(shape.model_fields) - {"error"} <= row.keys()
    assert read_run(finished).cells


@pytest.mark.parametrize("text", [b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"a": ' + b"1" * 30 + b"}", b"[" * 5000])
def test_json_that_we_never_write(text):
    with pytest.raises(ValueError, match=r"."):
        parse_stored(text)
    assert parse_stored(b'{"a": "\\\\ud800"}') == {"a": "\\ud800"}


def test_a_profile_of_another_shape_is_named(tmp_path):
    (tmp_path / "profile.json").write_text("[1]")
    with pytest.raises(StoreError, match=r"profile.json is damaged .* delete it"):
        _kept(tmp_path / "profile.json", {})


def test_a_suite_that_no_file_could_hold():
    with pytest.raises(InvalidInput, match="half a character"):
        make_suite(name="x", tasks=["a\ud800"], models=["b"], explainers=["c"])
    with pytest.raises(InvalidInput, match="max_tokens"):
        make_suite(name="x", tasks=["a"], models=["b"], explainers=["c"], max_tokens=10**30)
