"""Bad values, texts, JSON and bytes, drawn from a seeded generator."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

STRINGS = (
    "",
    " ",
    "\n",
    "good film",
    "a" * 5000,
    "../../x",
    "/etc/passwd",
    "~",
    ".",
    "-1",
    "null",
    "\ud800",
    "\u202egnp",
    "li\u200bme",
    "\x1b[31mred\x1b[0m",
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "'; DROP TABLE x; --",
    "{{ 7 * 7 }}",
    "%s%n",
    "\x00",
    "é̀̀̀",
    "日本語",
    "🤦🏽‍♀️",
    "NaN",
    "a\tb\r\nc",
    "$(id)",
    "\ufeff",
    "٣",
)
NUMBERS = (
    *(-1, 0, 1, 2, 3, 7, 999, 0.5, -0.5, 1.5, 1e-300, 1e300, -1e308, 1e-9, 2**31, 2**63, 2**64, 10**18, 10**30),
    *(float("nan"), float("inf"), float("-inf"), 10**309, True, False),
)
TEXTS = (
    *STRINGS,
    "good " * 600,
    "!" * 700,
    "(((((",
    "\u0301" * 40,
    "\U0001f600" * 50,
    "\uff47\uff4f\uff4f\uff44",
    "good\u00a0film\u2028bad",
    "I loved it. " * 20,
    "שלום good",
)
WORDS = ("good", "bad", "film", "the", "very", "not", "12", "é", "—", "<b>", "🙂", "\u200b", "it's", "x" * 40)


def value(rng: Random) -> Any:
    """Something that JSON may hold where something else was meant."""
    kind = rng.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return [value(rng) for _ in range(rng.randrange(3))]
    if kind == 2:
        return {rng.choice(STRINGS): value(rng) for _ in range(rng.randrange(3))}
    return rng.choice(STRINGS) if kind < 5 else rng.choice(NUMBERS)


def text(rng: Random) -> str:
    """A text: of a list, of words, or of any characters at all."""
    kind = rng.randrange(3)
    if kind == 0:
        return rng.choice(TEXTS)
    if kind == 1:
        return " ".join(rng.choices(WORDS, k=rng.randrange(1, 30)))
    return "".join(
        chr(rng.choice((rng.randrange(128), rng.randrange(0x3000), rng.randrange(0x110000))))
        for _ in range(rng.randrange(1, 40))
    )


def places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every part of a JSON document but its root."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [place for key, part in items for place in ((*at, key), *places(part, (*at, key)))]


def change(data: Any, rng: Random) -> Any:
    """A JSON document with one part lost, replaced, moved or added."""
    found = places(data)
    if not found or rng.random() < 0.03:
        return value(rng)
    data = copy.deepcopy(data)
    *way, last = rng.choice(found)
    holder = data
    for key in way:
        holder = holder[key]
    kind = rng.randrange(6)
    if kind == 0:
        del holder[last]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice(STRINGS)] = holder[last]
    elif kind == 2 and isinstance(holder, list):
        holder.insert(last, value(rng))
    elif kind == 3 and isinstance(holder[last], int | float):
        holder[last] = rng.choice(NUMBERS)
    elif kind == 4 and isinstance(holder[last], str):
        holder[last] = rng.choice(STRINGS)
    else:
        holder[last] = value(rng)
    return data


def spelled(data: Any, rng: Random) -> bytes:
    """A JSON document as bytes, now and then with what no JSON writer makes."""
    made = json.dumps(data, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.05:
        made = made.replace(": 1", ": " + rng.choice(("1e999", "9" * 5000, "[" * 5000, "01", "-")), 1)
    return made.encode("utf-8", "surrogatepass")


def torn(data: bytes, rng: Random) -> bytes:
    """Bytes as a bad disk, a bad copy or another program leaves them."""
    at = rng.randrange(len(data) + 1)
    faults: tuple[Callable[[], bytes], ...] = (
        lambda: b"",
        lambda: data[:at],
        lambda: data[at:],
        lambda: data[: at // 2] + b"\x00" * 50 + data[at:],
        lambda: data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :] if at < len(data) else data,
        lambda: rng.randbytes(rng.randrange(200)),
        lambda: data.decode("utf-8", "replace").encode("utf-16"),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: data + data,
        lambda: data + b'{"id": "x"',
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: b"[" * 20_000,
        lambda: data.replace(b"0", b"NaN", 1),
        lambda: data[:at] + rng.choice(STRINGS).encode("utf-8", "surrogatepass") + data[at:],
    )
    return rng.choice(faults)()
