"""Explanations computed elsewhere: one JSON object a line, so that a closed method can be scored and ranked.

    {"id": "test-17", "scores": [0.2, -0.1, 0.7]}
    {"id": "test-18", "scores": {"value": [0.2, -0.1], "importance": [0.5, 1.0]}, "primary": "value",
     "unsigned": ["importance"], "target": 1,
     "surrogate": {"kind": "slalom", "value": [0.2, -0.1], "importance": [0.5, 1.0]}}

(each on one line). `id` is the sample's; scores are one number per content token of the model, towards class `target`
(default 1). `unsigned` is true or a list of score names; `primary` (default: the first score) is what tables rank.
`surrogate` predicts log-odds when tokens are deleted: {"kind": "linear"} takes the primary scores as weights unless it
has `weights` of its own, and an `intercept` of 0 unless given; {"kind": "slalom"} has `value`, `importance` and
optionally `anchor` [v, s]. Without one, strict fidelity is undefined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench.core.json_text import parse_json
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.data.tables import read_text
from slalom_bench.errors import InvalidInput, SlalomBenchError, UnknownName
from slalom_bench.running.records import explanation_from_dict

if TYPE_CHECKING:
    from slalom_bench.core.tokens import Tokens
    from slalom_bench.handle.classifier import Classifier

FIELDS = ("id", "scores", "primary", "target", "unsigned", "surrogate", "diagnostics")
UNNAMED = "score"


@dataclass(frozen=True)
class Matched:
    """Explanations joined to the samples they explain."""

    pairs: tuple[tuple[Sample, Explanation], ...]
    missing: tuple[str, ...]
    """Samples without an explanation."""
    unknown: tuple[str, ...]
    """Ids in the file that are no sample of this run."""


def read_explanations(path: Path) -> dict[str, Explanation]:
    """Sample id to explanation; the first bad line is named by its number."""
    if not path.is_file():
        raise InvalidInput(f"{path}: no such file of explanations (JSON lines)")
    found: dict[str, Explanation] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            name, explanation = parse_row(line)
            if name in found:
                raise InvalidInput(f"sample {name!r} is explained twice")
        except SlalomBenchError as error:
            raise InvalidInput(f"{path.name}: line {number}: {error}") from error
        found[name] = explanation
    if not found:
        raise InvalidInput(f"{path.name}: no explanations in it; one JSON object a line is expected")
    return found


def parse_row(line: str) -> tuple[str, Explanation]:
    """One line of the format above."""
    try:
        row = parse_json(line)
    except ValueError as error:
        raise InvalidInput(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InvalidInput(f"a JSON {type(row).__name__}, not an object")
    for field in row:
        if field not in FIELDS:
            raise UnknownName("field", field, FIELDS)
    name = row.get("id")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"`id` must be a sample's id in quotes, not {name!r}")
    scores = row.get("scores")
    if isinstance(scores, list):
        scores = {UNNAMED: scores}
    if not isinstance(scores, dict) or not all(scores.values()) or not scores:
        raise InvalidInput("`scores` must be a list of numbers, not empty, or an object of such lists by name")
    primary = row.get("primary", next(iter(scores)))
    return name, explanation_from_dict(
        {
            "scores": scores,
            "primary": primary,
            "target": row.get("target", 1),
            "diagnostics": row.get("diagnostics", {}),
            "unsigned": names_of(row.get("unsigned", False), scores),
            "surrogate": surrogate_of(row.get("surrogate"), scores.get(primary)),
        }
    )


def names_of(unsigned: Any, scores: Mapping[str, Any]) -> list[str]:
    """Names of the unsigned scores: all for true, none for false, or as listed."""
    if isinstance(unsigned, bool):
        return list(scores) if unsigned else []
    if not isinstance(unsigned, list) or not all(isinstance(name, str) for name in unsigned):
        raise InvalidInput(f"`unsigned` must be true, false or a list of score names, not {unsigned!r}")
    return unsigned


def surrogate_of(surrogate: Any, weights: Any) -> Any:
    """The surrogate as stored explanations have it, a linear one's defaults filled in."""
    if surrogate is None:
        return None
    if not isinstance(surrogate, dict) or "kind" not in surrogate:
        raise InvalidInput('`surrogate` must be an object with a "kind": linear or slalom')
    return {"weights": weights, "intercept": 0.0, **surrogate} if surrogate["kind"] == "linear" else surrogate


def match(explanations: Mapping[str, Explanation], samples: Iterable[Sample]) -> Matched:
    """Join by id. A wrong number of scores is an error: it means another tokenizer or another cut."""
    known = {sample.id: sample for sample in samples}
    pairs = tuple((sample, explanations[name]) for name, sample in known.items() if name in explanations)
    for sample, explanation in pairs:
        if len(explanation) != len(sample):
            raise InvalidInput(
                f"sample {sample.id}: {len(explanation)} scores for {len(sample)} content tokens; "
                "scores must follow this model's tokens, without special ones"
            )
    missing = tuple(name for name in known if name not in explanations)
    return Matched(pairs, missing, tuple(name for name in explanations if name not in known))


def check_targets(pairs: Iterable[tuple[Sample, Explanation]], classifier: Classifier, target: int | None) -> None:
    """Refuse explanations of another class than the run's: their scores would stand beside those of the right one."""
    for sample, explanation in pairs:
        wanted = classifier.default_target(sample) if target is None else target
        if explanation.target != wanted:
            raise InvalidInput(
                f"sample {sample.id}: its `target` is class {explanation.target}, but class {wanted} "
                f"({classifier.class_names[wanted]}) is explained here; give --target, or explain that class"
            )


def describe(sample: Sample, tokens: Tokens, target: int) -> dict[str, Any]:
    """What an outside method needs to explain a sample: id, text, class, and content tokens with their places."""
    return {
        "id": sample.id,
        "text": sample.text,
        "target": target,
        "ids": sample.ids.tolist(),
        "tokens": tokens.words(sample.ids),
        "offsets": None if sample.offsets is None else sample.offsets.tolist(),
    }
