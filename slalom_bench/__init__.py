"""slalom-bench: which token attribution explains a transformer best, and at what cost."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench.core.cores import be_a_guest
from slalom_bench.core.types import Example, Explanation, Sample, Score
from slalom_bench.core.version import VERSION as __version__
from slalom_bench.registry import explainer, law, metric, model, removal, surrogate, task
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

if TYPE_CHECKING:
    from slalom_bench.api import run
    from slalom_bench.backends.callable_backend import wrap
    from slalom_bench.contract.checking import check
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.running.foreign import write_scores
    from slalom_bench.showing.explaining import explain

be_a_guest()

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
    "law",
    "metric",
    "model",
    "removal",
    "run",
    "surrogate",
    "task",
    "wrap",
    "write_scores",
]

_LAZY = {
    "Classifier": "handle.classifier",
    "check": "contract.checking",
    "explain": "showing.explaining",
    "run": "api",
    "wrap": "backends.callable_backend",
    "write_scores": "running.foreign",
}


def __getattr__(name: str) -> Any:
    """Heavy names are imported when they are first used."""
    if name in _LAZY:
        return getattr(importlib.import_module(f"slalom_bench.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'slalom_bench' has no attribute {name!r}")


def _adopt(folder: str) -> None:
    """In a checkout tasks/, explainers/, metrics/ stand beside this package: give them their names in a wheel."""
    here, name = Path(__file__).resolve().parent, f"{__name__}.{folder}"
    outside = here.parent / folder / "__init__.py"
    if name in sys.modules or (here / folder / "__init__.py").is_file() or not outside.is_file():
        return
    spec = importlib.util.spec_from_file_location(name, outside)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = globals()[folder] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


for _folder in ("tasks", "explainers", "metrics"):
    _adopt(_folder)
