"""A metric's value on either half of its masks: how far do its numbers, and its ranking of methods, hang on the draw?

A metric that draws masks reports its headline value on two halves of them under these names, beside the value on all.
From the two a board says how alike two draws rank the methods (`slalom_bench.results.quality`), without a second run.
A metric that takes all masks there are draws nothing, and reports no halves.
"""

from __future__ import annotations


def half_names(name: str) -> tuple[str, str]:
    """What the values of the two halves are called.

    >>> half_names("mean")
    ('mean, half 1', 'mean, half 2')
    """
    return f"{name}, half 1", f"{name}, half 2"


def is_half(name: str) -> bool:
    """Whether a value is that of a half.

    >>> is_half("mean, half 2"), is_half("mean")
    (True, False)
    """
    return name.endswith((", half 1", ", half 2"))
