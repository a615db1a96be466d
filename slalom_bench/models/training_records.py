"""What a model was trained with, in words, from the record beside its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def describe_training(recipe: Mapping[str, Any]) -> str:
    """What a recipe, as it was recorded, did to the texts: deletions that were trained on are no news to the model.

    >>> describe_training({"token_drop": 0.3, "position_jitter": 0.5})
    '30 % of tokens dropped, 50 % of texts at random positions'
    >>> describe_training({"token_drop": 0.0})
    'no tokens dropped'
    """
    share = float(recipe["token_drop"])
    said = f"{100 * share:.3g} % of tokens dropped" if share else "no tokens dropped"
    jitter = float(recipe.get("position_jitter", 0.0))
    return f"{said}, {100 * jitter:.3g} % of texts at random positions" if jitter else said


def recorded_training(directory: Path) -> str:
    """`describe_training` of the record beside a checkpoint: our `training.json` or a card's recipe; else nothing."""
    for name, keys in (("training.json", ("identity", "recipe")), ("card.json", ("recipe",))):
        try:
            found = json.loads((directory / name).read_text(encoding="utf-8"))
            for key in keys:
                found = found[key]
            return describe_training(found)
        except (OSError, ValueError, KeyError, TypeError):  # no record, or none of ours
            continue
    return ""
