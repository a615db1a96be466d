"""slalom-bench: which token attribution explains a transformer best, and at what cost."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

# In a checkout tasks/, explainers/ and metrics/ stand beside this folder; installed, they are inside it.
_ROOT = Path(__file__).resolve().parent.parent
if not (_ROOT / "slalom_bench" / "explainers").exists() and (_ROOT / "explainers" / "__init__.py").is_file():
    __path__.append(str(_ROOT))

from slalom_bench.core.types import Example, Explanation, Sample, Score  # noqa: E402
from slalom_bench.core.version import VERSION as __version__  # noqa: E402
from slalom_bench.registry import explainer, metric, model, removal, surrogate, task  # noqa: E402
from slalom_bench.surrogates.linear import LinearSurrogate  # noqa: E402
from slalom_bench.surrogates.slalom import SlalomSurrogate  # noqa: E402

if TYPE_CHECKING:
    from slalom_bench.api import run
    from slalom_bench.backends.callable_backend import wrap
    from slalom_bench.contract.checking import check
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.showing.explaining import explain

__all__ = [
    "Classifier",
    "Example",
    "Explanation",
    "LinearSurrogate",
    "Sample",
    "Score",
    "SlalomSurrogate",
    "__version__",
    "check",
    "explain",
    "explainer",
    "metric",
    "model",
    "removal",
    "run",
    "surrogate",
    "task",
    "wrap",
]

_LAZY = {
    "Classifier": "handle.classifier",
    "check": "contract.checking",
    "explain": "showing.explaining",
    "run": "api",
    "wrap": "backends.callable_backend",
}


def __getattr__(name: str) -> Any:
    """Heavy names are imported when they are first used."""
    if name in _LAZY:
        return getattr(importlib.import_module(f"slalom_bench.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'slalom_bench' has no attribute {name!r}")
