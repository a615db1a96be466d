"""slalom-bench: which token attribution explains a transformer best, and at what cost."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from slalom_bench.core.types import Example, Explanation, Sample, Score
from slalom_bench.registry import explainer, metric, model, task
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.api import run
    from slalom_bench.backends.callable_backend import wrap
    from slalom_bench.contract import check
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.showing.explaining import explain

__version__ = "0.1.0"
__all__ = [
    "Classifier", "Example", "Explanation", "LinearSurrogate", "Sample", "Score", "SlalomSurrogate",
    "check", "explain", "explainer", "metric", "model", "run", "task", "wrap",
]

_LAZY = {
    "Classifier": "classifier", "check": "contract", "explain": "showing.explaining", "run": "api",
    "wrap": "backends.callable_backend",
}


def __getattr__(name: str) -> Any:
    """Heavy names are imported when they are first used."""
    if name in _LAZY:
        return getattr(importlib.import_module(f"slalom_bench.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'slalom_bench' has no attribute {name!r}")
