"""A progress bar in a notebook: one output that is written over, without widgets or their extension."""

from __future__ import annotations

import time
from html import escape
from typing import Any

EVERY = 0.25
"""Seconds between two writings: a fast run must not flood the notebook."""


class NotebookBar:
    """How many of a run's samples are done, and what is being done."""

    def __init__(self, samples: int) -> None:
        from IPython.display import display

        self.done, self.samples, self.title = 0, samples, ""
        self._begun, self._written = time.monotonic(), 0.0
        self._handle: Any = display(self.page(), raw=True, display_id=True)

    def page(self) -> dict[str, str]:
        """The bar, for a notebook and for what shows text alone."""
        left = ""
        if 0 < self.done < self.samples:
            elapsed = time.monotonic() - self._begun
            left = f", about {elapsed / self.done * (self.samples - self.done):.0f} s left at this pace"
        said = f"{self.done} of {self.samples} samples{left}"
        bar = f'<progress value="{self.done}" max="{max(self.samples, 1)}"></progress>'
        return {"text/html": f"{bar} {said} <small>{escape(self.title)}</small>", "text/plain": f"{said} {self.title}"}

    def show(self) -> None:
        """Write it over, if it was not written just now."""
        if time.monotonic() - self._written > EVERY:
            self._written = time.monotonic()
            self._handle.update(self.page(), raw=True)

    def close(self) -> None:
        """Take it away: what the run says afterwards is enough."""
        self._handle.update({"text/html": "", "text/plain": ""}, raw=True)
