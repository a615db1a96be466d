"""Bad input at the command line: one line that names it, exit code 2, and nothing written."""

from __future__ import annotations

import json
import shutil

import pytest

from slalom_bench.cli import main
from slalom_bench.models.minis import MiniBert

RUN = ["run", "--model", "mini-bert", "--explainer", "zero", "--metric", "deletion", "--budget", "20", "--out", "out"]
FILES: dict[str, bytes] = {
    "digits.jsonl": b'{"text": "good", "label": 1}\n{"text": "bad", "label": ' + b"9" * 5000 + b"}\n",
    "deep.jsonl": b"[" * 100_000 + b"\n",
    "utf16.toml": 'tasks = ["imdb"]'.encode("utf-16"),
    "deep.toml": b"x = " + b"[" * 100_000,
    "scales.toml": b'tasks = ["synthetic-linear"]\nmodels = ["bag-of-words"]\nexplainers = ["zero"]\nscales = 3\n',
    "quits.py": b"import sys\nsys.exit(0)\n",
    "stops.py": b"class Stop(BaseException): ...\nraise Stop('here')\n",
    "samples.jsonl": b"mine",
}
CASES = {
    "a label of 5,000 digits": ([*RUN, "--task", "text:digits.jsonl"], "line 2 is not JSON"),
    "JSON without end": ([*RUN, "--task", "text:deep.jsonl"], "nested too deeply"),
    "a suite in UTF-16": (["run", "--suite", "utf16.toml"], "not UTF-8: byte 0xff"),
    "a suite without end": (["run", "--suite", "deep.toml"], "nested too deeply"),
    "scales that are none": (["run", "--suite", "scales.toml", "--scale", "paper"], "scales"),
    "a seed of 100 bits": ([*RUN, "--task", "synthetic-linear", "--seed", str(2**100)], "63 bits"),
    "a file that quits": (["check", "quits.py"], "SystemExit: 0"),
    "a file that stops": (["check", "stops.py"], "Stop: here"),
    "samples over a file": (["score", "samples.jsonl", "--write-samples"], "is there already"),
    "a file for a folder": (
        [*RUN[:-1], "quits.py", "--task", "synthetic-linear", "--model", "bag-of-words"],
        "Not a directory",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_exit_code_2(case, tmp_path, monkeypatch, capsys):
    words, said = CASES[case]
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["slalom-bench", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert stopped.value.code == 2
    assert len(errors) == 1
    assert said in errors[0]
    left = [file for file in tmp_path.iterdir() if file.name != "__pycache__"]  # of what was imported
    assert {file.name: file.read_bytes() for file in left} == FILES


def test_a_label_of_400_digits_is_the_name_of_a_class(tmp_path, monkeypatch):
    (tmp_path / "t.jsonl").write_text('{"text": "good", "label": 1}\n{"text": "bad", "label": ' + "9" * 400 + "}\n")
    from slalom_bench.data.loading import load_task

    data = load_task(f"text:{tmp_path / 't.jsonl'}", {}, None)
    assert data.class_names == ("1", "9" * 400)


@pytest.mark.parametrize("count", ["num_hidden_layers", "num_labels"])
@pytest.mark.parametrize("command", [["explain", "good"], ["run", "--task=imdb", "--dry-run", "--explainer=zero"]])
def test_a_checkpoint_of_a_million_layers_or_classes_is_refused_at_once(command, count, tmp_path, monkeypatch, capsys):
    shutil.copytree(MiniBert().directory, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {count: 10**9}))
    monkeypatch.setattr("sys.argv", ["slalom-bench", *command, "--model", f"hf:{tmp_path / 'model'}"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.strip().endswith(f"{count}; mend its config.json")


@pytest.mark.parametrize("layers", [1, 3])
def test_a_checkpoint_with_surplus_or_missing_layers_is_refused(layers, tmp_path, monkeypatch, capsys):
    shutil.copytree(MiniBert().directory, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_hidden_layers": layers}))
    monkeypatch.setattr("sys.argv", ["slalom-bench", "explain", "good", "--model", f"hf:{tmp_path / 'model'}"])
    with pytest.raises(SystemExit) as stopped:
        main()
    error = capsys.readouterr().err.strip()
    assert stopped.value.code == 2
    assert ("no place" if layers == 1 else "not a trained sequence classifier") in error
    assert "\n" not in error
