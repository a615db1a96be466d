"""Whatever is given, every command ends in a result or in one line with exit code 2, and leaves no partial file."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from areas import AREAS
from fuzz import fuzz, quieten

SLOW_ROUNDS = 25
"""Of 2,150 cases each: 53,750."""


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path_factory, scratch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(tempfile, "tempdir", None)
    quieten(str(tmp_path_factory.mktemp("cache")))
    yield
    logging.disable(logging.NOTSET)


def _try(area, cases, seed, record_property):
    codes, found = fuzz(area, cases, seed)
    record_property("fuzz", (*(codes[code] for code in range(3)), len(found)))
    assert not found, "\n\n".join(found)
    return codes


@pytest.mark.parametrize("area", AREAS)
def test_every_case_ends_in_a_result_or_in_one_line(area, record_property):
    codes = _try(area, AREAS[area][1], 0, record_property)
    assert codes[2] < codes.total()  # the cases are not all nonsense


@pytest.mark.slow
@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("turn", range(SLOW_ROUNDS))
def test_many_more_cases(area, turn, record_property):
    _try(area, AREAS[area][1], 100 + turn, record_property)
