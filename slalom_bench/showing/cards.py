"""The card of a registered thing: its docstring, taken apart, for `slalom-bench list NAME` and for the site.

A docstring has a summary line, some text, and sections (`Formula:`, `Choose it:`, `Example:`, `Args:`, `Reference:`).
What a class does not say itself is its nearest base class's to say, so that a family explains itself once.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from slalom_bench.core.parameters import parameter_types, spell_type
from slalom_bench.entries import Entry

SECTIONS = ("Formula", "Choose it", "Example", "Args", "Reference")
"""In the order in which a card shows them."""
METHOD, THING = ("Formula", "Choose it", "Example", "Reference"), ("Choose it", "Example")
REQUIRED = {"explainer": METHOD, "metric": METHOD} | dict.fromkeys(("task", "model", "removal", "law"), THING)
"""What the card of everything that ships has, by its kind."""
_HEAD = re.compile(rf"({'|'.join(SECTIONS)}):")
_DOCTEST = re.compile(r"^>>> .*", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Parameter:
    """One thing that a constructor takes."""

    name: str
    type: str
    default: Any
    text: str = ""


@dataclass(frozen=True)
class Card:
    """Everything that is said of one registered thing."""

    kind: str
    name: str
    summary: str
    text: str
    sections: Mapping[str, str]
    parameters: tuple[Parameter, ...]
    facts: Mapping[str, str]
    """What it declares, in words."""

    @property
    def lacking(self) -> list[str]:
        """The sections that a complete card has and this one has not."""
        return [name for name in REQUIRED.get(self.kind, ()) if not self.sections.get(name)]

    def plain(self, width: int = 80) -> str:
        """The card for a terminal of that width; the lines of a formula stay apart."""
        parts = [f"{self.kind} {self.name}", _filled(self.summary, width), _filled(self.text, width)]
        for name in SECTIONS:
            if said := self.sections.get(name):
                lines = _broken(said, width - 2) if name == "Formula" else _filled(said, width - 2)
                parts.append(f"{name}:\n{_indented(lines)}")
        parts.append("\n".join(_filled(f"{name}: {said}", width) for name, said in self.facts.items()))
        if self.parameters:
            parts.append("parameters:\n" + "\n".join(_indented(_parameter(each, width)) for each in self.parameters))
        return "\n\n".join(part for part in parts if part)


def _parameter(each: Parameter, width: int) -> str:
    head = f"{each.name}: {each.type} = {each.default!r}"
    return f"{head}\n{_indented(_filled(each.text, width - 4))}" if each.text else head


def _broken(text: str, width: int) -> str:
    """Lines that are too long, broken, and gone on further in."""
    lines = text.split("\n")
    return "\n".join(fill(line, width, subsequent_indent="    ", break_on_hyphens=False) for line in lines)


def _filled(text: str, width: int) -> str:
    """Paragraphs broken anew at a width."""
    return "\n\n".join(fill(" ".join(part.split()), width, break_on_hyphens=False) for part in text.split("\n\n"))


def card(entry: Entry[Any], **facts: str) -> Card:
    """The card of an entry.

    Args:
        entry: what is registered.
        **facts: more to say of it than it declares.

    >>> from slalom_bench import registry
    >>> card(registry.removals.get("gap")).facts["needs"]
    'positions'
    """
    own = ("kind", "name", "summary", "argument")
    declared = {key: value for key, value in entry.describe().items() if key not in own and value not in _NOTHING}
    said = {key.replace("_", " "): _spell(value) for key, value in declared.items()} | facts
    if entry.kind == "suite":
        return Card(entry.kind, entry.name, entry.summary, "", {}, (), said)
    text, sections = _docstring(entry.factory)
    told = _arguments(sections.pop("Args", ""))
    types = parameter_types(entry.factory)
    parameters = tuple(
        Parameter(
            name,
            spell_type(types.get(name, parameter.annotation)),
            None if parameter.default is inspect.Parameter.empty else parameter.default,
            told.get(name, ""),
        )
        for name, parameter in entry.parameters.items()
    )
    return Card(entry.kind, entry.name, entry.summary, text, sections, parameters, said)


_NOTHING: tuple[Any, ...] = ("", None, (), [], {})


def _docstring(cls: Any) -> tuple[str, dict[str, str]]:
    """Text and sections of a class; what it lacks comes from its nearest base that has it."""
    text, sections = "", dict[str, str]()
    for base in inspect.getmro(cls) if inspect.isclass(cls) else (cls,):
        said = base.__dict__.get("__doc__") if inspect.isclass(base) else base.__doc__
        if base is object or not said or base.__module__ in ("typing", "abc"):
            continue
        own_text, own = split(inspect.cleandoc(said))
        text, sections = text or own_text, own | sections
    return text, sections


def split(docstring: str) -> tuple[str, dict[str, str]]:
    """The text after the summary line, and the sections by name; examples for the doctest runner belong to neither.

    >>> split("A sum.\\n\\nOf two.\\n\\nFormula:\\n    a + b\\n\\nReference:\\n    Euclid.")
    ('Of two.', {'Formula': 'a + b', 'Reference': 'Euclid.'})
    """
    kept: dict[str, list[str]] = {"": []}
    current = ""
    for line in _DOCTEST.sub("", docstring).split("\n")[1:]:
        head = _HEAD.fullmatch(line)
        if head:
            current = head[1]
        elif current and line and not line.startswith(" "):
            current = ""
        if not head:
            kept.setdefault(current, []).append(line)
    found = {name: inspect.cleandoc("\n" + "\n".join(lines)).strip() for name, lines in kept.items()}
    return found.pop(""), {name: said for name, said in found.items() if said}


def _arguments(section: str) -> dict[str, str]:
    """What an `Args` section says of each name; several may share a line."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?! )", section):
        names, _, said = entry.partition(":")
        words = " ".join(said.split())
        found |= {name.strip(): words for name in names.split(",")}
    return found


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {said}" for key, said in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value)
