"""Models by name: `load` gives a backend, `resolve` a stand-in for what cannot be had, `availability` what is here."""

from __future__ import annotations

from slalom_bench.models.base import Availability, ModelOptions

__all__ = ["Availability", "ModelOptions"]
