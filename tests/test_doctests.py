"""The examples in docstrings are run: every module of the package, tasks, explainers and metrics included."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest


def modules() -> list[str]:
    """Every module: those in the package's own folder, and the three rooms that stand beside it in a checkout."""
    names = ["slalom_bench"]
    for room in ("", ".tasks", ".explainers", ".metrics"):
        package = importlib.import_module(f"slalom_bench{room}")
        names += [module.name for module in pkgutil.walk_packages(package.__path__[:1], f"{package.__name__}.")]
    return sorted(set(names))


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert not failed


def test_tasks_explainers_and_metrics_are_among_the_modules() -> None:
    rooms = {name.split(".")[1] for name in modules() if "." in name}
    assert {"numerics", "tasks", "explainers", "metrics"} <= rooms


def test_a_wrong_example_fails() -> None:
    """What the test above relies on: an example whose output differs is counted."""
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner().run(test, out=lambda text: None).failed == 1
