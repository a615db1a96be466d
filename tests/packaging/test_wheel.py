"""The wheel holds the whole package under one name and nothing else."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_top_level_module_leaks(wheel):
    top = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"slalom_bench"}


def test_every_source_file_and_weight_is_in_the_wheel(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("tasks", "explainers", "metrics"):
        for file in (ROOT / folder).glob("*.py"):
            assert f"slalom_bench/{folder}/{file.name}" in inside
    for file in (ROOT / "slalom_bench").rglob("*"):
        if file.is_file() and file.suffix != ".pyc":
            assert str(file.relative_to(ROOT)) in inside


def test_the_lowest_versions_are_the_declared_bounds():
    """What `tox -e lowest` tries is what pyproject.toml promises; torch stays at the version that is tested."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = dict(line.split(">=") for line in declared)
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    tried = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    tested = (ROOT / "constraints.txt").read_text()
    assert f"\ntorch=={tried.pop('torch')}\n" in tested
    assert tried == {name: bound for name, bound in bounds.items() if name != "torch"}
