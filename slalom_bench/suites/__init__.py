"""Suites as TOML files: the built-in ones beside this module, and a user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from slalom_bench import registry
from slalom_bench.errors import InvalidInput, SlalomBenchError
from slalom_bench.registry import Entry
from slalom_bench.run.suite import Suite, make_suite

SCALES = "scales"


def built_in() -> Iterator[Entry]:
    """An entry for each packaged TOML file; the file is read when the suite is used."""
    for file in sorted(resources.files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            data = tomllib.loads(file.read_text(encoding="utf-8"))
            extra: dict[str, Any] = {key: data[key] for key in ("tasks", "models", "samples", "budgets") if key in data}
            extra["scales"] = ["default", *data.get(SCALES, {})]
            summary = data.get("description", "")
            yield Entry("suite", file.name.removesuffix(".toml"), file, 1, f"{__name__}/{file.name}", summary,
                        frozenset(), extra)


def load_suite(name: str, scale: str | None = None, **overrides: Any) -> Suite:
    """A built-in suite by name or a user's by path; `scale` picks a table under [scales], overrides win."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InvalidInput(f"suite file {name} does not exist; built-in: {', '.join(registry.suites.names())}")
        text, title = path.read_text(encoding="utf-8"), path.stem
    else:
        entry = registry.suites.get(name)
        text, title = entry.factory.read_text(encoding="utf-8"), name
    return parse_suite(text, title, name, scale, overrides)


def parse_suite(text: str, title: str, origin: str, scale: str | None, overrides: dict[str, Any]) -> Suite:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{origin}: {error}") from error
    scales = data.pop(SCALES, {})
    if scale is not None and scale != "default":
        if scale not in scales:
            raise InvalidInput(f"{origin} has no scale {scale!r}; it has: {', '.join(['default', *scales])}")
        data |= scales[scale]
    given = {key: value for key, value in overrides.items() if value is not None}
    try:
        suite = make_suite(**{"name": title, **data, **given})
        suite.check_names()
    except SlalomBenchError as error:
        raise InvalidInput(f"{_place(text, str(error), origin)}{error}") from error
    return suite


def _place(text: str, message: str, origin: str) -> str:
    """`file, line 4: ` for the first line that holds a quoted value or the field that the message names."""
    quoted = [part for part in message.split("'")[1::2] if part]
    field = message.split(":")[0].split(".")[0]
    for wanted in (*quoted, field):
        for number, line in enumerate(text.splitlines(), start=1):
            if wanted and wanted in line:
                return f"{origin}, line {number}: "
    return f"{origin}: "
