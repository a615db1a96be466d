"""Parameters of registered things: the bounds that constructors declare, and values held against them.

A constructor's annotations are what a value must be; a bound stands in the annotation, so that the check, the error
and `slalom-bench list NAME` say the same.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from slalom_bench.errors import InvalidInput

MOST = 100_000
"""Far above anything of use, and far below what would fill the memory or never end."""
Count: TypeAlias = Annotated[int, Ge(1), Le(MOST)]
"""How many of something that cannot be missing."""
Length: TypeAlias = Annotated[int, Ge(1), Le(1000)]
"""How many tokens every one of many sequences has."""
Natural: TypeAlias = Annotated[int, Ge(0), Le(2**63 - 1)]
"""A seed, or how many of something that may be missing."""
Size: TypeAlias = Annotated[int, Ge(0), Le(1_000_000)]
"""How many texts are to be made."""
Positive: TypeAlias = Annotated[float, Gt(0)]
NonNegative: TypeAlias = Annotated[float, Ge(0)]
Share: TypeAlias = Annotated[float, Gt(0), Le(1)]
"""A part of a whole, or all of it."""

_BOUNDS = {Gt: (">", "gt"), Ge: (">=", "ge"), Lt: ("<", "lt"), Le: ("<=", "le")}


def parameter_types(factory: Callable[..., Any]) -> dict[str, Any]:
    """The types of what a constructor takes; empty where its annotations name what only a type checker imports."""
    try:
        maker: Any = factory
        return get_type_hints(maker.__init__ if inspect.isclass(factory) else maker, include_extras=True)
    except NameError:
        return {}


def spell_type(kind: Any) -> str:
    """A type in words that a user reads.

    >>> spell_type(Share), spell_type(Count | None)
    ('float > 0 and <= 1', 'int >= 1 and <= 100000 | None')
    """
    if isinstance(kind, str) or kind is inspect.Parameter.empty:
        return kind if isinstance(kind, str) else "any"
    if get_origin(kind) is Annotated:
        base, *marks = get_args(kind)
        bounds = [(*_BOUNDS[type(mark)], mark) for mark in marks if type(mark) in _BOUNDS]
        said = [f"{sign} {getattr(mark, name)}" for sign, name, mark in bounds]
        return " ".join([spell_type(base), " and ".join(said)]).strip()
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(map(spell_type, get_args(kind)))
    if get_origin(kind) is None:
        return "None" if kind is type(None) else getattr(kind, "__name__", str(kind))
    inner = ", ".join(part if isinstance(part, str) else spell_type(part) for part in get_args(kind))
    return f"{getattr(get_origin(kind), '__name__', kind)}[{inner}]"


def checked(owner: str, factory: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values as the constructor takes them; refused where one is not of its parameter's type or out of bounds.

    An int will do for a float, and a number for text, since a command line cannot spell `"2020"`; a bool is no number,
    text is no number, and nothing is infinite. An annotation that cannot be checked checks nothing.

    Args:
        owner: whose parameters they are, for the error.
        factory: whose annotations say what is right.
        given: values by the names of parameters.
    """
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

    rules = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    known = parameter_types(factory)
    made = dict(given)
    for name, value in given.items():
        kind = known.get(name, Any)
        if type(value) in (int, float) and str in (kind, *get_args(kind)):
            value = str(value)
        try:
            made[name] = TypeAdapter(kind, config=rules).validate_python(value)
        except PydanticUserError:
            continue
        except ValidationError as error:
            raise InvalidInput(f"{owner}: {name} must be {spell_type(kind)}, not {value!r}") from error
    return made
