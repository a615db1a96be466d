"""Explainers by reference, as a run builds them: with the run's protocol where they take one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from slalom_bench import registry
from slalom_bench.core.protocols import is_paper

if TYPE_CHECKING:
    from slalom_bench.core.references import Ref


def build_explainer(ref: Ref, protocol: str) -> Any:
    """The explainer with its parameters, told of the paper protocol if it knows one and was not told otherwise.

    The protocol is part of a cell's identity already, so it is added here and not to the parameters of the suite.
    """
    entry = registry.explainers.get(ref.name)
    told = is_paper(protocol) and "protocol" in inspect.signature(entry.factory).parameters
    return entry.build({"protocol": protocol, **ref.params} if told else ref.params)
