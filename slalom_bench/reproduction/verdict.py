"""Whether what was measured agrees with what was printed, with one sentence why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from slalom_bench.numerics.correlation import spearman
from slalom_bench.reproduction.entry import Claim, Entry
from slalom_bench.reproduction.values import Filled, Value

Word = Literal["agrees", "differs", "cannot be compared", "not measured"]


@dataclass(frozen=True)
class Verdict:
    """A word and a sentence."""

    word: Word
    sentence: str


def judge(entry: Entry, filled: Filled) -> Verdict:
    """Hold every check of an entry against its measured cells; one that fails decides."""
    agreement = entry.agreement
    if entry.layout.columns and not any(filled.cells.values()):
        return Verdict("not measured", "No value was measured: the run's skips say why.")
    good: list[str] = []
    bad: list[str] = []
    for claim in agreement.claims:
        holds, said = _claim(entry, claim, filled.cells)
        if holds is not None:
            (good if holds else bad).append(said if holds else f"not so: {said}")
    if agreement.order is not None and (found := _order(entry, filled)) is not None:
        said = f"the order of the columns correlates {found:.2f} with the printed one (asked: {agreement.order:g})"
        (good if found >= agreement.order else bad).append(said)
    if agreement.within is not None and (furthest := _furthest(entry, filled)) is not None:
        said = f"the furthest value is {furthest:.3g} from the printed one (asked: at most {agreement.within:g})"
        (good if furthest <= agreement.within else bad).append(said)
    checked: Word = "differs" if bad else "agrees" if good else "cannot be compared"
    sentence = "; ".join([*bad, *good])
    if agreement.why:
        sentence = f"{sentence}. {agreement.why}" if sentence else agreement.why
    return Verdict(checked, sentence[:1].upper() + sentence[1:].rstrip(".") + ".")


def number_of(printed: float | str) -> float | None:
    """A printed number; of a bound such as `<0.001` the bound, of `-` none.

    >>> number_of("<0.001"), number_of("-")
    (0.001, None)
    """
    return None if printed == "-" else float(printed.lstrip("<>")) if isinstance(printed, str) else printed


def _claim(entry: Entry, claim: Claim, cells: Mapping[tuple[str, str], Value | None]) -> tuple[bool | None, str]:
    """Whether it holds wherever both sides were measured (None: nowhere), and in how many places."""
    rows = [*entry.layout.rows, *entry.layout.sums]
    by_column = claim.less[0] in entry.layout.columns
    places = [place for place in (rows if by_column else entry.layout.columns) if place in (claim.only or (place,))]
    held, seen = 0, 0
    for place in places:
        sides = [cells.get((place, name) if by_column else (name, place)) for name in claim.less]
        numbers = [side.mean for side in sides if side is not None]
        if len(numbers) < len(sides):
            continue
        a, b = (abs(number) if claim.absolute else number for number in [*numbers, 1.0][:2])
        seen += 1
        held += a < claim.factor * b
    return (None if not seen else held == seen), f"{claim.says} (in {held} of {seen})"


def _order(entry: Entry, filled: Filled) -> float | None:
    """The mean over rows of the rank correlation between printed and measured columns."""
    found = []
    for printed, measured in _pairs(entry, filled):
        if len(printed) > 2 and np.ptp(printed) > 0 and np.ptp(measured) > 0:
            found.append(spearman(np.array(printed), np.array(measured)))
    return fmean(found) if found else None


def _furthest(entry: Entry, filled: Filled) -> float | None:
    gaps = [abs(a - b) for printed, measured in _pairs(entry, filled) for a, b in zip(printed, measured, strict=True)]
    return max(gaps) if gaps else None


def _pairs(entry: Entry, filled: Filled) -> list[tuple[list[float], list[float]]]:
    """Printed and measured numbers of each row, where both are there."""
    made = []
    for row, values in entry.published.items():
        both = [
            (number, cell.mean)
            for column, printed in zip(entry.layout.columns, values, strict=True)
            if (number := number_of(printed)) is not None and (cell := filled.cells.get((row, column))) is not None
        ]
        if both:
            made.append(([a for a, _ in both], [b for _, b in both]))
    return made
