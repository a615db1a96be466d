"""Parts of a run, computed apart and joined, are the run."""

from __future__ import annotations

import hashlib
import json

import pytest
from typer.testing import CliRunner

from slalom_bench.api import build_suite, run
from slalom_bench.cli import app
from slalom_bench.core.options import ModelOptions
from slalom_bench.errors import InvalidInput, StoreError
from slalom_bench.results.reading import read_run
from slalom_bench.running.merging import merge
from slalom_bench.running.runner import run_suite
from slalom_bench.running.shards import parse_shard
from slalom_bench.running.store import RunStore


def spec(samples=5, **values):
    defaults = {"explainer": ["linear-deletion", "random"], "metric": ["deletion", "strict-fidelity:largest=2"]}
    what = {"task": ["synthetic-linear"], "model": ["bag-of-words"], "budget": [20], "samples": samples}
    return build_suite(**(what | defaults | values))


def go(out, shard=(1, 1), **values):
    return run_suite(spec(**values), out, ModelOptions(device="cpu"), shard=shard)


def rows(path):
    """Every file but what holds times: costs, their checksum, and the record of calls."""
    timed = ("costs.jsonl", "done.json", "run.json")
    found = (file for file in path.rglob("*") if file.is_file() and file.parent.name != "locks")
    return {str(file.relative_to(path)): file.read_bytes() for file in found if file.name not in timed}


@pytest.mark.parametrize("count", [2, 3, 7])
def test_parts_joined_are_the_whole_byte_for_byte(tmp_path, count):
    whole = go(tmp_path / "whole")
    parts = [tmp_path / f"part{i}" for i in range(1, count + 1)]
    done = [go(part, (i, count)) for i, part in enumerate(parts, start=1)]
    assert sum(result.explained for result in done) == whole.explained == 10
    merged = merge(parts[::-1], tmp_path / "merged")
    assert (merged.cells, merged.samples) == (2, 10)
    assert rows(tmp_path / "merged") == rows(tmp_path / "whole")
    joined, once = read_run(tmp_path / "merged"), read_run(tmp_path / "whole")
    assert [cell.samples for cell in joined.cells] == [cell.samples for cell in once.cells]
    assert [list(cell.costs) for cell in joined.cells] == [list(cell.costs) for cell in once.cells]
    again = go(tmp_path / "merged")
    assert (again.explained, again.scored, again.reused) == (0, 0, 10)


def test_a_part_that_is_missing_unfinished_or_of_another_cut_is_refused(tmp_path):
    parts = [tmp_path / "a", tmp_path / "b"]
    for i, part in enumerate(parts, start=1):
        go(part, (i, 2))
    with pytest.raises(InvalidInput, match="part 2/2 is not given"):
        merge(parts[:1], tmp_path / "out")
    go(tmp_path / "c", (1, 3))
    with pytest.raises(InvalidInput, match="cut into 2 and 3 parts"):
        merge([*parts, tmp_path / "c"], tmp_path / "out")
    next((tmp_path / "b").glob("cells/*/done.json")).unlink()
    with pytest.raises(StoreError, match="is not finished: run its command again"):
        merge(parts, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rows_that_disagree_are_refused(tmp_path, lab):
    parts = [tmp_path / "a", tmp_path / "b"]
    for part in parts:
        go(part)
    merge(parts, tmp_path / "same")
    assert rows(tmp_path / "same") == rows(tmp_path / "a")
    table = next((tmp_path / "b").glob("cells/*/scores/deletion*.jsonl"))
    table.write_text(table.read_text().replace('"values": {', '"values": {"odd": 1.0, ', 1))
    with pytest.raises(StoreError, match="was changed after its cell was finished"):
        merge(parts, tmp_path / "out")
    lab.reseal(tmp_path / "b")
    with pytest.raises(StoreError, match="differ between two directories"):
        merge(parts, tmp_path / "out")


def forge(path, table, change):
    """Change a table of the first cell of a part, and make its checksum anew."""
    cell = sorted(path.glob("cells/*"))[0]
    file, marker = cell / table, json.loads((cell / "done.json").read_text())
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    marker["tables"][table] = [file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()]
    (cell / "done.json").write_text(json.dumps(marker))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(), "has no row of"),
        (lambda rows: rows[0].update(id="../../x"), "has no row of"),
        (lambda rows: rows[0].update(values="x"), "is damaged"),
    ],
)
def test_a_forged_part_is_refused_before_anything_is_written(tmp_path, change, message):
    for i in (1, 2):
        go(tmp_path / str(i), (i, 2))
    forge(tmp_path / "1", "scores/deletion@1.jsonl", change)
    with pytest.raises(StoreError, match=message):
        merge([tmp_path / "1", tmp_path / "2"], tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def test_texts_that_disagree_are_refused_before_anything_is_written(tmp_path):
    for name, explainer in (("a", "random"), ("b", "linear-deletion")):
        go(tmp_path / name, explainer=[explainer])
    (file,) = (tmp_path / "a" / "samples").glob("*.jsonl")
    file.write_text(file.read_text().replace('"label": ', '"label": 1', 1))
    with pytest.raises(StoreError, match="differ between two directories"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def test_a_forged_number_of_parts_is_not_counted_out(tmp_path):
    go(tmp_path / "1", (1, 2))
    file = tmp_path / "1" / "run.json"
    record = json.loads(file.read_text())
    record["calls"][0]["shard"] = [1, 10**15]
    file.write_text(json.dumps(record))
    with pytest.raises(InvalidInput, match="and more is not given"):
        merge([tmp_path / "1"], tmp_path / "joined")


def test_another_part_does_not_go_into_the_same_directory(tmp_path):
    go(tmp_path / "run", (1, 2))
    with pytest.raises(StoreError, match="holds part 1 of 2 of a run, not 2 of 2"):
        go(tmp_path / "run", (2, 2))
    assert go(tmp_path / "run", (1, 2)).reused == 6
    assert len(RunStore(tmp_path / "run").calls()) == 2


@pytest.mark.parametrize("bad", ["0/3", "4/3", "3", "a/b", "1/0", "-1/2"])
def test_a_bad_part_is_named(bad):
    with pytest.raises(InvalidInput, match="--shard"):
        parse_shard(bad)


def test_the_command_line_has_parts_in_directories_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i in (1, 2):
        run(spec(samples=2, explainer=["zero"], metric=["deletion"]), shard=f"{i}/2")
    parts = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert [name[-4:] for name in parts] == ["1of2", "2of2"]
    said = CliRunner().invoke(app, ["merge", *(f"runs/{name}" for name in parts), "--out", "runs/all"])
    assert said.exit_code == 0
    assert said.output == "1 cells with 2 samples of 2 directories: runs/all\n"
