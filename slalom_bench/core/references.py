"""References to registered things, as they are written on a command line and in a suite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slalom_bench.errors import InvalidInput


@dataclass(frozen=True)
class Ref:
    """`NAME[:ARGUMENT][,key=value,...]`: a registered name with what it is given.

    The argument is the first item after the colon that is no `key=value`: a file, a checkpoint, a model. Whether a
    thing takes one, and which of its parameters that is, the registry knows.

    >>> Ref.parse("lime:tie=token")
    Ref(name='lime', argument=None, params={'tie': 'token'})
    >>> str(Ref.parse("text:reviews.csv,text_column=body"))
    'text:reviews.csv,text_column=body'
    """

    name: str
    argument: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Read a reference as it stands on a command line or in a suite; numbers and true/false/null become values."""
        name, _, rest = text.partition(":")
        items = [item for item in rest.split(",") if item]
        argument = items.pop(0) if items and "=" not in items[0] else None
        params = {}
        for item in items:
            key, equals, value = item.partition("=")
            if not equals or not key.isidentifier():
                raise InvalidInput(f"{text!r}: expected NAME[:ARGUMENT][,key=value,...], found {item!r}")
            params[key] = _literal(value)
        if not name:
            raise InvalidInput(f"{text!r}: expected NAME[:ARGUMENT][,key=value,...]")
        return cls(name, argument, params)

    @property
    def spec(self) -> str:
        """The name with its argument and without parameters: `text:FILE`, `lime`."""
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    def __str__(self) -> str:
        params = ",".join(f"{key}={_spell(value)}" for key, value in sorted(self.params.items()))
        if not params:
            return self.spec
        return f"{self.spec}{':' if self.argument is None else ','}{params}"


def _literal(text: str) -> Any:
    """Numbers, true/false/null as JSON spells them; anything else is a string."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, (dict, list)) else value


def _spell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
