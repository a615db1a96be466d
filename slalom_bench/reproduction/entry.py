"""An entry: one table or figure of a paper as data. Which suite makes it, how it is laid out, what was printed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slalom_bench.errors import InvalidInput
from slalom_bench.running.suite import Suite, make_suite

PAPERS = {
    "slalom": "Leemann et al. 2025, Attention Mechanisms Don't Learn Additive Models, TMLR",
    "attention": "Lopardo, Precioso and Garreau 2024, Attention Meets Post-hoc Interpretability, ICML",
}
Scale = Literal["quick", "paper"]
Protocol = Literal["paper", "bench"]
Selector = dict[str, str | int | list[str] | list[int]]
"""Which values make a cell: equal, or one of a list, in any of `FIELDS`; what is not named does not matter."""
FIELDS = ("task", "model", "explainer", "budget", "metric", "name", "sample")


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Layout(_Data):
    """How an entry looks: a table, lines over x, points of SLALOM scores, or texts with coloured tokens."""

    kind: Literal["table", "lines", "scatter", "map"]
    metric: str = ""
    """The metric of every cell that does not name one; `cost` for what explaining took, `against` for
    likeness to one explainer, `scores` for the mean over tokens of a score."""
    rows: dict[str, Selector] = Field(default_factory=dict)
    columns: dict[str, Selector] = Field(default_factory=dict)
    sums: dict[str, list[str]] = Field(default_factory=dict)
    """Further rows, each the sum of rows above; one after a minus sign is subtracted."""
    x: Literal["", "length", "budget", "k"] = ""
    """What lines run over: tokens of the text, the budget, or the k of values k1, k2, ..."""
    at: Literal["mean", "last"] = "mean"
    """What of a line its cell in the table holds."""
    factor: float = 1.0
    """What values are multiplied by, as the paper does."""
    unit: str = ""
    against: str = ""
    """The explainer that the others are held against, sample by sample (metric `against`)."""
    log: bool = False
    """Whether lines stand on a logarithmic scale."""

    @model_validator(mode="after")
    def _known(self) -> Layout:
        for selector in (*self.rows.values(), *self.columns.values()):
            if unknown := sorted(set(selector) - set(FIELDS)):
                raise ValueError(f"a selector names {', '.join(FIELDS)}, not {', '.join(unknown)}")
        for name, parts in self.sums.items():
            if unknown := sorted({part.removeprefix("-") for part in parts} - set(self.rows)):
                raise ValueError(f"the sum {name!r} names rows that are not there: {', '.join(unknown)}")
        if self.kind == "lines" and not self.x:
            raise ValueError("lines need an x: length, budget or k")
        return self


class Claim(_Data):
    """What the paper says of its numbers, as an inequality that can be looked at in ours."""

    says: str
    less: tuple[str, str] | tuple[str]
    """The first is below the second: two columns, in every row, or two rows, in every column; one is below `factor`."""
    factor: float = 1.0
    """Times the second."""
    absolute: bool = False
    """Whether sizes are compared."""
    only: tuple[str, ...] = ()
    """The columns (or rows) in which it is looked at; all of them where none is named."""


class Agreement(_Data):
    """What counts as agreement; nothing named: it cannot be compared, and `why` says so."""

    order: float | None = None
    """The least Spearman correlation of the columns, printed against ours, as a mean over rows."""
    within: float | None = None
    """The largest difference of any cell from the printed one."""
    claims: list[Claim] = Field(default_factory=list)
    why: str = ""
    """Why numbers cannot be compared, or what to know in comparing them."""


class Entry(_Data):
    """One table or figure."""

    name: str
    paper: Literal["slalom", "attention"]
    what: str
    """Its name in the paper."""
    title: str
    says: str
    """What it is there to show, in our words."""
    suite: dict[str, Any]
    """The suite's fields at the paper's models and sizes; `{entries}` in a task is the folder of the entries."""
    quick: dict[str, Any] = Field(default_factory=dict)
    """The fields that are smaller on two cores."""
    minutes: float
    """What the quick scale takes on one core, alone, its models still to be trained: those that take least go first."""
    protocols: tuple[Protocol, ...] = ("paper", "bench")
    layout: Layout
    published: dict[str, list[float | str]] = Field(default_factory=dict)
    """The printed numbers, row by row in the order of the layout's columns; `<0.001` where a bound was
    printed, `-` where nothing was."""
    agreement: Agreement = Agreement()

    @model_validator(mode="after")
    def _fits(self) -> Entry:
        for row, values in self.published.items():
            if row not in self.layout.rows and row not in self.layout.sums:
                raise ValueError(f"published row {row!r} is no row of the layout")
            if len(values) != len(self.layout.columns):
                raise ValueError(f"published row {row!r} has {len(values)} of {len(self.layout.columns)} columns")
        known = {*self.layout.rows, *self.layout.columns, *self.layout.sums}
        for claim in self.agreement.claims:
            if unknown := sorted({*claim.less, *claim.only} - known):
                raise ValueError(f"a claim names {', '.join(unknown)}, which is neither row nor column")
        if not (self.agreement.claims or self.published or self.agreement.why):
            raise ValueError("there is nothing to compare: give published numbers, claims, or why there are none")
        return self

    def suite_of(self, scale: Scale, protocol: Protocol) -> Suite:
        """The suite to run."""
        fields = self.suite | (self.quick if scale == "quick" else {})
        folder = str(resources.files(__package__) / "entries")
        fields = fields | {"tasks": [str(task).replace("{entries}", folder) for task in fields.get("tasks", ())]}
        return make_suite(
            **{"name": f"reproduce-{self.name}", "description": self.title, **fields, "protocol": protocol}
        )


def parse_entry(name: str, text: str) -> Entry:
    """The entry of a TOML text; an error names file and field."""
    try:
        return Entry(name=name, **tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name}.toml: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "entry"
        raise InvalidInput(f"{name}.toml: {where}: {first['msg']}") from error


def entries() -> Mapping[str, Entry]:
    """All entries by name, in the order of the papers."""
    folder = resources.files(__package__) / "entries"
    found = [
        parse_entry(file.name.removesuffix(".toml"), file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    ]
    return {
        entry.name: entry for entry in sorted(found, key=lambda entry: (entry.paper != "slalom", _number(entry.name)))
    }


def find_entries(names: list[str]) -> list[Entry]:
    """The entries of these names, all of them for `all`; an unknown one is answered with the known ones."""
    known = entries()
    if names == ["all"]:
        return list(known.values())
    if unknown := [name for name in names if name not in known]:
        raise InvalidInput(f"no entry {unknown[0]!r}; there are: all, {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def _number(name: str) -> tuple[str, int, str]:
    """Figures before tables, by number: fig-4a, fig-10, table-1c."""
    kind, _, rest = name.removeprefix("attention-").partition("-")
    digits = "".join(char for char in rest if char.isdecimal())
    return kind, int(digits or 0), rest
