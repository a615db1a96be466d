"""Outside text made safe: for a name, a terminal, Markdown, a page, a file's name. Nothing else prints outside text.

Outside text is whatever a file, a reply, a plug-in or a user's texts say. Names are refused where they could pass for
another name; everything else is shown as it is, with what would steer a terminal or a page made visible.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

CONTROLS = {c: 0x2400 + c for c in range(32) if c not in (9, 10)} | {127: 0x2421}
CONTROLS |= dict.fromkeys([*range(0x80, 0xA0), 0x2028, 0x2029, 0x202D, 0x202E, *range(0xD800, 0xE000)], 0xFFFD)
"""Control codes as pictures; what would turn or break a line, and half characters, as replacement marks."""
HIDDEN = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
HIDDEN |= {*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
"""Characters that show nothing, beside those of the categories below."""
HIDDEN_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
ALPHABETS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")
"""Alphabets with letters that look alike: no word of a name has letters of two of them."""


FOLDERS = re.compile(r"(?<![\w.:/\\~])(?:[A-Za-z]:|~[\w-]*|\.{1,2})?[\\/](?=\S)(?:[^\\/\s,;'\"|]+[\\/])*")


def visible(text: str) -> str:
    r"""The text without anything that could steer a terminal; line breaks and tabs stay.

    >>> visible("a\x1b[31mb")
    'a␛[31mb'
    """
    return text.replace("\r\n", "\n").translate(CONTROLS)


def line(text: str) -> str:
    r"""The text on one line, so that no part of it can pass for a line of its own.

    >>> line("all fine\nerror: none")
    'all fine error: none'
    """
    return " ".join(visible(text).split())


def strange(text: str) -> str:
    r"""What in a name shows nothing or steers; empty where there is nothing of that kind.

    >>> strange("lime"), strange("li\u200bme")
    ('', 'U+200B')
    """
    if text.isascii() and text.isprintable():
        return ""
    for letter in text:
        category = unicodedata.category(letter)
        if category in HIDDEN_CATEGORIES or ord(letter) in HIDDEN or (category == "Zs" and letter != " "):
            return f"U+{ord(letter):04X}"
    return ""


def disguised(text: str) -> str:
    r"""A word that could pass for another one: letters of two alphabets, or forms that stand for plain letters.

    >>> disguised("lime") == "", disguised("l\u0456me") == ""
    (True, False)
    """
    for word in [] if text.isascii() else re.findall(r"\w+", text):
        found = {unicodedata.name(letter, "").split(" ")[0] for letter in word if letter.isalpha()}
        if len(found.intersection(ALPHABETS)) > 1 or unicodedata.normalize("NFKC", word) != word:
            return str(word)
    return ""


LOOKS = str.maketrans(
    "авсԁеһіјӏкморԛтухѕԝьαβεικνορτυχγωսոցօ01|i",  # noqa: RUF001
    "abcdehljlkmopqtyxswbabelkvoptuxywungoolll",
)
"""What each letter, of whatever alphabet, looks like in some type: the twins of Latin letters, and i, l, 1 as one."""


def look(text: str) -> str:
    r"""A form that is the same for names that look alike: case, accents of width, other alphabets' twins, 0 and 1.

    >>> look("lime") == look("Lіme") == look("1ime"), look("lime") == look("time")
    (True, False)
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.translate(LOOKS).replace("rn", "m").replace("vv", "w")


def without_folders(text: str) -> str:
    r"""Words without the folders of this machine: of an absolute path, or one from home, its last part is left.

    >>> without_folders("no file /home/me/secret/train.csv, nor C:\\Users\\me\\x"), without_folders("org/name, 1/2")
    ('no file train.csv, nor x', 'org/name, 1/2')
    """
    return FOLDERS.sub("", text)


def plain(text: str, length: int = 200) -> str:
    """Outside words as a name takes them: what shows nothing or steers is a space."""
    kept = "".join(" " if strange(letter) else letter for letter in text)
    return kept[:length]


def markdown(text: str) -> str:
    """Text that stays text in Markdown: no markup, no HTML, no link, no second column, no line break."""
    flat = re.sub(r"([\\`*_~\[\]!#])", r"\\\1", line(text))
    flat = re.sub(r":(?=//)|(?<=\bwww)\.", r"\\\g<0>", flat, flags=re.IGNORECASE)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")


def markdown_code(text: str) -> str:
    """Text as code in Markdown; a backtick in it would end the code."""
    flat = line(text)
    return markdown(flat) if "`" in flat else f"`{flat}`"


def html(value: Any) -> Any:
    """What a page's template is given, before its own escaping: text made visible, anything else as it is."""
    return visible(value) if type(value) is str else value


def file_name(*words: str) -> str:
    """Words for a file name: nothing in them can leave the folder.

    >>> file_name("text", "hf:../My model")
    'text_hf-..-my-model'
    """
    return "_".join(re.sub(r"[^a-z0-9.-]+", "-", word.lower()).strip(".-")[:40] for word in words)
