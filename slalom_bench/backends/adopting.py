"""Python objects as models: a callable, a transformers model with its tokenizer or a pipeline, a scikit-learn one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from slalom_bench.backends.callable_backend import wrap
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.backend import Backend
from slalom_bench.handle.classifier import Classifier

TAKEN = (
    "a reference (`mini-bert`), a handle, a backend, a function of texts that returns log-odds, a transformers "
    "pipeline or (model, tokenizer), or a scikit-learn pipeline of texts"
)


def adopt(model: Any, class_names: Sequence[str] = ()) -> Backend:
    """The backend of whatever a user may call a model.

    Args:
        model: a handle (`slalom_bench.wrap`), a backend, a callable from texts to log-odds of class 1, a transformers
            text-classification pipeline or a (model, tokenizer) pair, or a fitted scikit-learn classifier of texts.
        class_names: the classes of a callable, two unless given; the others know theirs.

    Returns:
        The backend, in the form that the handle takes.
    """
    if isinstance(model, Classifier):
        return model.backend
    if all(hasattr(model, name) for name in ("logits", "identity", "tokens", "capabilities")):
        backend: Backend = model
        return backend
    if isinstance(model, tuple) and len(model) == 2:
        return _transformers(*model)
    if hasattr(model, "tokenizer") and hasattr(model, "model"):
        return _transformers(model.model, model.tokenizer)
    if hasattr(model, "predict_proba") or hasattr(model, "decision_function"):
        return _scikit(model)
    if callable(model) and not hasattr(model, "state_dict"):
        names = tuple(class_names) or ("negative", "positive")
        output = "log_odds" if len(names) == 2 else "logits"
        return wrap(model, class_names=names, output=output, name=_name(model)).backend
    hint = "; it needs its tokenizer: model=(model, tokenizer)" if hasattr(model, "state_dict") else ""
    raise InvalidInput(f"a {type(model).__name__} is no model: give {TAKEN}{hint}")


def _name(model: Any) -> str:
    """What results call a Python object: letters, digits and dashes of its name."""
    said = getattr(model, "__name__", type(model).__name__)
    return re.sub(r"[^a-z0-9]+", "-", said.lower()).strip("-") or "callable"


def _transformers(module: Any, tokenizer: Any) -> Backend:
    from slalom_bench.backends.torch_backend import HFBackend
    from slalom_bench.core.tokens import HFTokens

    config = getattr(module, "config", None)
    if config is None or not hasattr(module, "state_dict"):
        raise InvalidInput(f"a {type(module).__name__} is no transformers model; give {TAKEN}")
    labels = getattr(config, "id2label", None) or {}
    names = [str(labels.get(i, i)) for i in range(max(int(config.num_labels), 2))]
    if module.training:
        raise InvalidInput(f"the {type(module).__name__} is in training mode (dropout); call its eval() first")
    return HFBackend(module, HFTokens(tokenizer), name=_name(module), class_names=names)


def _scikit(model: Any) -> Backend:
    """By decision values where it has them: a probability of exactly 1 has no log-odds."""
    names = [str(name) for name in model.classes_]
    if hasattr(model, "decision_function") and not hasattr(model, "predict_log_proba"):
        return wrap(model.decision_function, class_names=names, output="logits", name=_name(model)).backend
    return wrap(model.predict_log_proba, class_names=names, output="logits", name=_name(model)).backend
