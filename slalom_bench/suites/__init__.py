"""Suites: one TOML file each; the file is read when the suite is used."""

from __future__ import annotations

import tomllib
from functools import partial
from importlib import resources

from slalom_bench import registry
from slalom_bench.entries import SuiteEntry

for _file in sorted(resources.files(__name__).iterdir(), key=lambda file: file.name):
    if _file.name.endswith(".toml"):
        _data = tomllib.loads(_file.read_text(encoding="utf-8"))
        registry.suites.add(
            SuiteEntry(
                name=_file.name.removesuffix(".toml"),
                factory=partial(_file.read_text, encoding="utf-8"),
                version=1,
                origin=f"{__name__}/{_file.name}",
                summary=_data.get("description", ""),
                tasks=tuple(_data.get("tasks", ())),
                models=tuple(_data.get("models", ())),
                samples=_data.get("samples"),
                budgets=tuple(_data.get("budgets", ())),
                scales=("default", *_data.get("scales", {})),
            )
        )
