"""What is kept of a reproduced entry: its numbers and verdicts as JSON, beside the run they were read from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from slalom_bench.core.hashing import short_hash
from slalom_bench.core.version import VERSION
from slalom_bench.errors import StoreError
from slalom_bench.reproduction.engine import Reproduced
from slalom_bench.reproduction.entry import Entry, Protocol, Scale
from slalom_bench.reproduction.verdict import Word
from slalom_bench.running.files import read_json, write_text

State = Literal["complete", "changed since", "failed", "not run"]


def record_path(out: Path, scale: Scale, name: str) -> Path:
    """Where the record of an entry lies."""
    return out / scale / f"{name}.json"


def write_record(found: Reproduced, out: Path) -> Path:
    """Keep what was measured of an entry."""
    path = record_path(out, found.scale, found.entry.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(to_record(found), indent=1, ensure_ascii=False) + "\n")
    return path


def to_record(found: Reproduced) -> dict[str, Any]:
    """Plain data: for every protocol the verdict, the cells with their standard errors, failures and skips."""
    return {
        "entry": found.entry.name,
        "definition": definition(found.entry, found.scale),
        "scale": found.scale,
        "slalom_bench": VERSION,
        "problem": found.problem,
        "protocols": {
            protocol: {
                "verdict": measured.verdict.word,
                "sentence": measured.verdict.sentence,
                "cells": [
                    {"row": row, "column": column, "mean": value.mean, "error": value.error, "texts": value.texts}
                    for (row, column), value in measured.filled.cells.items()
                    if value is not None
                ],
                "keys": sorted(cell.identity.key for cell in measured.run.cells),
                "failed": measured.failed,
                "skips": list(measured.skips),
            }
            for protocol, measured in found.measured.items()
        },
    }


def definition(entry: Entry, scale: Scale) -> str:
    """A hash of everything in the entry that says what is measured and how it is judged."""
    said = entry.model_dump(mode="json", exclude={"minutes"})
    return short_hash({"scale": scale, **said}, 16)


def read_state(entry: Entry, out: Path, scale: Scale) -> tuple[State, Mapping[str, str]]:
    """How far an entry is, and its verdict by protocol; a record that we cannot have written counts as none."""
    try:
        kept = read_json(record_path(out, scale, entry.name))
        verdicts = {name: part["verdict"] for name, part in kept["protocols"].items()}
        same, failed = kept["definition"] == definition(entry, scale), bool(kept["problem"])
    except (StoreError, KeyError, TypeError, AttributeError):
        return "not run", {}
    if not (verdicts.keys() <= set(get_args(Protocol)) and set(map(str, verdicts.values())) <= set(get_args(Word))):
        return "not run", {}
    return ("failed" if failed else "complete" if same else "changed since"), verdicts
