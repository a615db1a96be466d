"""The review of dependencies in docs/security.md is of what is pinned, and says what each direct one is for."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
REVIEW = runpy.run_path(str(ROOT / ".ci" / "dependencies.py"))


def _rows() -> dict[str, list[str]]:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    _, _, table = page.partition(REVIEW["START"])
    lines = [line.strip("| ").split(" | ") for line in table.partition(REVIEW["END"])[0].splitlines() if "|" in line]
    return {name: rest for name, *rest in lines[2:]}


def test_the_review_names_every_pinned_package_at_its_version():
    assert {name: row[0] for name, row in _rows().items()} == REVIEW["pinned"]()


def test_every_direct_dependency_is_pinned_and_says_what_it_is_for():
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = said["project"]["optional-dependencies"].values()
    lines = [*said["project"]["dependencies"], *said["build-system"]["requires"], *(line for e in extras for line in e)]
    direct = {REVIEW["canonical"](re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines} - {"slalom-bench"}
    rows = _rows()
    assert direct <= rows.keys()
    assert {name: rows[name][2] for name in direct} == {name: REVIEW["PURPOSES"][name] for name in direct}
