"""Rows of the store as objects, and objects as rows: stored explanations, stored errors."""

from __future__ import annotations

import base64
import re
import traceback
from collections.abc import Mapping
from typing import Any

import numpy as np

from slalom_bench import registry
from slalom_bench.core.safe_text import visible
from slalom_bench.core.surrogate import Surrogate
from slalom_bench.core.types import Asked, Explanation
from slalom_bench.errors import InvalidInput, RunStopped, SlalomBenchError, StoreError
from slalom_bench.handle.backend import OutOfMemory

NOT_EXPLAINED = "NotExplained"
"""The error of a score whose explanation failed: the explanation's own error is the one that counts."""
FAILED = "failed: "
"""What stands before the type of an error, as the reason why there is no value."""
TRACEBACK = 2000
"""Characters kept of an unexpected error's traceback."""
CAUSES = 100
"""Errors that led to an error, looked at at most."""
PLACE = re.compile(r'^(\s*File )"(.+?)"(?=, line \d+)')
"""Where a line of a traceback says which file it is of."""


def surrogate_from_dict(data: Mapping[str, Any]) -> Surrogate:
    """The surrogate of a stored explanation, by the registered name in `kind`."""
    return registry.surrogates.get(str(data.get("kind"))).from_dict(data)


def explanation_from_dict(data: Mapping[str, Any]) -> Explanation:
    """The explanation that `Explanation.to_dict` wrote; anything else is refused with its fault."""
    try:
        surrogate = data.get("surrogate")
        return Explanation(
            scores={name: np.asarray(v, np.float64) for name, v in data["scores"].items()},
            primary=data["primary"],
            target=int(data.get("target", 1)),
            unsigned=frozenset(data.get("unsigned", ())),
            surrogate=None if surrogate is None else surrogate_from_dict(surrogate),
            diagnostics=data.get("diagnostics", {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"not an explanation: {type(error).__name__}: {error}") from error


def pack_asked(asked: Asked | None) -> str | None:
    """Keys of sequences as text: base64 of 8 bytes each, the least first.

    >>> pack_asked(np.array([1, 2], np.uint64))
    'AQAAAAAAAAACAAAAAAAAAA=='
    """
    return None if asked is None else base64.b64encode(np.sort(asked).astype("<u8").tobytes()).decode("ascii")


def unpack_asked(text: str | None) -> Asked | None:
    """The inverse of `pack_asked`."""
    return None if text is None else np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)


def error_row(error: BaseException) -> dict[str, Any]:
    """An error as a row keeps it, an unexpected one with its traceback; what must stop a run is raised again."""
    if isinstance(error, StoreError | RunStopped):
        raise error
    found: dict[str, Any] = {"type": type(error).__name__, "message": visible(str(error))}
    if of_the_moment(error):
        found["passing"] = True
    if not isinstance(error, SlalomBenchError):
        found["traceback"] = visible(_traced(error))[-TRACEBACK:]
    return found


def _traced(error: BaseException) -> str:
    """The traceback with modules for files: the same whoever met the error, and nothing of the machine's folders."""
    modules: dict[str, str] = {}
    causes: list[BaseException | None] = [error]
    for cause in causes:
        if cause is not None and len(causes) < CAUSES:
            causes += [cause.__cause__, cause.__context__]
            frames = [frame for frame, _ in traceback.walk_tb(cause.__traceback__)]
            modules |= {frame.f_code.co_filename: str(frame.f_globals.get("__name__")) for frame in frames}
    lines = "".join(traceback.format_exception(error)).splitlines(keepends=True)
    return "".join(PLACE.sub(lambda found: f'{found[1]}"{modules.get(found[2], "?")}"', line) for line in lines)


def of_the_moment(error: BaseException | None) -> bool:
    """Whether the machine and not the input or the method is at fault: files, the network, time-outs, memory.

    >>> of_the_moment(TimeoutError()), of_the_moment(ValueError())
    (True, False)
    """
    if isinstance(error, OSError | MemoryError | OutOfMemory) or type(error).__name__ == "OutOfMemoryError":
        return True
    # the handle says what to do when memory runs out, and keeps what ran out as the cause
    return isinstance(error, InvalidInput) and isinstance(error.__cause__, OutOfMemory | MemoryError)


def is_passing(row: Mapping[str, Any] | None) -> bool:
    """Whether a row is an error of the moment, to be tried again by the next run."""
    return is_failed(row) and row is not None and bool(row["error"].get("passing"))


def is_echo(row: Mapping[str, Any] | None) -> bool:
    """Whether a row only says that the explanation had failed."""
    return row is not None and bool(row.get("error")) and row["error"].get("type") == NOT_EXPLAINED


def is_failed(row: Mapping[str, Any] | None) -> bool:
    """Whether a row of explanations or scores is an error of its own, not the echo of a failed explanation."""
    return row is not None and bool(row.get("error")) and not is_echo(row)
