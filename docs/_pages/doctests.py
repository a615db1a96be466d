"""A griffe extension: a doctest at the end of a docstring is its `Examples` section, which a page shows as code."""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Before docstrings are parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Move what the doctest runner runs under a heading that the parser knows."""
        if obj.docstring is not None:
            words, mark, rest = obj.docstring.value.partition("\n>>> ")
            if mark and not re.search(r"^Examples?:\n(?=\Z| )", words, re.MULTILINE):
                obj.docstring.value = f"{words}\nExamples:\n{indent('>>> ' + rest, '    ')}"
