"""Tables that were emptied, halved or changed after their cell was finished are seen; restart touches its own files."""

from __future__ import annotations

import pytest

from slalom_bench.errors import StoreError
from slalom_bench.results.collect import submit
from slalom_bench.results.reading import read_run
from slalom_bench.running.files import write_text
from slalom_bench.running.suite import make_suite
from slalom_bench.showing.export import export
from slalom_bench.showing.report import write_report

FEW = {"explainers": ("zero", "leave-one-out"), "budgets": (30,), "metrics": ("deletion",)}


@pytest.fixture
def run(lab, tmp_path):
    return lab.run(tmp_path / "run", **FEW)


def again(lab, run, mode="resume"):
    base = {"name": "test", "tasks": ("synthetic-slalom",), "models": ("slalom-transformer",)}
    return lab.call(run, make_suite(**base, **FEW), mode=mode)


def emptied(data: bytes) -> bytes:
    return b""


def halved(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: len(lines) // 2])


def one_digit(data: bytes) -> bytes:
    at = data.index(b"0.") + 2
    return data[:at] + (b"1" if data[at : at + 1] != b"1" else b"2") + data[at + 1 :]


def tables(run, name):
    return sorted(run.glob(f"cells/leave*/{name}")) or sorted(run.glob(f"cells/*leave*/{name}"))


@pytest.mark.parametrize("name", ["scores/deletion@1.jsonl", "explanations.jsonl", "costs.jsonl"])
@pytest.mark.parametrize("change", [emptied, halved, one_digit])
@pytest.mark.parametrize("reader", ["report", "submit", "export"])
def test_a_changed_table_of_a_finished_cell_is_refused(run, tmp_path, name, change, reader):
    (table,) = tables(run, name)
    table.write_bytes(change(table.read_bytes()))
    readers = {
        "report": lambda: write_report(read_run(run)),
        "submit": lambda: submit(read_run(run), tmp_path / "results"),
        "export": lambda: export(read_run(run), "csv"),
    }
    with pytest.raises(StoreError, match=rf"{name} was changed after its cell was finished"):
        readers[reader]()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("change", [emptied, halved])
def test_lost_rows_are_computed_again_to_the_same_bytes(lab, run, change):
    (table,) = tables(run, "scores/deletion@1.jsonl")
    before = table.read_bytes()
    table.write_bytes(change(before))
    result = again(lab, run)
    assert (result.explained, result.repairs != []) == (0, True)
    assert table.read_bytes() == before
    read_run(run)


def test_a_changed_digit_is_not_taken_over_by_the_next_call(lab, run):
    (table,) = tables(run, "scores/deletion@1.jsonl")
    before = table.read_bytes()
    table.write_bytes(one_digit(before))
    with pytest.raises(StoreError, match="--mode restart"):
        again(lab, run)
    again(lab, run, "restart")
    assert table.read_bytes() == before


@pytest.mark.parametrize("text", ["[]", '{"samples": 3}', '{"samples": [], "tables": {"x": 1}}', '{"samples": [1]}'])
def test_a_marker_of_another_shape_is_named(run, text):
    marker = next(run.glob("cells/*/done.json"))
    marker.write_text(text)
    with pytest.raises(StoreError, match=r"done.json is damaged .*; delete it"):
        read_run(run)


def test_restart_deletes_only_what_the_store_wrote(lab, run):
    cell = next(run.glob("cells/*"))
    mine = [run / "old" / "notes.txt", run / "cells" / "mine.txt", cell / "notes.txt", cell / "scores" / "notes.txt"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    assert again(lab, run, "restart").explained == 18
    assert all(path.read_text() == "mine" for path in mine)


def test_restart_refuses_a_folder_that_is_no_run(lab, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="is not a run directory"):
        again(lab, tmp_path, "restart")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert again(lab, tmp_path / "new", "restart").explained == 18


def test_a_link_at_a_predictable_name_is_not_written_through(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("kept")
    for name in ("a.json.tmp", ".a.json.tmp"):
        (tmp_path / name).symlink_to(secret)
    write_text(tmp_path / "a.json", "{}")
    assert secret.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.json.tmp", "a.json", "a.json.tmp", "secret"]


def test_what_a_killed_process_left_is_swept_up(lab, run):
    (run / ".run.json.0123456789ab.tmp").write_text("{")
    cell = next(run.glob("cells/*"))
    (cell / ".done.json.0123456789ab.tmp").write_text("{")
    again(lab, run)
    assert not list(run.rglob(".*.tmp"))
