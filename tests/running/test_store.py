"""The run directory survives torn lines, full disks, other versions and other processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench.errors import StoreError
from slalom_bench.running import store as store_module
from slalom_bench.running.files import SCHEMA, write_json
from slalom_bench.running.identity import (
    CellIdentity,
    ExplainerIdentity,
    MetricLabel,
    ModelIdentity,
    RemovalIdentity,
    TaskIdentity,
)
from slalom_bench.running.provenance import provenance
from slalom_bench.running.store import Rows, RunStore
from slalom_bench.running.suite import make_suite

IDENTITY = CellIdentity(
    task=TaskIdentity(name="imdb", version=1, params={}, content="c", source="here"),
    model=ModelIdentity(name="mini-bert", identity="w", dtype="float32"),
    explainer=ExplainerIdentity(name="lime", version=1, params={"tie": "token"}),
    budget=10,
    seed=0,
    protocol="bench",
    removal=RemovalIdentity(name="delete", version=1, params={}),
    max_tokens=None,
)


def cell(store, identity=IDENTITY, **more):
    with store.taken(identity, **more) as taken:
        return taken


def test_rows_come_back_in_order_and_floats_exactly(tmp_path):
    rows = Rows(tmp_path / "a" / "rows.jsonl")
    rows.append({"id": "x", "value": 0.1 + 0.2})
    rows.append({"id": "y", "value": 1e-300})
    again = Rows(rows.path).rows
    assert list(again) == ["x", "y"]
    assert again["x"]["value"] == 0.1 + 0.2


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 200), texts=st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_a_file_cut_anywhere_keeps_every_whole_row(tmp_path_factory, cut, texts):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    rows = Rows(path)
    for i, text in enumerate(texts):
        rows.append({"id": str(i), "text": text})
    raw = path.read_bytes()
    cut = min(cut, len(raw))
    path.write_bytes(raw[:cut])
    whole = raw[:cut].count(b"\n")
    torn = Rows(path)
    assert list(torn.rows) == [str(i) for i in range(whole)]
    assert (torn.repaired is not None) == (cut != 0 and raw[cut - 1 : cut] != b"\n")
    torn.append({"id": "new", "text": "after"})
    assert list(Rows(path).rows) == [*(str(i) for i in range(whole)), "new"]


def test_reading_does_not_change_a_file_that_somebody_may_be_writing(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"id": "x"}\n{"id": "y", "val')
    assert list(Rows(path).rows) == ["x"]
    assert path.read_bytes().endswith(b'"val')


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "x"}\n{"id": oops}\n{"id": "z"}\n')
    with pytest.raises(StoreError, match=r"rows.jsonl, line 2 is damaged .* --mode restart"):
        Rows(path).rows  # noqa: B018


def test_a_full_disk_is_a_clear_message(tmp_path):
    """/dev/full answers every write with 'no space left on device'."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    path = tmp_path / "rows.jsonl"
    path.symlink_to("/dev/full")
    rows = Rows(path)
    rows._rows = {}
    with pytest.raises(StoreError, match=r"No space left on device.*run the same command again"):
        rows.append({"id": "x"})
    assert "x" not in rows.rows


def test_a_partly_written_row_is_taken_back(tmp_path):
    """A file size limit lets the first bytes of a row through and refuses the rest, as a nearly full disk does."""
    script = """
import resource, signal, sys
from slalom_bench.errors import StoreError
from slalom_bench.running.store import Rows
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rows = Rows(Path(sys.argv[1]))
rows.append({"id": "first", "pad": "x" * 50})
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    rows.append({"id": "second", "pad": "y" * 100})
except StoreError as error:
    print("refused:", error)
"""
    path = tmp_path / "rows.jsonl"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused: cannot write")
    assert path.read_bytes().endswith(b"\n")
    assert list(Rows(path).rows) == ["first"]


def test_rows_are_forced_to_the_disk_once_a_second_and_at_the_end(tmp_path, monkeypatch):
    now, forced = 100.0, []
    monkeypatch.setattr(store_module.time, "monotonic", lambda: now)
    monkeypatch.setattr(store_module.os, "fsync", lambda file: forced.append((now, len(path.read_bytes().split()))))
    path = tmp_path / "rows.jsonl"
    rows = Rows(path)
    for i in range(25):
        now = 100 + i / 10
        rows.append({"id": str(i)})
        assert len(Rows(path).rows) == i + 1, "another process must see the row at once"
    assert [when for when, _ in forced] == [101.0, 102.0]
    rows.sync()
    rows.sync()
    assert len(forced) == 3
    assert forced[-1][1] == len(path.read_bytes().split())


def test_a_disk_that_refuses_rows_at_the_end_is_said(tmp_path, monkeypatch):
    def broken(file):
        raise OSError(5, "Input/output error")

    taken = cell(RunStore(tmp_path))
    taken.scores(MetricLabel("deletion", 1)).append({"id": "x"})
    monkeypatch.setattr(store_module.os, "fsync", broken)
    with pytest.raises(StoreError, match=r"cannot write .*deletion@1.jsonl: Input/output error"):
        taken.sync()


def test_json_files_are_replaced_whole(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_directory_of_another_schema_is_left_alone(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"schema": SCHEMA + 1, "calls": []}))
    with pytest.raises(StoreError, match=f"schema {SCHEMA + 1}, this version writes {SCHEMA}"):
        RunStore(tmp_path).open({})
    assert json.loads((tmp_path / "run.json").read_text())["calls"] == []


def test_cells_without_run_json_and_a_broken_run_json_are_said(tmp_path):
    cell(RunStore(tmp_path))
    with pytest.raises(StoreError, match=r"cells but no run.json"):
        RunStore(tmp_path).open({})
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(StoreError, match=r"cannot read .*run.json"):
        RunStore(tmp_path).open({})


TAKE = """
import sys, time
from pathlib import Path
import runpy
IDENTITY = runpy.run_path(sys.argv[2])['IDENTITY']
from slalom_bench.running.store import RunStore
with RunStore(Path(sys.argv[1])).taken(IDENTITY) as taken:
    print("free" if taken is not None else "taken", flush=True)
    time.sleep(float(sys.argv[3]))
"""


def take(path: Path, seconds: float = 0.0) -> subprocess.Popen:
    command = [sys.executable, "-c", TAKE, str(path), __file__, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_cell_is_held_by_one_process_and_free_again_when_that_dies(tmp_path):
    holder = take(tmp_path, 60.0)
    assert holder.stdout.readline().strip() == "free"
    assert take(tmp_path).communicate()[0].strip() == "taken"
    assert cell(RunStore(tmp_path), IDENTITY.model_copy(update={"seed": 1})) is not None
    holder.kill()
    holder.wait()
    assert take(tmp_path).communicate()[0].strip() == "free"


def test_calls_of_several_processes_are_all_recorded(tmp_path):
    one, other = RunStore(tmp_path), RunStore(tmp_path)
    suite = make_suite(name="x", tasks=["a"], models=["b"], explainers=["c"]).model_dump(mode="json")
    said = {"suite": suite, "sources": [], **provenance("cpu", [])}
    first, second = one.open({"mode": "resume", **said}), other.open({"mode": "restart", **said})
    one.update(first, {"explained": 1})
    other.update(second, {"explained": 2})
    assert [(call["mode"], call["explained"]) for call in one.calls()] == [("resume", 1), ("restart", 2)]


def test_a_cell_under_anothers_name_is_refused(tmp_path):
    store = RunStore(tmp_path)
    path = cell(store).path
    other = IDENTITY.model_copy(update={"budget": 11})
    write_json(path / "cell.json", {"schema": SCHEMA, "identity": other.model_dump(mode="json")})
    with pytest.raises(StoreError, match="holds another cell"):
        cell(store)


def test_restart_throws_the_cell_away_and_nothing_else(tmp_path):
    store = RunStore(tmp_path)
    (tmp_path / "old").mkdir()
    cell(store).explanations.append({"id": "a", "error": {"type": "E", "message": "m"}})
    assert cell(store).explanations.rows
    assert not cell(store, restart=True).explanations.rows
    assert len(store.cells()) == 1
    assert (tmp_path / "old").is_dir()


def test_what_only_describes_does_not_change_the_key():
    moved = IDENTITY.model_copy(update={"task": IDENTITY.task.model_copy(update={"source": "elsewhere"})})
    assert moved.key == IDENTITY.key
    assert IDENTITY.model_copy(update={"seed": 1}).key != IDENTITY.key
    assert IDENTITY.model_copy(update={"seed": 1}).table_key == IDENTITY.table_key


@settings(max_examples=80, deadline=None)
@given(name=st.text(min_size=1, max_size=60))
def test_no_name_escapes_the_run_directory(name):
    model = IDENTITY.model.model_copy(update={"name": name})
    task = IDENTITY.task.model_copy(update={"name": f"../{name}"})
    folder = IDENTITY.model_copy(update={"model": model, "task": task}).folder
    assert "/" not in folder
    assert "\0" not in folder
    assert not folder.startswith(".")


def test_a_light_table_holds_little_and_gives_every_row_whole(tmp_path):
    path, heavy = tmp_path / "rows.jsonl", Rows(tmp_path / "rows.jsonl")
    for i in (2, 0, 1):
        heavy.append({"id": f"r{i}", "x": "é" * (5 + i)})
    light = Rows(path, light=True)
    light.append({"id": "r0", "error": {"type": "E"}, "x": "again"})
    assert light.rows == {"r2": {"id": "r2"}, "r0": {"id": "r0", "error": {"type": "E"}}, "r1": {"id": "r1"}}
    assert light.whole("r2") == {"id": "r2", "x": "é" * 7}
    assert light.whole("r0")["x"] == "again"
    light.append({"id": "r3", "x": 3})
    assert light.whole("r3") == {"id": "r3", "x": 3}
    light.arrange(["r0", "r1", "r2"])
    assert [light.whole(f"r{i}")["id"] for i in range(4)] == ["r0", "r1", "r2", "r3"]
    assert list(Rows(path).rows) == ["r0", "r1", "r2", "r3"]
    assert Rows(path).rows["r0"]["x"] == "again"
    assert len(path.read_bytes().splitlines()) == 4
