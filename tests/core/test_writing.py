"""Files are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from slalom_bench.core.writing import replacing, write_whole


def test_a_block_that_raises_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "a.txt"
    write_whole(file, "old")

    def fail():
        with replacing(file) as place:
            place.write_text("half")
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        fail()
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"a.txt": "old"}


@pytest.mark.parametrize("name", [".", "folder", ".."])
def test_a_folder_is_not_written_over(tmp_path, monkeypatch, name):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsADirectoryError):
        write_whole(Path(name), "text")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "target").read_text() == "mine"
    assert not (tmp_path / "link").is_symlink()
