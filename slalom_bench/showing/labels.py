"""Where the names of points in a scatter plot go, so that no two of them overlap."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels; y grows upwards or downwards, it does not matter."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Whether two boxes share an inner point."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top

    def inside(self, other: Box) -> bool:
        """Whether a box lies within another."""
        across = self.left >= other.left and self.right <= other.right
        return across and self.bottom >= other.bottom and self.top <= other.top


def place(
    points: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]], area: Box, gap: float = 6.0
) -> list[Box | None]:
    """A box for each label beside its point, or None where every place is taken. The first labels choose first."""
    taken = [Box(x - gap / 2, y - gap / 2, x + gap / 2, y + gap / 2) for x, y in points]
    found: list[Box | None] = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        centres = [
            (x + gap + width / 2, y),
            (x - gap - width / 2, y),
            (x, y + gap + height / 2),
            (x, y - gap - height / 2),
        ]
        boxes = [Box(a - width / 2, b - height / 2, a + width / 2, b + height / 2) for a, b in centres]
        free = (box for box in boxes if box.inside(area) and not any(box.overlaps(other) for other in taken))
        box = next(free, None)
        found.append(box)
        if box is not None:
            taken.append(box)
    return found


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a proportional font of that size."""
    wide = sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.58 for c in text if not unicodedata.combining(c))
    return size * wide


def shorten(text: str, length: int = 18) -> str:
    """Long tokens (a URL, say) cut for a label."""
    return text if len(text) <= length else text[: length - 1] + "…"
