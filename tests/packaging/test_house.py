"""The house is as docs/design.md says: the lobby's modules, the rooms, and no cycle among all modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGN = (ROOT / "docs" / "design.md").read_text()
OUTSIDE = ("tasks", "explainers", "metrics")
"""Rooms whose folders stand beside the package."""


def modules() -> dict[str, Path]:
    """Every module of the package by its name, as in a wheel."""
    homes = {"slalom_bench": ROOT / "slalom_bench"} | {f"slalom_bench.{name}": ROOT / name for name in OUTSIDE}
    found = {}
    for name, folder in homes.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((name, *(part for part in parts if part != "__init__")))] = path
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """Every name that is imported, at the top, in a function or for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """Who imports whom: `from a.b import c` means the module `a.b.c` if there is one, else `a.b`."""
    found: dict[str, set[str]] = {module: set() for module in sources}
    for module, source in sources.items():
        for name in imported(ast.parse(source)):
            while name and name not in sources:
                name = name.rpartition(".")[0]
            if name and name != module:
                found[module].add(name)
    return found


def test_no_module_imports_itself_by_way_of_others():
    TopologicalSorter(graph({name: path.read_text() for name, path in modules().items()})).prepare()


def test_a_cycle_through_a_package_and_a_function_is_seen():
    sources = {
        "slalom_bench.a": "from slalom_bench.a.b import f",
        "slalom_bench.a.b": "def f():\n    from slalom_bench.a import g",
    }
    with pytest.raises(CycleError):
        TopologicalSorter(graph(sources)).prepare()


def test_the_lobby_holds_the_modules_that_the_design_names():
    (paragraph,) = re.findall(r"^The lobby is .*?\n\n", DESIGN, re.DOTALL | re.MULTILINE)
    listed = paragraph.split("Beside the package")[0].split("nothing else may:")[1]
    named = set(re.findall(r"`(\w+)`", listed)) - rooms()
    assert {path.stem for path in (ROOT / "slalom_bench").glob("*.py")} == named


def test_the_design_names_every_room_in_the_order_of_the_linter():
    table = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in re.findall(r"^\| `.*$", DESIGN, re.MULTILINE)]
    contract = ConfigParser()
    contract.read(ROOT / ".importlinter")
    layers = contract["importlinter:contract:rooms"]["layers"].split("\n")
    order = [set(re.findall(r"\w+", layer)) & rooms() for layer in reversed(layers)]
    assert [set(row) for row in table] == [layer for layer in order if layer]
    assert {name for row in table for name in row} == rooms()


def rooms() -> set[str]:
    inside = {path.parent.name for path in (ROOT / "slalom_bench").glob("*/__init__.py")}
    return inside | set(OUTSIDE)
