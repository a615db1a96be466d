"""slalom-bench: which token attribution explains a transformer best, and at what cost."""

from __future__ import annotations

from slalom_bench.registry import explainer, metric, model, task
from slalom_bench.surrogates import LinearSurrogate, SlalomSurrogate
from slalom_bench.types import Example, Explanation, Sample, Score

__version__ = "0.1.0"
__all__ = [
    "Example", "Explanation", "LinearSurrogate", "Sample", "Score", "SlalomSurrogate",
    "explainer", "metric", "model", "task",
]
