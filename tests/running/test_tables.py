"""A run is read with the memory that there is: the same results from tables that come and go."""

from __future__ import annotations

from slalom_bench.results.collect import collect
from slalom_bench.results.reading import read_run
from slalom_bench.running import tables
from slalom_bench.running.store import Rows
from slalom_bench.running.tables import Table


def test_results_do_not_depend_on_how_much_is_held(finished, monkeypatch):
    whole = [one.submission for one in collect(read_run(finished))]
    assert len(tables._held) > 10
    monkeypatch.setattr(tables, "ROOM", 0)
    again = [one.submission for one in collect(read_run(finished))]
    assert len(tables._held) == 1
    assert again == whole


def test_what_was_let_go_is_read_again_and_a_new_reading_sees_new_rows(tmp_path, monkeypatch):
    reads = []
    real = Rows._read
    monkeypatch.setattr(Rows, "_read", lambda self: reads.append(self.path.name) or real(self))
    for name in "ab":
        Rows(tmp_path / name).append({"id": "1", "x": name * 100})
    reads.clear()
    monkeypatch.setattr(tables, "ROOM", 150)
    tables.forget()
    a, b, missing = (Table(Rows(tmp_path / name)) for name in "abc")
    assert (a["1"]["x"], a.get("2"), len(a), list(b), len(missing)) == ("a" * 100, None, 1, ["1"], 0)
    assert reads == ["a", "b", "c"]
    assert a["1"]["x"] == "a" * 100
    assert reads == ["a", "b", "c", "a"]
    Rows(tmp_path / "a").append({"id": "2"})
    assert list(a) == ["1"]
    tables.forget()
    assert list(a) == ["1", "2"]
